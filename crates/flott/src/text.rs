//! Records as text for people, as SQL writes them: [`cells`].

use arrow_array::Array;
use flott_core::Result;
use flott_datastream::record::{Record, to_columns};
use flott_formats::text::{Style, write_value};

/// The values of each row, one text a column; NULL is an empty text.
///
/// ```
/// let rows = [("JFK".to_owned(), flott::Timestamp(1_357_016_400_000), Some(0.5)), ("LGA".to_owned(), flott::Timestamp(0), None)];
/// assert_eq!(flott::text::cells(&rows)?[0], ["JFK", "2013-01-01 05:00:00", "0.5"]);
/// assert_eq!(flott::text::cells(&rows)?[1], ["LGA", "1970-01-01 00:00:00", ""]);
/// # Ok::<(), flott::Error>(())
/// ```
pub fn cells<T: Record>(rows: &[T]) -> Result<Vec<Vec<String>>> {
    let columns = to_columns(rows);
    let cell = |column: &dyn Array, row| {
        let mut text = String::new();
        if !column.is_null(row) {
            write_value(column, row, Style::Sql, &mut text)?;
        }
        Ok(text)
    };
    (0..rows.len()).map(|row| columns.iter().map(|column| cell(column.as_ref(), row)).collect()).collect()
}
