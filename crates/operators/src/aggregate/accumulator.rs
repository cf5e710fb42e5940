//! Accumulators: a dense vector in the state for each, a tight loop over a column to add to it.
//!
//! Booleans are kept as bytes, text as the bytes it is made of.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, Int64Array, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Schema, TimeUnit};
use flott_core::state::columns::{DenseColumn, ValueColumn};
use flott_core::state::{Handle, KeyedState, TableId, ValueState};
use flott_core::{Batch, Error, Result, Slot};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What an accumulator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    Sum,
    Min,
    Max,
    First,
    Last,
}

type State = dyn KeyedState + 'static;

/// One accumulator a slot.
pub(super) trait Accumulator: Send {
    /// Adds each row to its slot.
    fn add(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<()>;
    /// Adds each row to its slot; what the slot holds after each.
    fn add_running(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<ArrayRef>;
    /// What these slots hold.
    fn values(&self, state: &State, slots: &[Slot]) -> Result<ArrayRef>;
}

/// Calls `$make` with the Arrow type of every column that is kept as a number.
macro_rules! primitive_types {
    ($data_type:expr, $make:ident, $other:expr) => {
        match $data_type {
            DataType::Int8 => $make!(Int8Type),
            DataType::Int16 => $make!(Int16Type),
            DataType::Int32 => $make!(Int32Type),
            DataType::Int64 => $make!(Int64Type),
            DataType::UInt8 => $make!(UInt8Type),
            DataType::Float32 => $make!(Float32Type),
            DataType::Float64 => $make!(Float64Type),
            DataType::Decimal128(..) => $make!(Decimal128Type),
            DataType::Date32 => $make!(Date32Type),
            DataType::Time32(TimeUnit::Second) => $make!(Time32SecondType),
            DataType::Time32(TimeUnit::Millisecond) => $make!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => $make!(Time64MicrosecondType),
            DataType::Time64(TimeUnit::Nanosecond) => $make!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => $make!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $make!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $make!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $make!(TimestampNanosecondType),
            _ => $other,
        }
    };
}

/// The type a column is kept as.
fn kept_as(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Boolean => &DataType::UInt8,
        DataType::Utf8 => &DataType::Binary,
        other => other,
    }
}

/// Whether there are MIN, MAX, FIRST and LAST of this type.
pub(super) fn can_keep(data_type: &DataType) -> bool {
    macro_rules! yes {
        ($t:ty) => {
            true
        };
    }
    primitive_types!(kept_as(data_type), yes, matches!(data_type, DataType::Utf8 | DataType::Binary))
}

/// Opens an accumulator in `table`, named by what it does. `keys` are the columns of the key.
pub(super) fn open(
    kind: Kind,
    column: Option<usize>,
    input: &Schema,
    keys: &[usize],
    state: &mut State,
    table: TableId,
) -> Result<Box<dyn Accumulator>> {
    let Some(column) = column else {
        return Ok(Box::new(Count { column: None, handle: state.open(table, "count(*)", DenseColumn::default())? }));
    };
    let name = state_name(kind, column, input);
    let data_type = input.field(column).data_type();
    let kept = kept_as(data_type);
    let of_key = keys.contains(&column) && is_one_value(kind, data_type);
    macro_rules! fold {
        ($fold:ty) => {
            Ok(Box::new(Folded::<$fold>::open(column, of_key, data_type, &name, state, table)?))
        };
    }
    macro_rules! least {
        ($t:ty) => {
            fold!(Least<$t>)
        };
    }
    macro_rules! greatest {
        ($t:ty) => {
            fold!(Greatest<$t>)
        };
    }
    macro_rules! first {
        ($t:ty) => {
            fold!(First<$t>)
        };
    }
    macro_rules! last {
        ($t:ty) => {
            fold!(Last<$t>)
        };
    }
    let unusable = || Err(Error::internal(format!("{kind:?} of {data_type}")));
    match (kind, kept) {
        (Kind::Count, _) => {
            Ok(Box::new(Count { column: Some(column), handle: state.open(table, &name, DenseColumn::default())? }))
        }
        (Kind::Sum, DataType::Int8) => fold!(WrappingSum<Int8Type>),
        (Kind::Sum, DataType::Int16) => fold!(WrappingSum<Int16Type>),
        (Kind::Sum, DataType::Int32) => fold!(WrappingSum<Int32Type>),
        (Kind::Sum, DataType::Int64) => fold!(WrappingSum<Int64Type>),
        (Kind::Sum, DataType::Float32) => fold!(FloatSum<Float32Type>),
        (Kind::Sum, DataType::Float64) => fold!(FloatSum<Float64Type>),
        (Kind::Sum, DataType::Decimal128(..)) => fold!(DecimalSum),
        (Kind::Sum, _) => unusable(),
        (_, DataType::Binary) => {
            let (data_type, handle) = (data_type.clone(), state.value(table, &name)?);
            Ok(Box::new(Bytes { column, of_key, kind, data_type, handle }))
        }
        (Kind::Min, _) => primitive_types!(kept, least, unusable()),
        (Kind::Max, _) => primitive_types!(kept, greatest, unusable()),
        (Kind::First, _) => primitive_types!(kept, first, unusable()),
        (Kind::Last, _) => primitive_types!(kept, last, unusable()),
    }
}

/// Whether this of a column of the key is the value that every row of the key has. Floats that are the same key may
/// differ.
fn is_one_value(kind: Kind, data_type: &DataType) -> bool {
    matches!(kind, Kind::Min | Kind::Max | Kind::First | Kind::Last) && !data_type.is_floating()
}

/// `sum(price)`; with the position where another column has the same name.
fn state_name(kind: Kind, column: usize, input: &Schema) -> String {
    let name = input.field(column).name();
    let kind = format!("{kind:?}").to_lowercase();
    if input.fields().iter().filter(|f| f.name() == name).count() > 1 {
        format!("{kind}({name}#{column})")
    } else {
        format!("{kind}({name})")
    }
}

fn kept_column(rows: &Batch, column: usize) -> Result<ArrayRef> {
    let array = rows.column(column);
    let kept = kept_as(array.data_type());
    if kept == array.data_type() { Ok(Arc::clone(array)) } else { Ok(arrow_cast::cast(array, kept)?) }
}

/// The NULLs of a column, if it has any.
fn nulls_of(array: &ArrayRef) -> Option<&NullBuffer> {
    array.nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Rows, or rows where a column is not NULL.
struct Count {
    column: Option<usize>,
    handle: Handle<DenseColumn<i64>>,
}

impl Count {
    fn each(&self, state: &mut State, slots: &[Slot], rows: &Batch, mut after: impl FnMut(i64)) -> Result<()> {
        let nulls = self.column.map(|c| rows.column(c)).and_then(nulls_of);
        let dense = state.get_mut(self.handle)?;
        let (values, filled) = (dense.values.as_mut_slice(), dense.filled.as_mut_slice());
        for (row, slot) in slots.iter().enumerate() {
            if nulls.is_none_or(|n| n.is_valid(row)) {
                values[slot.index()] += 1;
                filled[slot.index()] = true;
            }
            after(values[slot.index()]);
        }
        Ok(())
    }
}

impl Accumulator for Count {
    fn add(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<()> {
        self.each(state, slots, rows, |_| {})
    }

    fn add_running(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<ArrayRef> {
        let mut counts = Vec::with_capacity(slots.len());
        self.each(state, slots, rows, |count| counts.push(count))?;
        Ok(Arc::new(Int64Array::from(counts)))
    }

    fn values(&self, state: &State, slots: &[Slot]) -> Result<ArrayRef> {
        let dense = state.get(self.handle)?;
        Ok(Arc::new(slots.iter().map(|slot| dense.values[slot.index()]).collect::<Int64Array>()))
    }
}

/// How a value changes what is kept.
trait Fold: Send + 'static {
    /// The column.
    type In: ArrowPrimitiveType;
    /// What is kept.
    type Kept: ArrowPrimitiveType<Native: Serialize + DeserializeOwned>;
    /// Adds `value` to `kept`, which is zero where nothing is `filled` in yet.
    fn add(kept: &mut Native<Self::Kept>, filled: bool, value: Native<Self::In>);
}

type Native<T> = <T as ArrowPrimitiveType>::Native;

/// An accumulator of fixed size.
struct Folded<F: Fold> {
    column: usize,
    /// What is kept is the same in all rows of the slot: it is set once and read from the rows.
    of_key: bool,
    /// Of what is kept.
    data_type: DataType,
    handle: Handle<DenseColumn<Native<F::Kept>>>,
}

impl<F: Fold> Folded<F> {
    fn open(column: usize, of_key: bool, of: &DataType, name: &str, state: &mut State, table: TableId) -> Result<Self> {
        let kept = kept_as(of);
        let data_type = if F::Kept::DATA_TYPE == F::In::DATA_TYPE { kept.clone() } else { F::Kept::DATA_TYPE };
        Ok(Self { column, of_key, data_type, handle: state.open(table, name, DenseColumn::default())? })
    }

    fn each(
        &self,
        state: &mut State,
        slots: &[Slot],
        rows: &Batch,
        mut after: impl FnMut(Native<F::Kept>, bool),
    ) -> Result<()> {
        let array = kept_column(rows, self.column)?;
        let added = array.as_primitive_opt::<F::In>();
        let added = added.ok_or_else(|| Error::internal(format!("column {} is {}", self.column, array.data_type())))?;
        let dense = state.get_mut(self.handle)?;
        let (values, filled) = (dense.values.as_mut_slice(), dense.filled.as_mut_slice());
        match nulls_of(&array) {
            None => {
                for (slot, &value) in slots.iter().zip(added.values()) {
                    let (kept, filled) = (&mut values[slot.index()], &mut filled[slot.index()]);
                    F::add(kept, *filled, value);
                    *filled = true;
                    after(*kept, true);
                }
            }
            Some(nulls) => {
                for ((slot, &value), valid) in slots.iter().zip(added.values()).zip(nulls) {
                    let (kept, filled) = (&mut values[slot.index()], &mut filled[slot.index()]);
                    if valid {
                        F::add(kept, *filled, value);
                        *filled = true;
                    }
                    after(*kept, *filled);
                }
            }
        }
        Ok(())
    }

    /// Of a column of the key: fills the slots that are new. What the slots hold, row by row, is the column.
    fn fill(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<ArrayRef> {
        let array = kept_column(rows, self.column)?;
        let added = array.as_primitive_opt::<F::In>();
        let added = added.ok_or_else(|| Error::internal(format!("column {} is {}", self.column, array.data_type())))?;
        let dense = state.get_mut(self.handle)?;
        for (row, slot) in slots.iter().enumerate() {
            let filled = &mut dense.filled[slot.index()];
            if !*filled && added.is_valid(row) {
                F::add(&mut dense.values[slot.index()], false, added.value(row));
                *filled = true;
            }
        }
        Ok(array)
    }

    fn array(&self, values: Vec<Native<F::Kept>>, filled: Vec<bool>) -> ArrayRef {
        let nulls = filled.contains(&false).then(|| NullBuffer::from(filled));
        Arc::new(PrimitiveArray::<F::Kept>::new(values.into(), nulls).with_data_type(self.data_type.clone()))
    }
}

impl<F: Fold> Accumulator for Folded<F> {
    fn add(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<()> {
        if self.of_key {
            return self.fill(state, slots, rows).map(drop);
        }
        self.each(state, slots, rows, |_, _| {})
    }

    fn add_running(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<ArrayRef> {
        if self.of_key {
            return self.fill(state, slots, rows);
        }
        let (mut values, mut filled) = (Vec::with_capacity(slots.len()), Vec::with_capacity(slots.len()));
        self.each(state, slots, rows, |value, is_filled| {
            values.push(value);
            filled.push(is_filled);
        })?;
        Ok(self.array(values, filled))
    }

    fn values(&self, state: &State, slots: &[Slot]) -> Result<ArrayRef> {
        let dense = state.get(self.handle)?;
        let values = slots.iter().map(|slot| dense.values[slot.index()]).collect();
        Ok(self.array(values, slots.iter().map(|slot| dense.filled[slot.index()]).collect()))
    }
}

struct WrappingSum<T>(PhantomData<fn() -> T>);

impl<T: ArrowPrimitiveType<Native: Into<i64>>> Fold for WrappingSum<T> {
    type In = T;
    type Kept = Int64Type;
    #[inline]
    fn add(kept: &mut i64, _filled: bool, value: T::Native) {
        *kept = kept.wrapping_add(value.into());
    }
}

struct FloatSum<T>(PhantomData<fn() -> T>);

impl<T: ArrowPrimitiveType<Native: Into<f64>>> Fold for FloatSum<T> {
    type In = T;
    type Kept = Float64Type;
    #[inline]
    fn add(kept: &mut f64, _filled: bool, value: T::Native) {
        *kept += value.into();
    }
}

/// Saturates far outside of 38 digits, where the result is NULL.
struct DecimalSum;

impl Fold for DecimalSum {
    type In = Decimal128Type;
    type Kept = Decimal128Type;
    #[inline]
    fn add(kept: &mut i128, _filled: bool, value: i128) {
        *kept = kept.saturating_add(value);
    }
}

macro_rules! choosing_fold {
    ($name:ident, |$kept:ident, $value:ident| $replaces:expr) => {
        struct $name<T>(PhantomData<fn() -> T>);

        impl<T> Fold for $name<T>
        where
            T: ArrowPrimitiveType<Native: Serialize + DeserializeOwned>,
        {
            type In = T;
            type Kept = T;
            #[inline]
            fn add($kept: &mut T::Native, filled: bool, $value: T::Native) {
                if !filled || $replaces {
                    *$kept = $value;
                }
            }
        }
    };
}

choosing_fold!(Least, |kept, value| value.is_lt(*kept));
choosing_fold!(Greatest, |kept, value| value.is_gt(*kept));
choosing_fold!(First, |kept, value| false);
choosing_fold!(Last, |kept, value| true);

/// The least, greatest, first or last text or bytes.
struct Bytes {
    column: usize,
    /// As of [`Folded`].
    of_key: bool,
    kind: Kind,
    data_type: DataType,
    handle: ValueState<Vec<u8>>,
}

impl Bytes {
    fn each(
        &self,
        state: &mut State,
        slots: &[Slot],
        rows: &Batch,
        mut after: impl FnMut(Option<&[u8]>),
    ) -> Result<()> {
        let array = kept_column(rows, self.column)?;
        let added = array.as_binary_opt::<i32>();
        let added = added.ok_or_else(|| Error::internal(format!("column {} is {}", self.column, array.data_type())))?;
        let column = state.get_mut(self.handle)?;
        for (slot, value) in slots.iter().zip(added) {
            let kept = column.value_mut(*slot);
            if let Some(value) = value {
                match kept {
                    None => *kept = Some(value.to_vec()),
                    Some(old) if self.replaces(old, value) => {
                        old.clear();
                        old.extend_from_slice(value);
                    }
                    Some(_) => {}
                }
            }
            after(kept.as_deref());
        }
        Ok(())
    }

    fn replaces(&self, old: &[u8], new: &[u8]) -> bool {
        match self.kind {
            _ if self.of_key => false,
            Kind::Min => new < old,
            Kind::Max => new > old,
            Kind::Last => true,
            Kind::First | Kind::Count | Kind::Sum => false,
        }
    }

    fn array(&self, mut bytes: BinaryBuilder) -> Result<ArrayRef> {
        Ok(arrow_cast::cast(&bytes.finish(), &self.data_type)?)
    }
}

impl Accumulator for Bytes {
    fn add(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<()> {
        self.each(state, slots, rows, |_| {})
    }

    fn add_running(&self, state: &mut State, slots: &[Slot], rows: &Batch) -> Result<ArrayRef> {
        if self.of_key {
            self.each(state, slots, rows, |_| {})?;
            return Ok(Arc::clone(rows.column(self.column)));
        }
        let mut bytes = BinaryBuilder::new();
        self.each(state, slots, rows, |value| bytes.append_option(value))?;
        self.array(bytes)
    }

    fn values(&self, state: &State, slots: &[Slot]) -> Result<ArrayRef> {
        let column: &ValueColumn<Vec<u8>> = state.get(self.handle)?;
        let mut bytes = BinaryBuilder::new();
        slots.iter().for_each(|slot| bytes.append_option(column.value(*slot)));
        self.array(bytes)
    }
}
