//! The window table function TUMBLE in DataFusion's plans: how it is planned and the node it becomes.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result as DfResult};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use flott_core::type_name;
use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Spanned, TableFactor,
};
use sqlparser::tokenizer::Span;

use crate::interval::interval_millis;
use crate::script::{Fault, Result, did_you_mean};

/// The function's name.
pub(crate) const TUMBLE: &str = "TUMBLE";

/// The columns a window adds to its input, in this order behind the input's.
pub(crate) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];

/// Rows of the input, each with the window its time falls into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tumble {
    pub(crate) input: LogicalPlan,
    /// A column of the input.
    pub(crate) time: Expr,
    pub(crate) size_ms: i64,
    pub(crate) offset_ms: i64,
    schema: DFSchemaRef,
}

impl Tumble {
    fn new(input: LogicalPlan, time: Expr, size_ms: i64, offset_ms: i64) -> DfResult<Self> {
        let data_type = datafusion_expr::ExprSchemable::get_type(&time, input.schema())?;
        let zone = match data_type {
            DataType::Timestamp(_, zone) => zone,
            _ => None,
        };
        let mut fields: Vec<_> = input.schema().iter().map(|(q, f)| (q.cloned(), Arc::clone(f))).collect();
        let window_time = DataType::Timestamp(TimeUnit::Millisecond, zone);
        let edge = DataType::Timestamp(TimeUnit::Millisecond, None);
        for (name, data_type) in WINDOW_COLUMNS.into_iter().zip([edge.clone(), edge, window_time]) {
            fields.push((None, Arc::new(Field::new(name, data_type, false))));
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, time, size_ms, offset_ms, schema: Arc::new(schema) })
    }
}

impl PartialOrd for Tumble {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Tumble {
    fn name(&self) -> &str {
        "Tumble"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.time.clone()]
    }

    /// A filter on the window stays above it; one on the input's columns may go below.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        WINDOW_COLUMNS.map(str::to_owned).into()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tumble: time={}, size={} ms, offset={} ms", self.time, self.size_ms, self.offset_ms)
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        match (exprs.pop(), inputs.pop()) {
            (Some(time), Some(input)) => Self::new(input, time, self.size_ms, self.offset_ms),
            _ => Err(Fault::internal("TUMBLE without input").into()),
        }
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let input = self.input.schema();
        let Expr::Column(time) = &self.time else { return None };
        let mut needed: Vec<_> = output.iter().copied().filter(|i| *i < input.fields().len()).collect();
        needed.push(input.index_of_column(time).ok()?);
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}

/// Plans `TUMBLE(..)` in FROM, in the one form that `prepare.rs` leaves.
#[derive(Debug)]
pub(crate) struct WindowPlanner;

