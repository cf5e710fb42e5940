//! Rows: [`Record`], implemented by `#[derive(Record)]` for structs, and here for single values and tuples.
//!
//! Columns are found by position, so a batch may have more columns behind those of the record (the hidden key of a
//! keyed edge).

use std::sync::Arc;

use arrow_array::Array;
use flott_core::state::StateValue;
use flott_core::{Error, Result};

#[doc(no_inline)]
pub use arrow_array::ArrayRef;
#[doc(no_inline)]
pub use arrow_schema::Field;
#[doc(no_inline)]
pub use flott_core::Result as RecordResult;

pub use crate::value::{ColumnBuilder, ColumnReader, Plain, Value};

/// A type that is a row of Arrow columns.
///
/// Derive it for a struct (named fields, or a tuple struct with columns `f0`, `f1` …). Single values are a row of one
/// column `f0`, tuples of up to eight values a row of columns `f0` …
///
/// ```
/// use flott_datastream::{Record, Timestamp};
///
/// #[derive(Record, Debug, PartialEq, Clone)]
/// struct Bid {
///     auction: u64,
///     price: Option<f64>,
///     #[record(rename = "dateTime")]
///     time: Timestamp,
/// }
///
/// let names: Vec<_> = Bid::fields().iter().map(|f| f.name().clone()).collect();
/// assert_eq!(names, ["auction", "price", "dateTime"]);
/// let rows = vec![Bid { auction: 1, price: None, time: Timestamp(5) }];
/// let columns = flott_datastream::record::to_columns(&rows);
/// assert_eq!(flott_datastream::record::from_columns::<Bid>(&columns)?, rows);
/// # Ok::<(), flott_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no record",
    label = "not a record",
    note = "write #[derive(Record)] above a struct of column types; column types and tuples of up to eight are records"
)]
pub trait Record: Sized + Send + 'static {
    /// Collects rows.
    type Builder: RecordBuilder<Self>;
    /// Reads rows.
    type Reader: RecordReader<Self>;
    /// The columns.
    fn fields() -> Vec<Field>;
    /// A reader of these columns; refused where the first of them are not the record's.
    fn reader(columns: &[ArrayRef]) -> Result<Self::Reader>;
    /// Appends the row's stable bytes, as kept in state: its values one after the other.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads what [`Record::write`] wrote off the front of `bytes`.
    fn read(bytes: &mut &[u8]) -> Result<Self>;
}

/// Collects rows into columns.
pub trait RecordBuilder<T>: Default + Send {
    /// Makes room for so many rows more.
    fn reserve(&mut self, rows: usize);
    /// Adds a row.
    fn append(&mut self, row: &T);
    /// Adds rows, a column at a time.
    fn extend(&mut self, rows: &[T]);
    /// The columns, added to `out`; the builder is empty again.
    fn finish(&mut self, out: &mut Vec<ArrayRef>);
}

/// Reads rows from columns.
pub trait RecordReader<T>: Send {
    /// Row `row`.
    fn get(&self, row: usize) -> T;
}

/// The columns of these rows.
pub fn to_columns<T: Record>(rows: &[T]) -> Vec<ArrayRef> {
    let mut builder = T::Builder::default();
    builder.extend(rows);
    let mut columns = Vec::new();
    builder.finish(&mut columns);
    columns
}

/// The rows of these columns.
pub fn from_columns<T: Record>(columns: &[ArrayRef]) -> Result<Vec<T>> {
    let reader = T::reader(columns)?;
    let rows = columns.first().map_or(0, Array::len);
    Ok((0..rows).map(|row| reader.get(row)).collect())
}

/// A column of type `V`; used by the derive.
pub fn field<V: Value>(name: &str) -> Field {
    Field::new(name, V::data_type(), V::NULLABLE)
}

/// A reader of column `index`, called `name` in the record; used by the derive.
pub fn column<V: Value>(columns: &[ArrayRef], index: usize, name: &str) -> Result<V::Reader> {
    let found = columns.get(index).ok_or_else(|| {
        Error::user(format!("expected at least {} columns, found {}", index + 1, columns.len())).at("column", name)
    })?;
    let expected = V::data_type();
    if !crate::value::is_readable_as(&expected, found.data_type()) {
        let text = format!("expected {expected}, found {}", found.data_type());
        return Err(Error::user(text).at("column", name));
    }
    if let Some(nulls) = found.nulls().filter(|n| !V::NULLABLE && n.null_count() > 0) {
        let row = (0..found.len()).find(|&i| nulls.is_null(i)).unwrap_or(0);
        let text = format!("expected a value of type {expected}, found NULL: make the field an Option");
        return Err(Error::user(text).at("column", name).at("row", row));
    }
    Ok(V::reader(found))
}

/// The builder of a row of one value.
pub struct OneBuilder<B>(B);

impl<B: Default> Default for OneBuilder<B> {
    fn default() -> Self {
        Self(B::default())
    }
}

