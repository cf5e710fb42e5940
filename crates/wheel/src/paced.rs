//! The source `paced`: a sequence that goes on with checkpoints. For tests of flott itself: a job with it is in the middle
//! of its rows when a checkpoint is complete, on any machine.

use std::sync::Arc;
use std::task::Waker;

use flott_core::{
    OperatorInfo, ReaderContext, Registry, Result, Source, SourceEvent, SourceReader, Spec, Split, SplitEnumerator,
    Wait,
};

/// Adds it to a registry that has the source `sequence`; its configuration is that one's.
pub(crate) fn register(registry: &mut Registry) {
    let Ok(sequence) = registry.source("sequence").cloned() else { return };
    let paced = move |spec: &Spec| Ok(Box::new(Paced(sequence(spec)?)) as Box<dyn Source>);
    registry.add_source("paced", Arc::new(paced));
}

struct Paced(Box<dyn Source>);

/// Gives a batch, and then one after each snapshot.
struct PacedReader {
    sequence: Box<dyn SourceReader>,
    may_give: bool,
    /// Woken by the next snapshot.
    waits: Option<Waker>,
}

impl Source for Paced {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        self.0.enumerator(restored)
    }

    fn reader(&self, info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(PacedReader { sequence: self.0.reader(info)?, may_give: true, waits: None }))
    }
}

impl SourceReader for PacedReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        self.sequence.add_split(split)
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        if !self.may_give {
            self.waits = Some(ctx.waker.clone());
            return Ok(SourceEvent::Wait(Wait::Waker));
        }
        let event = self.sequence.next_batch(ctx)?;
        self.may_give = !matches!(event, SourceEvent::Batch(..));
        Ok(event)
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        self.may_give = true;
        if let Some(waiting) = self.waits.take() {
            waiting.wake();
        }
        self.sequence.snapshot()
    }
}
