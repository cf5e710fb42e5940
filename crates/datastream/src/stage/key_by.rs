//! Before a keyed exchange: [`KeyBy`] computes keys and puts them into hidden columns behind those of the row.

use std::marker::PhantomData;

use arrow_array::ArrayRef;
use arrow_schema::Field;
use flott_core::{Progress, Result};

use super::{Call, Function, Rows};
use crate::Record;
use crate::record::RecordBuilder;

/// The hidden columns of a key: `__key0` and so on.
pub(crate) fn key_fields<K: Record>() -> Vec<Field> {
    let hidden = |(index, field): (usize, Field)| field.with_name(format!("__key{index}"));
    K::fields().into_iter().enumerate().map(hidden).collect()
}

pub(crate) struct KeyBy<T, K: Record, F> {
    f: F,
    keys: K::Builder,
    input: PhantomData<fn(T)>,
}

impl<T, K: Record, F> KeyBy<T, K, F> {
    pub(crate) fn new(f: F) -> Self {
        Self { f, keys: K::Builder::default(), input: PhantomData }
    }
}

impl<T, K, F> Function for KeyBy<T, K, F>
where
    T: Record,
    K: Record,
    F: FnMut(&T) -> K + Send + 'static,
{
    type In = T;
    type Out = T;

    fn run(&mut self, input: &mut Rows<T>, out: &mut Rows<T>, _call: &mut Call<'_, '_>) -> Result<Progress> {
        std::mem::swap(input, out);
        Ok(Progress::Done)
    }

    fn hidden_columns(&mut self, rows: &[T], columns: &mut Vec<ArrayRef>) -> Result<()> {
        self.keys.reserve(rows.len());
        for row in rows {
            self.keys.append(&(self.f)(row));
        }
        self.keys.finish(columns);
        Ok(())
    }
}