/// The reader of a row of one value.
pub struct OneReader<R>(R);

impl<V: Value> Record for V {
    type Builder = OneBuilder<V::Builder>;
    type Reader = OneReader<V::Reader>;

    fn fields() -> Vec<Field> {
        vec![field::<V>("f0")]
    }

    fn reader(columns: &[ArrayRef]) -> Result<Self::Reader> {
        column::<V>(columns, 0, "f0").map(OneReader)
    }

    fn write(&self, out: &mut Vec<u8>) {
        Value::write(self, out);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self> {
        Value::read(bytes)
    }
}

impl<V: Value, B: ColumnBuilder<V>> RecordBuilder<V> for OneBuilder<B> {
    fn reserve(&mut self, rows: usize) {
        self.0.reserve(rows);
    }

    #[inline]
    fn append(&mut self, row: &V) {
        self.0.append(row);
    }

    fn extend(&mut self, rows: &[V]) {
        self.0.extend(rows.iter());
    }

    fn finish(&mut self, out: &mut Vec<ArrayRef>) {
        out.push(self.0.finish());
    }
}

impl<V: Value, R: ColumnReader<V>> RecordReader<V> for OneReader<R> {
    #[inline]
    fn get(&self, row: usize) -> V {
        self.0.get(row)
    }
}

/// The builder of a tuple.
#[derive(Default)]
pub struct TupleBuilder<B>(B);

/// The reader of a tuple.
pub struct TupleReader<R>(R);

macro_rules! tuples {
    ($(($($type:ident $index:tt $name:literal),+))*) => {$(
        impl<$($type: Value),+> Record for ($($type,)+) {
            type Builder = TupleBuilder<($($type::Builder,)+)>;
            type Reader = TupleReader<($($type::Reader,)+)>;

            fn fields() -> Vec<Field> {
                vec![$(field::<$type>($name)),+]
            }

            fn reader(columns: &[ArrayRef]) -> Result<Self::Reader> {
                Ok(TupleReader(($(column::<$type>(columns, $index, $name)?,)+)))
            }

            fn write(&self, out: &mut Vec<u8>) {
                $(Value::write(&self.$index, out);)+
            }

            fn read(bytes: &mut &[u8]) -> Result<Self> {
                Ok(($(<$type as Value>::read(bytes)?,)+))
            }
        }

        impl<$($type: Value),+> RecordBuilder<($($type,)+)> for TupleBuilder<($($type::Builder,)+)> {
            fn reserve(&mut self, rows: usize) {
                $(self.0.$index.reserve(rows);)+
            }

            #[inline]
            fn append(&mut self, row: &($($type,)+)) {
                $(self.0.$index.append(&row.$index);)+
            }

            fn extend(&mut self, rows: &[($($type,)+)]) {
                $(self.0.$index.extend(rows.iter().map(|row| &row.$index));)+
            }

            fn finish(&mut self, out: &mut Vec<ArrayRef>) {
                $(out.push(self.0.$index.finish());)+
            }
        }

        impl<$($type: Value),+> RecordReader<($($type,)+)> for TupleReader<($($type::Reader,)+)> {
            #[inline]
            fn get(&self, row: usize) -> ($($type,)+) {
                ($(self.0.$index.get(row),)+)
            }
        }
    )*};
}

tuples! {
    (A 0 "f0")
    (A 0 "f0", B 1 "f1")
    (A 0 "f0", B 1 "f1", C 2 "f2")
    (A 0 "f0", B 1 "f1", C 2 "f2", D 3 "f3")
    (A 0 "f0", B 1 "f1", C 2 "f2", D 3 "f3", E 4 "f4")
    (A 0 "f0", B 1 "f1", C 2 "f2", D 3 "f3", E 4 "f4", F 5 "f5")
    (A 0 "f0", B 1 "f1", C 2 "f2", D 3 "f3", E 4 "f4", F 5 "f5", G 6 "f6")
    (A 0 "f0", B 1 "f1", C 2 "f2", D 3 "f3", E 4 "f4", F 5 "f5", G 6 "f6", H 7 "f7")
}

/// A row kept in state in its own stable form, so that a record needs no serde.
pub(crate) struct Stored<T>(pub(crate) T);

impl<T: Record> StateValue for Stored<T> {
    /// The columns and their types: a restore refuses rows of other columns.
    fn type_name() -> String {
        let column =
            |f: &Arc<Field>| format!("{} {}{}", f.name(), f.data_type(), if f.is_nullable() { "?" } else { "" });
        let columns: Vec<_> = T::fields().into_iter().map(Arc::new).map(|f| column(&f)).collect();
        format!("row({})", columns.join(", "))
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.0.write(out);
        Ok(())
    }

    fn decode(mut bytes: &[u8]) -> Result<Self> {
        let row = T::read(&mut bytes)?;
        if bytes.is_empty() {
            Ok(Self(row))
        } else {
            Err(Error::external(format!("a stored row has {} bytes too many", bytes.len())).final_())
        }
    }
}
