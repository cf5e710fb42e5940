//! Side outputs: [`OutputTag`] names one and its rows' type; [`SideOutputs`] collects what a call gives to them.

use std::any::Any;
use std::marker::PhantomData;

use arrow_schema::SchemaRef;
use flott_core::{Batch, Context, Error, OperatorInfo, OutputId, Result, Timestamp};

use crate::Record;
use crate::stage::{Link, NO_ORIGIN, Rows, encode_rows};

/// Names a side output of rows of type `S`.
///
/// ```
/// use flott_datastream::OutputTag;
/// const REJECTED: OutputTag<String> = OutputTag::new("rejected");
/// assert_eq!(REJECTED.name(), "rejected");
/// ```
pub struct OutputTag<S> {
    name: &'static str,
    rows: PhantomData<fn(S)>,
}

impl<S> OutputTag<S> {
    /// A tag of this name, unique among the tags of a function.
    pub const fn new(name: &'static str) -> Self {
        Self { name, rows: PhantomData }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl<S> Clone for OutputTag<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for OutputTag<S> {}

/// What a call of a function gave to side outputs.
#[derive(Default)]
pub(crate) struct SideOutputs(Vec<Output>);

struct Output {
    tag: String,
    id: OutputId,
    schema: SchemaRef,
    /// Made when the first row comes, which is when its type is known.
    rows: Option<Box<dyn SideRows>>,
}

trait SideRows: Send {
    fn as_any(&mut self) -> &mut dyn Any;
    fn len(&self) -> usize;
    fn encode(&mut self, schema: &SchemaRef) -> Result<Batch>;
}

struct TypedRows<S: Record> {
    rows: Rows<S>,
    builder: S::Builder,
}

impl<S: Record> SideRows for TypedRows<S> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn len(&self) -> usize {
        Link::len(&self.rows)
    }

    fn encode(&mut self, schema: &SchemaRef) -> Result<Batch> {
        encode_rows(&mut self.rows, &mut self.builder, schema, |_, _| Ok(()))
    }
}

impl SideOutputs {
    /// The side outputs that somebody reads.
    pub(crate) fn of(info: &OperatorInfo) -> Self {
        let output = |(tag, schema): &(String, SchemaRef)| {
            Some(Output { tag: tag.clone(), id: info.side_output(tag)?, schema: schema.clone(), rows: None })
        };
        Self(info.side_outputs.iter().filter_map(output).collect())
    }

    /// Adds a row; dropped where nobody reads the output, as in Flink.
    pub(crate) fn add<S: Record>(&mut self, tag: OutputTag<S>, row: S, time: Option<Timestamp>) -> Result<()> {
        let Some(output) = self.0.iter_mut().find(|output| output.tag == tag.name) else { return Ok(()) };
        let rows = output
            .rows
            .get_or_insert_with(|| Box::new(TypedRows::<S> { rows: Rows::default(), builder: S::Builder::default() }));
        let typed = rows
            .as_any()
            .downcast_mut::<TypedRows<S>>()
            .ok_or_else(|| Error::user(format!("two tags of different types are called '{}'", tag.name)))?;
        typed.rows.push(row, time, NO_ORIGIN)
    }

    /// Emits everything.
    pub(crate) fn emit(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        for output in &mut self.0 {
            let Some(rows) = &mut output.rows else { continue };
            while rows.len() > 0 {
                ctx.emit_to(output.id, rows.encode(&output.schema)?);
            }
        }
        Ok(())
    }
}
