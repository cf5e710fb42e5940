//! Between Arrow columns and lists of Python objects, a whole batch at a time.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, StructArray};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::Fields;
use flott_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyList, PyString, PyTuple};

use crate::{TypeInfo, dynamic, interpreter};

/// The values of a stream of this type, one a row. Columns after those of the type are passed over.
pub fn to_python<'py>(py: Python<'py>, columns: &[ArrayRef], rows: usize, of: &TypeInfo) -> Result<Bound<'py, PyList>> {
    let Some(columns) = columns.get(..of.width()) else {
        return Err(Error::internal(format!("{of} needs {} columns, found {}", of.width(), columns.len())));
    };
    list_of(py, columns, rows, of).map_err(|e| interpreter::exception(py, &e))
}

fn list_of<'py>(py: Python<'py>, columns: &[ArrayRef], rows: usize, of: &TypeInfo) -> PyResult<Bound<'py, PyList>> {
    match of {
        TypeInfo::Tuple(types) => {
            static ZIP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let lists = lists_of(py, columns, rows, types.iter())?;
            // Made by Python's own loop: faster than item by item from here.
            as_list(ZIP.import(py, "flott._run", "tuples")?.call1((lists, rows))?)
        }
        TypeInfo::Row(fields) => {
            static ROWS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let lists = lists_of(py, columns, rows, fields.iter().map(|(_, of)| of))?;
            let names = PyTuple::new(py, fields.iter().map(|(name, _)| name))?;
            as_list(ROWS.import(py, "flott._run", "rows")?.call1((names, lists, rows))?)
        }
        scalar => column_list(py, &columns[0], scalar),
    }
}

fn lists_of<'py, 'a>(
    py: Python<'py>,
    columns: &[ArrayRef],
    rows: usize,
    types: impl Iterator<Item = &'a TypeInfo>,
) -> PyResult<Bound<'py, PyTuple>> {
    let lists = columns.iter().zip(types).map(|(column, of)| match (of, column.data_type()) {
        (TypeInfo::Tuple(_) | TypeInfo::Row(_), _) => {
            let inner = column.as_struct();
            let list = list_of(py, inner.columns(), rows, of)?;
            for row in (0..rows).filter(|&row| inner.is_null(row)) {
                list.set_item(row, py.None())?;
            }
            Ok(list)
        }
        _ => column_list(py, column, of),
    });
    PyTuple::new(py, lists.collect::<PyResult<Vec<_>>>()?)
}

fn as_list(object: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyList>> {
    Ok(object.cast_into::<PyList>()?)
}

fn column_list<'py>(py: Python<'py>, column: &ArrayRef, of: &TypeInfo) -> PyResult<Bound<'py, PyList>> {
    fn numbers<'py, T: ArrowPrimitiveType>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>>
    where
        T::Native: IntoPyObject<'py>,
    {
        let array = column.as_primitive::<T>();
        match array.null_count() {
            0 => PyList::new(py, array.values().iter().copied()),
            _ => PyList::new(py, array.iter()),
        }
    }
    match of {
        TypeInfo::Byte => numbers::<Int8Type>(py, column),
        TypeInfo::Short => numbers::<Int16Type>(py, column),
        TypeInfo::Int => numbers::<Int32Type>(py, column),
        TypeInfo::Long => numbers::<Int64Type>(py, column),
        TypeInfo::Float => numbers::<Float32Type>(py, column),
        TypeInfo::Double => numbers::<Float64Type>(py, column),
        TypeInfo::Boolean => PyList::new(py, column.as_boolean().iter()),
        TypeInfo::String => PyList::new(py, column.as_string::<i32>().iter()),
        TypeInfo::Bytes => {
            PyList::new(py, column.as_binary::<i32>().iter().map(|bytes| bytes.map(|b| PyBytes::new(py, b))))
        }
        TypeInfo::Pickled => {
            let array = column.as_binary::<i32>();
            let object = |bytes: Option<&[u8]>| match bytes {
                Some(bytes) => dynamic::decode(py, bytes),
                None => Ok(py.None().into_bound(py)),
            };
            PyList::new(py, array.iter().map(object).collect::<PyResult<Vec<_>>>()?)
        }
        TypeInfo::Tuple(_) | TypeInfo::Row(_) => list_of(py, column.as_struct().columns(), column.len(), of),
    }
}

