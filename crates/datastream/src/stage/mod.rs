//! What a user's function becomes: a [`Stage`] of a fused run. Stages pass native rows ([`Rows`]); Arrow appears only
//! at the two ends of a run.
//!
//! A stage is written as a typed [`Function`], one file each; [`Typed`] hides its types so that stages of different
//! rows stand in one list. Running them is [`fused`]'s; what they do to a stream is said in [`crate::DataStream`].

pub(crate) mod filter;
pub(crate) mod flat_map;
pub(crate) mod fused;
pub(crate) mod key_by;
pub(crate) mod map;
pub(crate) mod process;
pub(crate) mod reduce;
pub(crate) mod request;
pub(crate) mod timestamps;
pub(crate) mod window;

use std::any::Any;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use flott_core::state::Keys;
use flott_core::state::timers::Timer;
use flott_core::{Batch, Context, Error, InputId, Progress, Response, Result, RowKind, Timestamp};

use crate::record::{Record, RecordBuilder, RecordReader};

/// Rows a stage that makes many of one gives out at once, and the most a batch of a run's end has.
pub(crate) const CHUNK_ROWS: usize = 4096;

/// The origin of a row that no row of the run's input gave rise to (a timer did).
pub(crate) const NO_ORIGIN: u32 = u32::MAX;

/// Native rows between two stages, and what travels beside them. The vectors are used again and again.
pub(crate) struct Rows<T> {
    pub(crate) rows: Vec<T>,
    /// Event times in ms, one a row if `timed`, else none.
    pub(crate) times: Vec<i64>,
    pub(crate) timed: bool,
    /// The row of the run's input each row came from, for error messages.
    pub(crate) origins: Vec<u32>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), times: Vec::new(), timed: false, origins: Vec::new() }
    }
}

impl<T> Rows<T> {
    /// Adds a row. All rows between two stages have a time, or none has.
    pub(crate) fn push(&mut self, row: T, time: Option<Timestamp>, origin: u32) -> Result<()> {
        if self.rows.is_empty() {
            self.timed = time.is_some();
        }
        match time {
            Some(time) if self.timed => self.times.push(time.0),
            None if !self.timed => {}
            _ => return Err(Error::internal("rows with and without event time in one batch")),
        }
        self.rows.push(row);
        self.origins.push(origin);
        Ok(())
    }

    /// Takes over times and origins of rows that are replaced one by one.
    fn take_beside<U>(&mut self, other: &mut Rows<U>) {
        self.timed = other.timed;
        std::mem::swap(&mut self.times, &mut other.times);
        std::mem::swap(&mut self.origins, &mut other.origins);
        other.times.clear();
        other.origins.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.times.clear();
        self.origins.clear();
    }
}

/// [`Rows`] of some type.
pub(crate) trait Link: Any + Send {
    /// Rows that wait.
    fn len(&self) -> usize;
}

impl<T: Send + 'static> Link for Rows<T> {
    fn len(&self) -> usize {
        self.rows.len()
    }
}

fn typed<T: Send + 'static>(link: &mut dyn Link) -> Result<&mut Rows<T>> {
    let link: &mut dyn Any = link;
    link.downcast_mut().ok_or_else(|| Error::internal("neighbours of a fused run disagree about their rows"))
}

/// Notes which row of the run's input an error is about; [`fused`] shows the row.
pub(crate) fn at_row(error: Error, origin: u32) -> Error {
    if origin == NO_ORIGIN { error } else { error.at("row", origin) }
}

/// What a stage may touch while it takes rows.
pub(crate) struct Call<'c, 'a> {
    /// The batch the rows were decoded from; only the first stage of a run has it.
    batch: Option<&'c Batch>,
    pub(crate) ctx: &'c mut Context<'a>,
}

impl Call<'_, '_> {
    /// The batch the rows were decoded from, for stages that are the first of their run.
    pub(crate) fn source(&self) -> Result<&Batch> {
        self.batch.ok_or_else(|| Error::internal("a function that begins a run is in the middle of one"))
    }

    /// The keys of the rows; a keyed stage follows an exchange, so it is the first.
    pub(crate) fn keys(&self) -> Result<Keys> {
        self.ctx.keys(InputId(0), self.source()?)
    }
}

