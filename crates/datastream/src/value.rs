//! Types that are one column: [`Value`], its builder and its reader.
//!
//! Rows made of values are in [`crate::record`]. Adding a column type is one line or one `impl` here.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, BinaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use flott_core::{Error, Result, Timestamp};

/// A type that is one column: booleans, numbers, `String`, `Vec<u8>`, [`Timestamp`] (ms), and `Option` of these for
/// columns with NULL.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no column type",
    label = "not a column type",
    note = "a column is bool, an integer, f32, f64, String, Vec<u8>, Timestamp, or an Option of these"
)]
pub trait Value: Sized + Send + 'static {
    /// Collects values of a column.
    type Builder: ColumnBuilder<Self>;
    /// Reads values of a column.
    type Reader: ColumnReader<Self>;
    /// Whether the column may hold NULL.
    const NULLABLE: bool = false;
    /// The type of the column.
    fn data_type() -> DataType;
    /// A reader of `column`, which has this data type.
    fn reader(column: &ArrayRef) -> Self::Reader;
    /// Appends the value's stable bytes, as kept in state: numbers little-endian, texts behind their length (u32), an
    /// option behind a byte 0 or 1.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads what [`Value::write`] wrote off the front of `bytes`.
    fn read(bytes: &mut &[u8]) -> Result<Self>;
}

/// A [`Value`] that is never NULL, so that an `Option` of it has a meaning.
pub trait Plain: Value {}

/// Collects values of a column.
pub trait ColumnBuilder<V>: Default + Send {
    /// Makes room for so many values more.
    fn reserve(&mut self, _rows: usize) {}
    /// Adds a value.
    fn append(&mut self, value: &V);
    /// Adds NULL.
    fn append_null(&mut self);
    /// Adds values.
    fn extend<'v>(&mut self, values: impl ExactSizeIterator<Item = &'v V>)
    where
        V: 'v,
    {
        self.reserve(values.len());
        values.for_each(|value| self.append(value));
    }
    /// The column; the builder is empty again.
    fn finish(&mut self) -> ArrayRef;
}

/// Reads values of a column.
pub trait ColumnReader<V>: Send {
    /// The value of a row.
    fn get(&self, row: usize) -> V;
}

fn cut() -> Error {
    Error::external("a stored row ends in the middle of a value").final_()
}

/// Takes `N` bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (front, rest) = bytes.split_first_chunk::<N>().ok_or_else(cut)?;
    *bytes = rest;
    Ok(*front)
}

fn write_bytes(value: &[u8], out: &mut Vec<u8>) {
    // A column cannot hold a longer one: its offsets are 32 bits wide.
    out.extend((value.len() as u32).to_le_bytes());
    out.extend(value);
}

fn read_bytes(bytes: &mut &[u8]) -> Result<Vec<u8>> {
    let length = u32::from_le_bytes(take(bytes)?) as usize;
    let (front, rest) = bytes.split_at_checked(length).ok_or_else(cut)?;
    *bytes = rest;
    Ok(front.to_vec())
}

/// The builder of a column of numbers.
pub struct NumberBuilder<A: ArrowPrimitiveType> {
    values: Vec<A::Native>,
    nulls: NullBufferBuilder,
}