/// A value that is not of the declared type.
#[derive(Debug)]
pub struct Misfit {
    /// Its position.
    pub row: usize,
    /// The declared type.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl Misfit {
    /// As an error of the program.
    pub fn error(&self) -> Error {
        Error::user(format!("expected {}, found {}", self.expected, self.found))
    }
}

/// Columns of these values, or the first value that is not of the type.
///
/// As in PyFlink a `bool` is an `int` and an `int` is a `float` where those are declared, a list is a tuple, and
/// anything that says it is a number (numpy's) is one; a `float` is no `int`.
pub fn from_python(values: &Bound<'_, PyList>, of: &TypeInfo) -> Result<Vec<ArrayRef>, Misfit> {
    let rows = values.len();
    let mut columns = Columns::new(of, rows);
    for (row, value) in values.iter().enumerate() {
        columns.push(&value, of).map_err(|(expected, found)| Misfit { row, expected, found })?;
    }
    Ok(columns.finish())
}

/// The hidden columns of these keys, or the first that cannot be one.
pub(crate) fn from_keys(keys: &Bound<'_, PyList>, of: &TypeInfo) -> Result<Vec<ArrayRef>, Misfit> {
    if *of != TypeInfo::Pickled {
        return from_python(keys, of);
    }
    let mut column = BinaryBuilder::with_capacity(keys.len(), keys.len() * 16);
    let mut bytes = Vec::new();
    for (row, key) in keys.iter().enumerate() {
        bytes.clear();
        if !dynamic::encode_key(&key, &mut bytes).unwrap_or(false) {
            let expected = "a key of bool, int of 64 bits, float, str, bytes, None or a tuple of them".to_owned();
            return Err(Misfit { row, expected, found: describe(&key) });
        }
        column.append_value(&bytes);
    }
    Ok(vec![Arc::new(column.finish())])
}

/// (expected, found)
type Wrong = (String, String);

/// The columns of a stream being written: those of a tuple or row, or the one of a scalar.
enum Columns {
    One(Box<Column>),
    Many(Vec<Column>),
}

impl Columns {
    fn new(of: &TypeInfo, rows: usize) -> Self {
        match of {
            TypeInfo::Tuple(types) => Self::Many(types.iter().map(|of| Column::new(of, rows)).collect()),
            TypeInfo::Row(fields) => Self::Many(fields.iter().map(|(_, of)| Column::new(of, rows)).collect()),
            scalar => Self::One(Box::new(Column::new(scalar, rows))),
        }
    }

    #[inline]
    fn push(&mut self, value: &Bound<'_, PyAny>, of: &TypeInfo) -> Result<(), Wrong> {
        match self {
            Self::One(column) => column.push(value, of),
            Self::Many(columns) => push_fields(columns, value, of),
        }
    }

    fn finish(self) -> Vec<ArrayRef> {
        match self {
            Self::One(column) => vec![column.finish()],
            Self::Many(columns) => columns.into_iter().map(Column::finish).collect(),
        }
    }
}