/// A user's function on typed rows.
pub(crate) trait Function: Send + 'static {
    /// Rows taken.
    type In: Record;
    /// Rows given.
    type Out: Record;

    /// Obtains state handles.
    fn open(&mut self, _ctx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes all rows of `input`, or some and answers `Again`.
    fn run(
        &mut self,
        input: &mut Rows<Self::In>,
        out: &mut Rows<Self::Out>,
        call: &mut Call<'_, '_>,
    ) -> Result<Progress>;

    /// Timers of this member are due.
    fn on_timers(&mut self, _timers: &[Timer], _out: &mut Rows<Self::Out>, _ctx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// The watermark has risen; called again after `Again`.
    fn on_watermark(&mut self, _at: Timestamp, _out: &mut Rows<Self::Out>, _ctx: &mut Context<'_>) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// A request has been answered.
    fn on_response(&mut self, _response: Response, _out: &mut Rows<Self::Out>) -> Result<()> {
        Err(Error::internal("an answer that nobody asked for"))
    }

    /// Columns behind those of the rows, at the end of a run.
    fn hidden_columns(&mut self, _rows: &[Self::Out], _columns: &mut Vec<ArrayRef>) -> Result<()> {
        Ok(())
    }
}

/// A [`Function`] whose types are hidden: one virtual call a batch.
pub(crate) trait Stage: Send {
    fn new_input(&self) -> Box<dyn Link>;
    fn new_output(&self) -> Box<dyn Link>;
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()>;
    /// Rows of a batch, at the beginning of a run.
    fn decode(&self, batch: &Batch, into: &mut dyn Link) -> Result<()>;
    /// Up to [`CHUNK_ROWS`] rows off the front of `from` as a batch, at the end of a run.
    fn encode(&mut self, from: &mut dyn Link, schema: &SchemaRef) -> Result<Batch>;
    fn run(&mut self, input: &mut dyn Link, out: &mut dyn Link, call: &mut Call<'_, '_>) -> Result<Progress>;
    fn on_timers(&mut self, timers: &[Timer], out: &mut dyn Link, ctx: &mut Context<'_>) -> Result<()>;
    fn on_watermark(&mut self, at: Timestamp, out: &mut dyn Link, ctx: &mut Context<'_>) -> Result<Progress>;
    fn on_response(&mut self, response: Response, out: &mut dyn Link) -> Result<()>;
}

/// A function as a stage.
pub(crate) struct Typed<F: Function> {
    function: F,
    builder: <F::Out as Record>::Builder,
}

impl<F: Function> Typed<F> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, builder: Default::default() }
    }
}

impl<F: Function> Stage for Typed<F> {
    fn new_input(&self) -> Box<dyn Link> {
        Box::new(Rows::<F::In>::default())
    }

    fn new_output(&self) -> Box<dyn Link> {
        Box::new(Rows::<F::Out>::default())
    }

    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        self.function.open(ctx)
    }

    fn decode(&self, batch: &Batch, into: &mut dyn Link) -> Result<()> {
        decode_rows(batch, typed::<F::In>(into)?)
    }

    fn encode(&mut self, from: &mut dyn Link, schema: &SchemaRef) -> Result<Batch> {
        let from = typed::<F::Out>(from)?;
        let function = &mut self.function;
        encode_rows(from, &mut self.builder, schema, |rows, columns| function.hidden_columns(rows, columns))
    }

    fn run(&mut self, input: &mut dyn Link, out: &mut dyn Link, call: &mut Call<'_, '_>) -> Result<Progress> {
        self.function.run(typed(input)?, typed(out)?, call)
    }

    fn on_timers(&mut self, timers: &[Timer], out: &mut dyn Link, ctx: &mut Context<'_>) -> Result<()> {
        self.function.on_timers(timers, typed(out)?, ctx)
    }

    fn on_watermark(&mut self, at: Timestamp, out: &mut dyn Link, ctx: &mut Context<'_>) -> Result<Progress> {
        self.function.on_watermark(at, typed(out)?, ctx)
    }

    fn on_response(&mut self, response: Response, out: &mut dyn Link) -> Result<()> {
        self.function.on_response(response, typed(out)?)
    }
}

/// The rows of a batch. A changelog is refused: a function on rows cannot know what to do with a deletion.
pub(crate) fn decode_rows<T: Record>(batch: &Batch, into: &mut Rows<T>) -> Result<()> {
    if let Some(kinds) = batch.row_kinds()
        && let Some(row) = kinds.iter().position(|&kind| kind != RowKind::Insert as u8)
    {
        let kind = RowKind::from_byte(kinds[row])?.as_str();
        let text =
            format!("expected an insert-only stream, found a row of kind {kind}: functions take rows, not changes");
        return Err(Error::user(text).at("row", row));
    }
    let reader = T::reader(batch.columns().columns())?;
    // A batch of 2^32 rows does not fit in memory.
    let rows = batch.num_rows() as u32;
    into.rows.extend((0..rows as usize).map(|row| reader.get(row)));
    into.origins.extend(0..rows);
    into.timed = batch.event_times().is_some();
    into.times.extend_from_slice(batch.event_times().map_or(&[][..], |times| times));
    Ok(())
}

/// Up to [`CHUNK_ROWS`] rows off the front of `from` as a batch.
pub(crate) fn encode_rows<T: Record>(
    from: &mut Rows<T>,
    builder: &mut T::Builder,
    schema: &SchemaRef,
    hidden: impl FnOnce(&[T], &mut Vec<ArrayRef>) -> Result<()>,
) -> Result<Batch> {
    let rows = from.rows.len().min(CHUNK_ROWS);
    let mut columns = Vec::with_capacity(schema.fields().len());
    builder.extend(&from.rows[..rows]);
    builder.finish(&mut columns);
    hidden(&from.rows[..rows], &mut columns)?;
    let times = from.timed.then(|| from.times[..rows].iter().copied().collect());
    from.rows.drain(..rows);
    from.origins.drain(..rows);
    if from.timed {
        from.times.drain(..rows);
    }
    Ok(Batch::of(schema.clone(), columns, rows)?.with_event_times(times))
}
