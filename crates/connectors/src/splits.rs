//! The enumerator of bounded sources that know all their splits at the start: [`PendingSplits`].

use std::collections::VecDeque;

use flott_core::{NextSplit, Result, Split, SplitEnumerator, StoredForm};

/// The list; a split's position has the version of its source.
const LEFT: StoredForm = StoredForm::new("the splits that are left", 1);

/// Deals out splits in order, each to the first reader that asks.
pub(crate) struct PendingSplits(VecDeque<Split>);

impl PendingSplits {
    pub(crate) fn new(splits: impl IntoIterator<Item = Split>) -> Self {
        Self(splits.into_iter().collect())
    }

    pub(crate) fn restore(bytes: &[u8]) -> Result<Self> {
        LEFT.decode(bytes).map(Self)
    }
}

impl SplitEnumerator for PendingSplits {
    fn next_split(&mut self, _reader: u32, _parallelism: u32) -> Result<NextSplit> {
        Ok(self.0.pop_front().map_or(NextSplit::NoMore, NextSplit::Split))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        LEFT.encode(&self.0)
    }
}