fn push_fields(columns: &mut [Column], value: &Bound<'_, PyAny>, of: &TypeInfo) -> Result<(), Wrong> {
    let wrong = || (of.to_string(), describe(value));
    let items = match value.cast::<PyTuple>() {
        Ok(items) => items.clone(),
        Err(_) => fields_of(value, of).ok_or_else(wrong)?,
    };
    if items.len() != columns.len() {
        return Err((
            format!("{of}, {} fields", columns.len()),
            format!("{} fields: {}", items.len(), describe(value)),
        ));
    }
    match of {
        TypeInfo::Tuple(types) => {
            for (i, (column, of)) in columns.iter_mut().zip(types).enumerate() {
                let item = items.get_item(i).map_err(|_| wrong())?;
                column.push(&item, of).map_err(|wrong| in_field(&i.to_string(), wrong))?;
            }
        }
        TypeInfo::Row(fields) => {
            for (i, (column, (name, of))) in columns.iter_mut().zip(fields).enumerate() {
                let item = items.get_item(i).map_err(|_| wrong())?;
                column.push(&item, of).map_err(|wrong| in_field(name, wrong))?;
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

fn in_field(field: &str, (expected, found): Wrong) -> Wrong {
    (format!("{expected} in field {field}"), found)
}

/// The fields of a list or `Row`; a row with names gives them in the order of the type's.
fn fields_of<'py>(value: &Bound<'py, PyAny>, of: &TypeInfo) -> Option<Bound<'py, PyTuple>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Some(list.to_tuple());
    }
    static FIELDS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let names = match of {
        TypeInfo::Row(fields) => PyTuple::new(py, fields.iter().map(|(name, _)| name)).ok()?,
        _ => PyTuple::empty(py),
    };
    let fields = FIELDS.import(py, "flott._run", "fields").ok()?.call1((value, names)).ok()?;
    fields.cast_into::<PyTuple>().ok()
}

/// One column being written.
enum Column {
    Byte(PrimitiveBuilder<Int8Type>),
    Short(PrimitiveBuilder<Int16Type>),
    Int(PrimitiveBuilder<Int32Type>),
    Long(PrimitiveBuilder<Int64Type>),
    Float(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    Boolean(BooleanBuilder),
    String(StringBuilder),
    Bytes(BinaryBuilder),
    Pickled(BinaryBuilder, Vec<u8>),
    Struct(Fields, Vec<Column>, NullBufferBuilder),
}

impl Column {
    fn new(of: &TypeInfo, rows: usize) -> Self {
        match of {
            TypeInfo::Byte => Self::Byte(PrimitiveBuilder::with_capacity(rows)),
            TypeInfo::Short => Self::Short(PrimitiveBuilder::with_capacity(rows)),
            TypeInfo::Int => Self::Int(PrimitiveBuilder::with_capacity(rows)),
            TypeInfo::Long => Self::Long(PrimitiveBuilder::with_capacity(rows)),
            TypeInfo::Float => Self::Float(PrimitiveBuilder::with_capacity(rows)),
            TypeInfo::Double => Self::Double(PrimitiveBuilder::with_capacity(rows)),
            TypeInfo::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            TypeInfo::String => Self::String(StringBuilder::with_capacity(rows, rows * 8)),
            TypeInfo::Bytes => Self::Bytes(BinaryBuilder::with_capacity(rows, rows * 8)),
            TypeInfo::Pickled => Self::Pickled(BinaryBuilder::with_capacity(rows, rows * 16), Vec::new()),
            TypeInfo::Tuple(types) => {
                let columns = types.iter().map(|of| Self::new(of, rows)).collect();
                Self::Struct(of.fields(), columns, NullBufferBuilder::new(rows))
            }
            TypeInfo::Row(fields) => {
                let columns = fields.iter().map(|(_, of)| Self::new(of, rows)).collect();
                Self::Struct(of.fields(), columns, NullBufferBuilder::new(rows))
            }
        }
    }

    #[inline]
    fn push(&mut self, value: &Bound<'_, PyAny>, of: &TypeInfo) -> Result<(), Wrong> {
        let wrong = || (of.to_string(), describe(value));
        macro_rules! number {
            ($builder:expr) => {
                match value.extract() {
                    Ok(number) => $builder.append_value(number),
                    Err(_) if value.is_none() => $builder.append_null(),
                    Err(_) => return Err(wrong()),
                }
            };
        }
        match self {
            Self::Byte(builder) => number!(builder),
            Self::Short(builder) => number!(builder),
            Self::Int(builder) => number!(builder),
            Self::Long(builder) => number!(builder),
            Self::Float(builder) => match value.extract::<f64>() {
                Ok(number) => builder.append_value(number as f32),
                Err(_) if value.is_none() => builder.append_null(),
                Err(_) => return Err(wrong()),
            },
            Self::Double(builder) => match value.cast_exact::<PyFloat>() {
                Ok(number) => builder.append_value(number.value()),
                Err(_) => number!(builder),
            },
            Self::Boolean(builder) => match value.cast::<PyBool>() {
                Ok(yes) => builder.append_value(yes.is_true()),
                Err(_) if value.is_none() => builder.append_null(),
                Err(_) => return Err(wrong()),
            },
            Self::String(builder) => match value.cast::<PyString>().map(|text| text.to_str()) {
                Ok(Ok(text)) => builder.append_value(text),
                Err(_) if value.is_none() => builder.append_null(),
                Ok(Err(_)) | Err(_) => return Err(wrong()),
            },
            Self::Bytes(builder) => match value.cast::<PyBytes>() {
                Ok(bytes) => builder.append_value(bytes.as_bytes()),
                Err(_) if value.is_none() => builder.append_null(),
                Err(_) => return Err(wrong()),
            },
            Self::Pickled(builder, bytes) => {
                bytes.clear();
                dynamic::encode(value, bytes)
                    .map_err(|e| ("an object that can be pickled".to_owned(), format!("{} ({e})", describe(value))))?;
                builder.append_value(&bytes);
            }
            Self::Struct(_, columns, valid) => {
                if value.is_none() {
                    columns.iter_mut().try_for_each(|column| column.push_null(value))?;
                    valid.append_null();
                } else {
                    push_fields(columns, value, of)?;
                    valid.append_non_null();
                }
            }
        }
        Ok(())
    }

    /// A place that a struct without a value does not show.
    fn push_null(&mut self, none: &Bound<'_, PyAny>) -> Result<(), Wrong> {
        match self {
            Self::Pickled(builder, _) => builder.append_null(),
            Self::Struct(_, columns, valid) => {
                columns.iter_mut().try_for_each(|column| column.push_null(none))?;
                valid.append_null();
            }
            // Any scalar takes `None`, whatever its type is called.
            scalar => scalar.push(none, &TypeInfo::Pickled)?,
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Byte(mut builder) => Arc::new(builder.finish()),
            Self::Short(mut builder) => Arc::new(builder.finish()),
            Self::Int(mut builder) => Arc::new(builder.finish()),
            Self::Long(mut builder) => Arc::new(builder.finish()),
            Self::Float(mut builder) => Arc::new(builder.finish()),
            Self::Double(mut builder) => Arc::new(builder.finish()),
            Self::Boolean(mut builder) => Arc::new(builder.finish()),
            Self::String(mut builder) => Arc::new(builder.finish()),
            Self::Bytes(mut builder) | Self::Pickled(mut builder, _) => Arc::new(builder.finish()),
            Self::Struct(fields, columns, mut valid) => {
                let rows = valid.len();
                let nulls = valid.finish();
                let columns: Vec<_> = columns.into_iter().map(Self::finish).collect();
                if columns.is_empty() {
                    return Arc::new(StructArray::new_empty_fields(rows, nulls));
                }
                Arc::new(StructArray::new(fields, columns, nulls))
            }
        }
    }
}

/// An object for a message: its type and how it looks, cut where it is long.
pub(crate) fn describe(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    if value.is_none() { "None".to_owned() } else { format!("{name} {}", look(value)) }
}

/// How an object looks (`repr`), cut where it is long.
pub(crate) fn look(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 500;
    let text = match value.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(e) => format!("(its repr fails: {e})"),
    };
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}… ({} characters)", &text[..at], text.chars().count()),
        None => text,
    }
}
