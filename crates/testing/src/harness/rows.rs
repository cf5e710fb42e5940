//! Rows as text: schemas, rows and batches of the tables under `tests/tables`.
//!
//! A row is values separated by spaces, with the row kind before (none: `+I`) and `@` and the event time in ms after:
//! `-U ann 7 @20`. `NULL` is NULL; text that could be mistaken is quoted (`"two words"`, `"NULL"`). A timestamp is a
//! plain number of its unit. It knows no operator.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use flott_core::{Batch, Error, Result, RowKind};

/// A schema from `name TYPE [NOT NULL], …` with Flink's names of types.
pub fn parse_schema(text: &str) -> Result<SchemaRef> {
    let fields = split_outside(text, ',').into_iter().map(parse_field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

fn parse_field(text: &str) -> Result<Field> {
    let text = text.trim();
    let (name, data_type) =
        text.split_once(' ').ok_or_else(|| Error::user(format!("expected a column as 'name TYPE', found '{text}'")))?;
    let (data_type, nullable) = match data_type.trim().strip_suffix("NOT NULL") {
        Some(rest) => (rest, false),
        None => (data_type, true),
    };
    Ok(Field::new(name, parse_type(data_type.trim())?, nullable))
}

fn parse_type(text: &str) -> Result<DataType> {
    let (name, arguments) = match text.strip_suffix(')').and_then(|t| t.split_once('(')) {
        Some((name, inside)) => (name, inside.split(',').map(|n| n.trim().parse::<u8>().unwrap_or(0)).collect()),
        None => (text, Vec::new()),
    };
    let unit = match arguments.first() {
        Some(0) => TimeUnit::Second,
        None | Some(1..=3) => TimeUnit::Millisecond,
        Some(4..=6) => TimeUnit::Microsecond,
        Some(_) => TimeUnit::Nanosecond,
    };
    Ok(match (name, arguments.as_slice()) {
        ("BOOLEAN", []) => DataType::Boolean,
        ("TINYINT", []) => DataType::Int8,
        ("SMALLINT", []) => DataType::Int16,
        ("INT", []) => DataType::Int32,
        ("BIGINT", []) => DataType::Int64,
        ("FLOAT", []) => DataType::Float32,
        ("DOUBLE", []) => DataType::Float64,
        ("STRING", []) => DataType::Utf8,
        ("DATE", []) => DataType::Date32,
        ("TIMESTAMP", [_]) => DataType::Timestamp(unit, None),
        ("TIMESTAMP_LTZ", [_]) => DataType::Timestamp(unit, Some("UTC".into())),
        ("DECIMAL", &[precision, scale]) => DataType::Decimal128(precision, scale.cast_signed()),
        _ => return Err(Error::user(format!("the tables know no type '{text}'"))),
    })
}

/// Splits at `separator` where it is not inside parentheses.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == separator && depth == 0
    })
    .collect()
}

/// A value of a row; `None` is NULL.
type Token = Option<String>;

fn tokens(row: &str) -> Vec<(Token, bool)> {
    let mut found = Vec::new();
    let mut rest = row.trim_start();
    while !rest.is_empty() {
        let (token, quoted, after) = match rest.strip_prefix('"') {
            Some(inside) => {
                let (token, after) = inside.split_once('"').unwrap_or((inside, ""));
                (Some(token.to_owned()), true, after)
            }
            None => {
                let (token, after) = rest.split_once(' ').unwrap_or((rest, ""));
                ((token != "NULL").then(|| token.to_owned()), false, after)
            }
        };
        found.push((token, quoted));
        rest = after.trim_start();
    }
    found
}

