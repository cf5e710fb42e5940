//! Keys as bytes, for savepoints and for maps of keys that are no single word: [`KeyCodec`].
//!
//! The form is part of every savepoint and frozen by golden tests. Each column is a tag (0 NULL, 1 a value) and,
//! for a value:
//!
//! | type | bytes |
//! |---|---|
//! | boolean | 0 or 1 |
//! | signed integers, date, time, timestamp, duration, decimal | big-endian at the type's width, top bit flipped |
//! | unsigned integers | big-endian at the type's width |
//! | floats | canonical as in [`crate::key`], big-endian; all bits flipped if negative, else the top bit |
//! | string, bytes | each 0x00 as 0x00 0xFF, then 0x00 0x00 |

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, StringArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};

use crate::key::canonical_float;
use crate::{Error, Result};

/// Turns rows of key columns into canonical bytes and back. The bytes compare as the keys do, column by column
/// (NULL first, NaN last), and two keys are equal exactly when their bytes are.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use arrow_schema::DataType;
/// let codec = flott_core::KeyCodec::new(vec![DataType::Int64])?;
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(-1)]));
/// let mut bytes = Vec::new();
/// codec.encode(&[column.clone()], 1, &mut bytes)?;
/// assert_eq!(bytes, [1, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
/// assert_eq!(codec.decode([&bytes[..], &[0]].into_iter())?[0].as_ref(), &Int64Array::from(vec![Some(-1), None]));
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyCodec {
    types: Vec<DataType>,
    forms: Vec<Form>,
}

/// What the bytes of a value look like.
#[derive(Clone, Copy, Debug)]
enum Form {
    Boolean,
    Integer { width: usize, signed: bool },
    Float32,
    Float64,
    Text,
    Bytes,
}

fn form_of(data_type: &DataType) -> Result<Form> {
    use DataType::*;
    let signed = |width| Ok(Form::Integer { width, signed: true });
    let unsigned = |width| Ok(Form::Integer { width, signed: false });
    crate::check_key_type("of the key", data_type)?;
    match data_type {
        Boolean => Ok(Form::Boolean),
        Int8 => signed(1),
        Int16 => signed(2),
        Int32 | Date32 | Time32(TimeUnit::Second | TimeUnit::Millisecond) => signed(4),
        Int64 | Date64 | Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) | Timestamp(..) | Duration(_) => {
            signed(8)
        }
        Decimal128(..) => signed(16),
        UInt8 => unsigned(1),
        UInt16 => unsigned(2),
        UInt32 => unsigned(4),
        UInt64 => unsigned(8),
        Float32 => Ok(Form::Float32),
        Float64 => Ok(Form::Float64),
        Utf8 => Ok(Form::Text),
        Binary => Ok(Form::Bytes),
        other => Err(Error::user(format!("{other} is no type of a column"))),
    }
}

impl KeyCodec {
    /// A codec for keys of these column types; refused where one cannot be a key.
    pub fn new(types: Vec<DataType>) -> Result<Self> {
        let forms = types.iter().map(form_of).collect::<Result<_>>()?;
        Ok(Self { types, forms })
    }

    /// The column types.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Appends the bytes of one row; [`KeyCodec::encode_all`] is the fast way for many.
    pub fn encode(&self, columns: &[ArrayRef], row: usize, out: &mut Vec<u8>) -> Result<()> {
        self.views(columns)?.iter().for_each(|view| view.encode(row, out));
        Ok(())
    }

    /// Replaces `bytes` by the bytes of all rows and `offsets` by where they are: row `i` is
    /// `bytes[offsets[i]..offsets[i + 1]]`.
    pub fn encode_all(&self, columns: &[ArrayRef], offsets: &mut Vec<usize>, bytes: &mut Vec<u8>) -> Result<()> {
        let views = self.views(columns)?;
        bytes.clear();
        offsets.clear();
        offsets.push(0);
        for row in 0..columns.first().map_or(0, Array::len) {
            views.iter().for_each(|view| view.encode(row, bytes));
            offsets.push(bytes.len());
        }
        Ok(())
    }