impl<A: ArrowPrimitiveType> Default for NumberBuilder<A> {
    fn default() -> Self {
        Self { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }
}

macro_rules! numbers {
    ($($type:ty, $arrow:ty, $to:expr, $from:expr;)*) => {$(
        impl Plain for $type {}

        impl Value for $type {
            type Builder = NumberBuilder<$arrow>;
            type Reader = ScalarBuffer<<$arrow as ArrowPrimitiveType>::Native>;

            fn data_type() -> DataType {
                <$arrow as ArrowPrimitiveType>::DATA_TYPE
            }

            fn reader(column: &ArrayRef) -> Self::Reader {
                column.as_primitive::<$arrow>().values().clone()
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend($to(*self).to_le_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Result<Self> {
                let native = <$arrow as ArrowPrimitiveType>::Native::from_le_bytes(take(bytes)?);
                Ok($from(native))
            }
        }

        impl ColumnBuilder<$type> for NumberBuilder<$arrow> {
            fn reserve(&mut self, rows: usize) {
                self.values.reserve(rows);
            }

            #[inline]
            fn append(&mut self, value: &$type) {
                self.values.push($to(*value));
                self.nulls.append_non_null();
            }

            fn append_null(&mut self) {
                self.values.push(Default::default());
                self.nulls.append_null();
            }

            fn extend<'v>(&mut self, values: impl ExactSizeIterator<Item = &'v $type>) {
                self.nulls.append_n_non_nulls(values.len());
                self.values.extend(values.map(|value| $to(*value)));
            }

            fn finish(&mut self) -> ArrayRef {
                let values = std::mem::take(&mut self.values);
                Arc::new(PrimitiveArray::<$arrow>::new(values.into(), self.nulls.finish()))
            }
        }

        impl ColumnReader<$type> for ScalarBuffer<<$arrow as ArrowPrimitiveType>::Native> {
            #[inline]
            fn get(&self, row: usize) -> $type {
                $from(self[row])
            }
        }
    )*};
}

numbers! {
    i8, Int8Type, std::convert::identity, std::convert::identity;
    i16, Int16Type, std::convert::identity, std::convert::identity;
    i32, Int32Type, std::convert::identity, std::convert::identity;
    i64, Int64Type, std::convert::identity, std::convert::identity;
    u8, UInt8Type, std::convert::identity, std::convert::identity;
    u16, UInt16Type, std::convert::identity, std::convert::identity;
    u32, UInt32Type, std::convert::identity, std::convert::identity;
    u64, UInt64Type, std::convert::identity, std::convert::identity;
    f32, Float32Type, std::convert::identity, std::convert::identity;
    f64, Float64Type, std::convert::identity, std::convert::identity;
    Timestamp, TimestampMillisecondType, Timestamp::millis, Timestamp;
}

impl Plain for bool {}

impl Value for bool {
    type Builder = BooleanBuilder;
    type Reader = BooleanBuffer;

    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn reader(column: &ArrayRef) -> BooleanBuffer {
        column.as_boolean().values().clone()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(bytes: &mut &[u8]) -> Result<Self> {
        Ok(take::<1>(bytes)? != [0])
    }
}

impl ColumnBuilder<bool> for BooleanBuilder {
    #[inline]
    fn append(&mut self, value: &bool) {
        self.append_value(*value);
    }

    fn append_null(&mut self) {
        BooleanBuilder::append_null(self);
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(BooleanBuilder::finish(self))
    }
}

impl ColumnReader<bool> for BooleanBuffer {
    #[inline]
    fn get(&self, row: usize) -> bool {
        self.value(row)
    }
}

impl Plain for String {}

impl Value for String {
    type Builder = StringBuilder;
    type Reader = StringArray;

    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn reader(column: &ArrayRef) -> StringArray {
        column.as_string::<i32>().clone()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self.as_bytes(), out);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self> {
        Self::from_utf8(read_bytes(bytes)?).map_err(|_| Error::external("a stored text is not UTF-8").final_())
    }
}

impl ColumnBuilder<String> for StringBuilder {
    #[inline]
    fn append(&mut self, value: &String) {
        self.append_value(value);
    }

    fn append_null(&mut self) {
        StringBuilder::append_null(self);
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(StringBuilder::finish(self))
    }
}

impl ColumnReader<String> for StringArray {
    #[inline]
    fn get(&self, row: usize) -> String {
        self.value(row).to_owned()
    }
}

impl Plain for Vec<u8> {}

impl Value for Vec<u8> {
    type Builder = BinaryBuilder;
    type Reader = BinaryArray;

    fn data_type() -> DataType {
        DataType::Binary
    }

    fn reader(column: &ArrayRef) -> BinaryArray {
        column.as_binary::<i32>().clone()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self, out);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self> {
        read_bytes(bytes)
    }
}

impl ColumnBuilder<Vec<u8>> for BinaryBuilder {
    #[inline]
    fn append(&mut self, value: &Vec<u8>) {
        self.append_value(value);
    }

    fn append_null(&mut self) {
        BinaryBuilder::append_null(self);
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(BinaryBuilder::finish(self))
    }
}

impl ColumnReader<Vec<u8>> for BinaryArray {
    #[inline]
    fn get(&self, row: usize) -> Vec<u8> {
        self.value(row).to_vec()
    }
}

/// The builder of an optional column.
pub struct OptionBuilder<B>(B);

impl<B: Default> Default for OptionBuilder<B> {
    fn default() -> Self {
        Self(B::default())
    }
}

/// The reader of an optional column.
pub struct OptionReader<R> {
    values: R,
    nulls: Option<NullBuffer>,
}

impl<V: Plain> Value for Option<V> {
    type Builder = OptionBuilder<V::Builder>;
    type Reader = OptionReader<V::Reader>;
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        V::data_type()
    }

    fn reader(column: &ArrayRef) -> Self::Reader {
        OptionReader { values: V::reader(column), nulls: column.nulls().cloned() }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(bytes: &mut &[u8]) -> Result<Self> {
        if take::<1>(bytes)? == [0] { Ok(None) } else { V::read(bytes).map(Some) }
    }
}

impl<V: Plain, B: ColumnBuilder<V>> ColumnBuilder<Option<V>> for OptionBuilder<B> {
    fn reserve(&mut self, rows: usize) {
        self.0.reserve(rows);
    }

    #[inline]
    fn append(&mut self, value: &Option<V>) {
        match value {
            Some(value) => self.0.append(value),
            None => self.0.append_null(),
        }
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }
}

impl<V: Plain, R: ColumnReader<V>> ColumnReader<Option<V>> for OptionReader<R> {
    #[inline]
    fn get(&self, row: usize) -> Option<V> {
        match &self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.values.get(row)),
        }
    }
}

/// Whether a column of type `found` can be read as one of type `expected`: the zone of a timestamp does not matter.
pub(crate) fn is_readable_as(expected: &DataType, found: &DataType) -> bool {
    match (expected, found) {
        (DataType::Timestamp(TimeUnit::Millisecond, _), DataType::Timestamp(TimeUnit::Millisecond, _)) => true,
        _ => expected == found,
    }
}
