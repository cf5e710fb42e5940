//! From a prepared query to an optimised logical plan: DataFusion's planner, told what Flink's tables, functions and
//! types are. Nothing is executed, and no physical plan is made.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result as DfResult, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF};
use datafusion_optimizer::analyzer::Analyzer;
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::optimize_projections::OptimizeProjections;
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use datafusion_optimizer::{Optimizer, OptimizerContext};
use datafusion_sql::planner::{ParserOptions, SqlToRel};
use sqlparser::ast::{Query, Statement};

use crate::catalog::Catalog;
use crate::functions::{self, FlinkExpressions, FlinkTypes};
use crate::narrowing::hide_narrowing_casts;
use crate::prepare::{find_column, prepare};
use crate::script::{Fault, Result};
use crate::window::WindowPlanner;

/// Plans a query.
pub(crate) fn plan(catalog: &Catalog, mut query: Query) -> Result<LogicalPlan> {
    prepare(&mut query)?;
    let context = Context::new(catalog);
    let options = ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(false)
        .with_map_string_types_to_utf8view(false)
        .with_collect_spans(true);
    let planner = SqlToRel::new_with_options(&context, options);
    let mut written = query.clone();
    let plan = planner.sql_statement_to_plan(Statement::Query(Box::new(query))).map_err(|error| {
        let fault = Fault::from(error);
        match fault.missing_column().and_then(|column| find_column(&mut written, column)) {
            Some(span) => fault.or_at(span),
            None => fault,
        }
    })?;
    optimise(plan, &context.options)
}

fn optimise(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    for_each_expression(&plan, functions::check_alike)?;
    let analyzer = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    let plan = analyzer.execute_and_check(plan, options, |_, _| {})?;
    for_each_expression(&plan, functions::check_casts_and_calls)?;
    let plan = hide_narrowing_casts(plan)?;
    let optimizer = Optimizer::with_rules(vec![
        Arc::new(SimplifyExpressions::new()),
        Arc::new(PushDownFilter::new()),
        Arc::new(OptimizeProjections::new()),
    ]);
    let context = OptimizerContext::new_with_config_options(Arc::new(options.clone()));
    Ok(optimizer.optimize(plan, &context.without_query_execution_start_time(), |_, _| {})?)
}

/// Calls `check` for every expression in every node, with the columns it is over.
fn for_each_expression(plan: &LogicalPlan, check: fn(&Expr, &DFSchema) -> DfResult<()>) -> DfResult<()> {
    plan.apply(|node| {
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        node.apply_expressions(|expr| {
            expr.apply(|inner| {
                check(inner, &schema)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(drop)
}

/// A table as the planner sees it. It takes over no filter: those stay in the plan, above the scan.
struct Columns(SchemaRef);

impl TableSource for Columns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
}

/// What DataFusion's planner asks for.
struct Context<'a> {
    catalog: &'a Catalog,
    options: ConfigOptions,
    expressions: [Arc<dyn ExprPlanner>; 1],
    relations: [Arc<dyn RelationPlanner>; 1],
}

impl<'a> Context<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        let mut options = ConfigOptions::default();
        // A rule that fails is a fault of ours, not something to pass over.
        options.optimizer.skip_failed_rules = false;
        Self { catalog, options, expressions: [Arc::new(FlinkExpressions)], relations: [Arc::new(WindowPlanner)] }
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        let is_default = name.schema().is_none_or(|s| s == "default_database")
            && name.catalog().is_none_or(|c| c == "default_catalog");
        let table = if is_default { self.catalog.get(name.table()) } else { self.catalog.get(&name.to_string()) }?;
        Ok(Arc::new(Columns(table.schema())))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expressions
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(FlinkTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        functions::scalar(name)
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        functions::aggregate(name)
    }

    fn get_window_meta(&self, _name: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        functions::SCALARS.map(str::to_owned).into()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        functions::AGGREGATES.map(str::to_owned).into()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