    /// Columns of these keys, of the declared types; refused where the bytes are not what `encode` writes.
    pub fn decode<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<_> = self.forms.iter().map(|form| Builder::new(*form)).collect();
        for key in keys {
            let mut rest = key;
            for column in &mut columns {
                rest = column.decode(rest).ok_or_else(|| no_key(&self.types))?;
            }
            if !rest.is_empty() {
                return Err(no_key(&self.types));
            }
        }
        self.types.iter().zip(columns).map(|(data_type, column)| column.finish(data_type)).collect()
    }

    /// The column of which these are the [`crate::key::key_words`]; `nulls` says which rows are NULL.
    pub fn columns_of_words(&self, words: &[u64], nulls: Option<NullBuffer>) -> Result<Vec<ArrayRef>> {
        let ([data_type], [form]) = (&self.types[..], &self.forms[..]) else {
            return Err(Error::internal(format!("a key of {} columns is no single word", self.types.len())));
        };
        let mut values = MutableBuffer::new(words.len() * 8);
        match form {
            Form::Boolean => {
                let values: BooleanBuffer = words.iter().map(|word| *word != 0).collect();
                return Ok(vec![Arc::new(BooleanArray::new(values, nulls))]);
            }
            Form::Integer { width: 1, .. } => words.iter().for_each(|word| values.push(*word as u8)),
            Form::Integer { width: 2, .. } => words.iter().for_each(|word| values.push(*word as u16)),
            Form::Integer { width: 4, .. } => words.iter().for_each(|word| values.push(*word as u32)),
            Form::Integer { width: 8, .. } | Form::Float64 => words.iter().for_each(|word| values.push(*word)),
            Form::Float32 => words.iter().for_each(|word| values.push(f64::from_bits(*word) as f32)),
            Form::Integer { .. } | Form::Text | Form::Bytes => {
                return Err(Error::internal(format!("a key of type {data_type} is no single word")));
            }
        }
        Ok(vec![fixed_width(data_type, words.len(), values.into(), nulls)?])
    }

    fn views<'a>(&self, columns: &'a [ArrayRef]) -> Result<Vec<View<'a>>> {
        if !columns.iter().map(Array::data_type).eq(&self.types) {
            let found: Vec<_> = columns.iter().map(Array::data_type).collect();
            return Err(Error::internal(format!("expected key columns of types {:?}, found {found:?}", self.types)));
        }
        Ok(columns.iter().zip(&self.forms).map(|(column, form)| View::new(column, *form)).collect())
    }
}

fn no_key(types: &[DataType]) -> Error {
    Error::external(format!("stored bytes are no key of types {types:?}")).final_()
}

/// A column to read from, its type looked at once.
struct View<'a> {
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Boolean(&'a BooleanArray),
    Integer { bytes: Buffer, width: usize, flip: u8 },
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
}

impl<'a> View<'a> {
    fn new(column: &'a ArrayRef, form: Form) -> Self {
        let values = match form {
            Form::Boolean => Values::Boolean(column.as_boolean()),
            Form::Integer { width, signed } => {
                let data = column.to_data();
                let bytes = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
                Values::Integer { bytes, width, flip: if signed { 0x80 } else { 0 } }
            }
            Form::Float32 => Values::Float32(column.as_primitive::<Float32Type>().values()),
            Form::Float64 => Values::Float64(column.as_primitive::<Float64Type>().values()),
            Form::Text => Values::Text(column.as_string()),
            Form::Bytes => Values::Bytes(column.as_binary()),
        };
        Self { nulls: column.logical_nulls().filter(|n| n.null_count() > 0), values }
    }