impl RelationPlanner for WindowPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DfResult<RelationPlanning> {
        let TableFactor::Function { name, args, alias, .. } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let call = Call::read(args, name.span())?;
        let input = context.plan(call.data)?;
        let time = Column::from_name(call.time.value.clone());
        let found = input.schema().iter().find(|(_, field)| *field.name() == time.name);
        let Some((qualifier, field)) = found else {
            let names = input.schema().fields().iter().map(|f| f.name().as_str());
            let hint = did_you_mean(&time.name, names);
            return Err(Fault::new(format!("there is no column '{}'{hint}", time.name), call.time.span).into());
        };
        if !matches!(field.data_type(), DataType::Timestamp(..)) {
            let found = type_name(field.data_type());
            let text = format!("expected a time attribute, found the column {} of type {found}", time.name);
            return Err(Fault::new(text, call.time.span).into());
        }
        let mut time = Column::new(qualifier.cloned(), time.name);
        if let Some(span) = datafusion_common::Span::try_from_sqlparser_span(call.time.span) {
            time.spans.add_span(span);
        }
        let node = Tumble::new(input, Expr::Column(time), call.size_ms, call.offset_ms)?;
        let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// The arguments of a call.
struct Call {
    data: TableFactor,
    time: Ident,
    size_ms: i64,
    offset_ms: i64,
}

const PARAMETERS: [&str; 4] = ["DATA", "TIMECOL", "SIZE", "OFFSET"];

impl Call {
    fn read(args: Vec<FunctionArg>, span: Span) -> Result<Self> {
        let mut given: [Option<ast::Expr>; 4] = [None, None, None, None];
        let count = args.len();
        for (position, arg) in args.into_iter().enumerate() {
            let (position, value) = match arg {
                FunctionArg::Unnamed(value) => (position, value),
                FunctionArg::Named { name, arg, operator: FunctionArgOperator::RightArrow } => {
                    let upper = name.value.to_uppercase();
                    let position = PARAMETERS.iter().position(|p| *p == upper).ok_or_else(|| {
                        let hint = did_you_mean(&upper, PARAMETERS.into_iter());
                        Fault::new(format!("TUMBLE has no parameter {}{hint}", name.value), name.span)
                    })?;
                    (position, arg)
                }
                other => return Err(Fault::new("a named argument is written NAME => value", other.span())),
            };
            let FunctionArgExpr::Expr(value) = value else {
                return Err(expected(span));
            };
            match given.get_mut(position) {
                Some(slot) if slot.is_none() => *slot = Some(value),
                Some(_) => return Err(Fault::new(format!("{} is given twice", PARAMETERS[position]), value.span())),
                None => return Err(Fault::new(format!("expected 3 or 4 arguments of TUMBLE, found {count}"), span)),
            }
        }
        let [Some(data), Some(time), Some(size), offset] = given else {
            return Err(expected(span));
        };
        let size_ms = millis(&size, span)?;
        if size_ms <= 0 {
            return Err(Fault::new("a window needs a positive size", span));
        }
        let offset_ms = offset.map_or(Ok(0), |offset| millis(&offset, span))?;
        Ok(Self { data: table(data, span)?, time: descriptor(&time, span)?, size_ms, offset_ms })
    }
}

fn expected(span: Span) -> Fault {
    Fault::new("expected TUMBLE(TABLE t, DESCRIPTOR(time column), INTERVAL .. [, INTERVAL ..])", span)
}

fn table(data: ast::Expr, span: Span) -> Result<TableFactor> {
    match data {
        ast::Expr::Prefixed { value, .. } => {
            let ast::Expr::CompoundIdentifier(parts) = *value else { return Err(expected(span)) };
            Ok(TableFactor::Table {
                name: ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect()),
                alias: None,
                args: None,
                with_hints: Vec::new(),
                version: None,
                with_ordinality: false,
                partitions: Vec::new(),
                json_path: None,
                sample: None,
                index_hints: Vec::new(),
            })
        }
        ast::Expr::Subquery(subquery) => {
            Ok(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None })
        }
        _ => Err(expected(span)),
    }
}

/// The column in `DESCRIPTOR(column)`; a legacy window may have written `table.column`.
fn descriptor(time: &ast::Expr, span: Span) -> Result<Ident> {
    let ast::Expr::Function(function) = time else { return Err(expected(span)) };
    let FunctionArguments::List(list) = &function.args else { return Err(expected(span)) };
    if !function.name.to_string().eq_ignore_ascii_case("DESCRIPTOR") {
        return Err(expected(span));
    }
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Identifier(column)))] => Ok(column.clone()),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::CompoundIdentifier(parts)))] => {
            parts.last().cloned().ok_or_else(|| expected(span))
        }
        [FunctionArg::Unnamed(other)] => {
            Err(Fault::new(format!("expected a time attribute, found {other}"), function.name.span()))
        }
        _ => Err(expected(span)),
    }
}

fn millis(expr: &ast::Expr, span: Span) -> Result<i64> {
    match expr {
        ast::Expr::Interval(interval) => interval_millis(interval, span),
        other => Err(Fault::new(format!("expected an interval, found {other}"), other.span())),
    }
}
