//! A user's own way of dealing rows to tasks: [`RowPartitioner`].

use std::marker::PhantomData;

use flott_core::{Batch, Error, Partitioner, Result};

use crate::record::{Record, RecordReader};

pub(crate) struct RowPartitioner<T, F> {
    f: F,
    rows: PhantomData<fn(T)>,
}

impl<T, F> RowPartitioner<T, F> {
    pub(crate) fn new(f: F) -> Self {
        Self { f, rows: PhantomData }
    }
}

impl<T, F> Partitioner for RowPartitioner<T, F>
where
    T: Record,
    F: FnMut(&T, u32) -> u32 + Send,
{
    fn partition(&mut self, batch: &Batch, tasks: u32, out: &mut Vec<u32>) -> Result<()> {
        let reader = T::reader(batch.columns().columns())?;
        for row in 0..batch.num_rows() {
            let task = (self.f)(&reader.get(row), tasks);
            if task >= tasks {
                return Err(Error::user(format!("the partitioner chose task {task}, but there are {tasks} from 0")));
            }
            out.push(task);
        }
        Ok(())
    }
}