    fn encode(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|n| n.is_null(row)) {
            return out.push(0);
        }
        out.push(1);
        match &self.values {
            Values::Boolean(array) => out.push(u8::from(array.value(row))),
            Values::Integer { bytes, width, flip } => {
                let at = out.len();
                out.extend_from_slice(&bytes[row * width..(row + 1) * width]);
                if cfg!(target_endian = "little") {
                    out[at..].reverse();
                }
                out[at] ^= flip;
            }
            Values::Float32(values) => {
                // Of an f32 the canonical f64 is an f32 again.
                let bits = (f64::from_bits(canonical_float(f64::from(values[row]))) as f32).to_bits();
                out.extend((if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }).to_be_bytes());
            }
            Values::Float64(values) => {
                let bits = canonical_float(values[row]);
                out.extend((if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }).to_be_bytes());
            }
            Values::Text(array) => escape(array.value(row).as_bytes(), out),
            Values::Bytes(array) => escape(array.value(row), out),
        }
    }
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.contains(&0) {
        for part in bytes.split_inclusive(|byte| *byte == 0) {
            out.extend_from_slice(part);
            if part.last() == Some(&0) {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.extend([0, 0]);
}

/// A column being decoded.
struct Builder {
    form: Form,
    valid: Vec<bool>,
    /// Bytes of fixed width (a boolean is one), or of all strings.
    bytes: MutableBuffer,
    /// Ends of the strings; left out for other forms.
    ends: Vec<usize>,
}

impl Builder {
    fn new(form: Form) -> Self {
        Self { form, valid: Vec::new(), bytes: MutableBuffer::new(0), ends: Vec::new() }
    }

    /// Takes one value from the front of `bytes`; `None` if there is none.
    fn decode<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, rest) = bytes.split_first()?;
        self.valid.push(*tag == 1);
        match (tag, self.form) {
            (0, Form::Text | Form::Bytes) => self.ends.push(self.bytes.len()),
            (0, form) => self.bytes.extend_zeros(width_of(form)),
            (1, Form::Text | Form::Bytes) => return self.unescape(rest),
            (1, form) => {
                let (value, rest) = rest.split_at_checked(width_of(form))?;
                self.fixed(value)?;
                return Some(rest);
            }
            _ => return None,
        }
        Some(rest)
    }

    fn fixed(&mut self, value: &[u8]) -> Option<()> {
        match self.form {
            Form::Boolean if value[0] > 1 => return None,
            Form::Integer { signed, .. } => {
                let at = self.bytes.len();
                self.bytes.extend_from_slice(value);
                self.bytes[at] ^= if signed { 0x80 } else { 0 };
                if cfg!(target_endian = "little") {
                    self.bytes[at..].reverse();
                }
            }
            Form::Float32 => {
                let bits = u32::from_be_bytes(value.try_into().ok()?);
                let value = f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits });
                let canonical = f64::from_bits(canonical_float(f64::from(value))) as f32;
                if canonical.to_bits() != value.to_bits() {
                    return None;
                }
                self.bytes.push(value);
            }
            Form::Float64 => {
                let bits = u64::from_be_bytes(value.try_into().ok()?);
                let value = f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits });
                if canonical_float(value) != value.to_bits() {
                    return None;
                }
                self.bytes.push(value);
            }
            Form::Boolean | Form::Text | Form::Bytes => self.bytes.extend_from_slice(value),
        }
        Some(())
    }

    fn unescape<'a>(&mut self, mut bytes: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let zero = bytes.iter().position(|byte| *byte == 0)?;
            let (text, rest) = bytes.split_at(zero);
            let (marker, rest) = rest.split_first_chunk::<2>()?;
            self.bytes.extend_from_slice(text);
            match marker[1] {
                0xff => self.bytes.push(0u8),
                0 => {
                    self.ends.push(self.bytes.len());
                    return Some(rest);
                }
                _ => return None,
            }
            bytes = rest;
        }
    }

    fn finish(self, data_type: &DataType) -> Result<ArrayRef> {
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid.as_slice()));
        match self.form {
            Form::Boolean => {
                let values: BooleanBuffer = self.bytes.iter().map(|byte| *byte == 1).collect();
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            Form::Text | Form::Bytes => {
                let too_large = |_| Error::user("more than 2 GiB of keys at once");
                let ends = self.ends.iter().map(|end| i32::try_from(*end).map_err(too_large));
                let offsets: Vec<i32> = std::iter::once(Ok(0)).chain(ends).collect::<Result<_>>()?;
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let array: Result<ArrayRef, _> = if matches!(self.form, Form::Text) {
                    StringArray::try_new(offsets, self.bytes.into(), nulls).map(|a| Arc::new(a) as _)
                } else {
                    BinaryArray::try_new(offsets, self.bytes.into(), nulls).map(|a| Arc::new(a) as _)
                };
                array.map_err(|e| Error::external(format!("stored bytes are no key: {e}")).final_())
            }
            _ => fixed_width(data_type, self.valid.len(), self.bytes.into(), nulls),
        }
    }
}

fn width_of(form: Form) -> usize {
    match form {
        Form::Boolean => 1,
        Form::Integer { width, .. } => width,
        Form::Float32 => 4,
        Form::Float64 => 8,
        Form::Text | Form::Bytes => 0,
    }
}

fn fixed_width(data_type: &DataType, rows: usize, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build()?;
    Ok(make_array(data))
}