/// A batch of rows written as text. Event times must be given for all rows or for none.
pub fn parse_rows(schema: &SchemaRef, rows: &[&str]) -> Result<Batch> {
    let mut columns = vec![Vec::with_capacity(rows.len()); schema.fields().len()];
    let (mut times, mut kinds) = (Vec::new(), Vec::new());
    for row in rows {
        let mut values = tokens(row);
        let plain = |token: Option<&(Token, bool)>| match token {
            Some((Some(text), false)) => text.clone(),
            _ => String::new(),
        };
        if let Some(time) = plain(values.last()).strip_prefix('@') {
            times.push(time.parse().map_err(|_| Error::user(format!("'@{time}' is no time in ms")).at("row", row))?);
            values.pop();
        }
        let kind = plain(values.first());
        let kind = (0..4).find(|&k| RowKind::from_byte(k).is_ok_and(|k| k.as_str() == kind));
        if kind.is_some() {
            values.remove(0);
        }
        kinds.push(kind.unwrap_or_default());
        if values.len() != columns.len() {
            let text = format!("expected {} values, found {}", columns.len(), values.len());
            return Err(Error::user(text).at("row", row));
        }
        for (column, (value, _)) in columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    if !times.is_empty() && times.len() != rows.len() {
        return Err(Error::user("some rows of a step have an event time and some do not"));
    }
    let arrays = columns.into_iter().zip(schema.fields()).map(|(values, f)| parse_column(values, f.data_type()));
    let batch = Batch::of(schema.clone(), arrays.collect::<Result<_>>()?, rows.len())?;
    let batch = batch.with_event_times((!times.is_empty()).then(|| times.into()));
    let changes = kinds.iter().any(|&kind| kind != RowKind::Insert as u8);
    Ok(batch.with_row_kinds(changes.then(|| kinds.into())))
}

fn parse_column(values: Vec<Token>, data_type: &DataType) -> Result<ArrayRef> {
    let mut column: ArrayRef = Arc::new(StringArray::from(values));
    if matches!(data_type, DataType::Timestamp(..)) {
        column = strict_cast(&column, &DataType::Int64)?;
    }
    strict_cast(&column, data_type)
}

fn strict_cast(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    Ok(arrow_cast::cast_with_options(column, to, &options)?)
}

/// The rows of a batch as text, one line each.
pub fn print_rows(batch: &Batch) -> Result<Vec<String>> {
    let columns = batch.columns().columns().iter().map(plain_times).collect::<Result<Vec<_>>>()?;
    let options = FormatOptions::new().with_null("NULL");
    let columns = columns
        .iter()
        .map(|column| Ok((column.data_type() == &DataType::Utf8, column, ArrayFormatter::try_new(column, &options)?)))
        .collect::<Result<Vec<_>>>()?;
    let mut lines = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let mut words = Vec::new();
        let kind = RowKind::from_byte(batch.row_kinds().map_or(0, |kinds| kinds[row]))?;
        if kind != RowKind::Insert {
            words.push(kind.as_str().to_owned());
        }
        for (text, column, format) in &columns {
            let value = format.value(row).to_string();
            words.push(if *text && column.is_valid(row) { quote(&value) } else { value });
        }
        if let Some(time) = batch.event_time(row) {
            words.push(format!("@{time}"));
        }
        lines.push(words.join(" "));
    }
    Ok(lines)
}

fn plain_times(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Timestamp(..) => {
            let numbers = arrow_cast::cast(column, &DataType::Int64)?;
            debug_assert!(numbers.as_any().is::<Int64Array>());
            Ok(numbers)
        }
        _ => Ok(column.clone()),
    }
}

fn quote(text: &str) -> String {
    let needed = text.is_empty()
        || text == "NULL"
        || text.starts_with('@')
        || text.contains(char::is_whitespace)
        || ["+I", "-U", "+U", "-D"].contains(&text);
    if needed { format!("\"{text}\"") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_written() {
        let schema =
            parse_schema("a STRING, b BIGINT NOT NULL, c DOUBLE, d DECIMAL(10, 2), e TIMESTAMP(3), f DATE, g BOOLEAN")
                .unwrap();
        let rows = [
            "ann 1 1.5 3.25 20 1970-01-02 true @-7",
            "-U \"two words\" -2 NULL NULL NULL NULL NULL @8",
            "-D \"NULL\" 3 NaN -0.10 -1 1969-12-31 false @9",
            "NULL 4 inf 0.00 0 1970-01-01 true @10",
        ];
        assert_eq!(print_rows(&parse_rows(&schema, &rows).unwrap()).unwrap(), rows);
        assert!(!schema.field(1).is_nullable());
        assert!(parse_rows(&schema, &["ann 1"]).is_err());
    }
}
