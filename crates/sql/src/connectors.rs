//! From the options of a table to what makes its source or sink.
//!
//! This crate may not depend on the connectors: their configurations are written by their documented field names, and
//! a test of a crate that knows both reads them back. Unknown options are refused with the nearest name, before
//! anything runs.

use arrow_schema::Schema;
use flott_core::Spec;
use serde_json::{Value, json};
use sqlparser::tokenizer::Span;

use crate::create_table::TableOption;
use crate::script::{Fault, Result, did_you_mean};

/// A connector with its options, checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Connector {
    /// Reads the files of a folder, writes files into it; CSV.
    Filesystem { path: String, csv: Value },
    /// Writes lines to standard output.
    Print { identifier: Option<String>, standard_error: bool },
    /// Forgets rows.
    Blackhole,
    /// Rows that are part of the plan, for tests: an Arrow IPC stream in base64.
    Collection { rows: String, splits: u32 },
}

const CONNECTORS: [&str; 4] = ["blackhole", "collection", "filesystem", "print"];
const FORMATS: [&str; 1] = ["csv"];

/// Options not asked for yet, and the keys that were.
struct Options<'a> {
    table: &'a str,
    given: Vec<TableOption>,
    asked: Vec<&'static str>,
    span: Span,
}

impl Options<'_> {
    fn take(&mut self, key: &'static str) -> Option<TableOption> {
        self.asked.push(key);
        let at = self.given.iter().position(|option| option.key == key)?;
        Some(self.given.remove(at))
    }

    fn required(&mut self, key: &'static str, of: &str) -> Result<TableOption> {
        self.take(key).ok_or_else(|| {
            let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
            let text = format!("the table '{}' needs the option '{key}'{of}", self.table);
            let hint = did_you_mean(key, self.given.iter().map(|option| option.key.as_str()));
            Fault::new(format!("{text}{}", hint.replace("did you mean", "is it")), self.span)
        })
    }

    fn text(&mut self, key: &'static str) -> Option<String> {
        self.take(key).map(|option| option.value)
    }

    fn flag(&mut self, key: &'static str) -> Result<bool> {
        match self.take(key) {
            None => Ok(false),
            Some(option) => match option.value.to_ascii_lowercase().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(wrong(&option, "true or false")),
            },
        }
    }

    fn character(&mut self, key: &'static str) -> Result<Option<char>> {
        let Some(option) = self.take(key) else { return Ok(None) };
        // Flink reads the escapes of Java here.
        let value = option.value.replace("\\t", "\t").replace("\\u0001", "\u{1}");
        let mut characters = value.chars();
        match (characters.next(), characters.next()) {
            (Some(one), None) if one.is_ascii() => Ok(Some(one)),
            _ => Err(wrong(&option, "one ASCII character")),
        }
    }

    /// Refuses what is left.
    fn finish(self, of: &str) -> Result<()> {
        match self.given.first() {
            None => Ok(()),
            Some(option) if self.asked.contains(&option.key.as_str()) => {
                Err(Fault::new(format!("the option '{}' is given twice", option.key), option.span))
            }
            Some(option) => {
                let hint = did_you_mean(&option.key, self.asked.iter().copied());
                let text = format!("{of} has no option '{}', or flott does not support it yet{hint}", option.key);
                Err(Fault::new(text, option.span))
            }
        }
    }
}

fn wrong(option: &TableOption, expected: &str) -> Fault {
    Fault::new(format!("expected {expected} for '{}', found '{}'", option.key, option.value), option.span)
}

impl Connector {
    /// Reads the options of CREATE TABLE.
    pub(crate) fn read(table: &str, given: Vec<TableOption>, span: Span) -> Result<Self> {
        let mut options = Options { table, given, asked: Vec::new(), span };
        let name = options.required("connector", "")?;
        let of = format!("the connector '{}'", name.value);
        let connector = match name.value.as_str() {
            "filesystem" => {
                let path = options.required("path", &of)?;
                let path = local_path(&path)?;
                let format = options.required("format", &of)?;
                if format.value != "csv" {
                    let hint = did_you_mean(&format.value, FORMATS.into_iter());
                    let text = format!("there is no format '{}', or flott does not support it yet{hint}", format.value);
                    return Err(Fault::new(text, format.span));
                }
                Self::Filesystem { path, csv: csv(&mut options)? }
            }
            "print" => Self::Print {
                identifier: options.text("print-identifier"),
                standard_error: options.flag("standard-error")?,
            },
            "blackhole" => Self::Blackhole,
            "collection" => {
                let rows = options.required("rows", &of)?.value;
                let splits = match options.take("splits") {
                    None => 1,
                    Some(option) => option.value.parse().map_err(|_| wrong(&option, "a whole number"))?,
                };
                Self::Collection { rows, splits }
            }
            other => {
                let hint = did_you_mean(other, CONNECTORS.into_iter());
                let text = format!("there is no connector '{other}', or flott does not support it yet{hint}");
                return Err(Fault::new(text, name.span));
            }
        };
        options.finish(&of)?;
        Ok(connector)
    }

    /// The source of a table of this schema and the columns it gives, in the table's numbers: at least those in
    /// `wanted`.
    pub(crate) fn source(&self, table: &str, schema: &Schema, _wanted: &[usize]) -> Result<(Spec, Vec<usize>)> {
        let all = (0..schema.fields().len()).collect();
        match self {
            Self::Filesystem { path, csv } => {
                let format = json!({ "csv": { "schema": schema, "options": csv } });
                Ok((spec("files", &json!({ "path": path, "format": format }))?, all))
            }
            Self::Collection { rows, splits } => {
                Ok((spec("collection", &json!({ "rows": rows, "splits": splits }))?, all))
            }
            Self::Print { .. } | Self::Blackhole => Err(Fault::new(
                format!("the table '{table}' can only be written to: its connector is {}", self.name()),
                Span::empty(),
            )),
        }
    }

    /// The sink of a table.
    pub(crate) fn sink(&self, table: &str) -> Result<Spec> {
        match self {
            Self::Filesystem { path, csv } => spec("files", &json!({ "path": path, "format": { "csv": csv } })),
            Self::Print { identifier, standard_error } => {
                spec("print", &json!({ "identifier": identifier, "standard_error": standard_error }))
            }
            Self::Blackhole => spec("blackhole", &()),
            Self::Collection { .. } => {
                let text = format!("the table '{table}' can only be read: its connector is {}", self.name());
                Err(Fault::new(text, Span::empty()))
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Filesystem { .. } => "filesystem",
            Self::Print { .. } => "print",
            Self::Blackhole => "blackhole",
            Self::Collection { .. } => "collection",
        }
    }
}

fn spec(name: &str, config: &impl serde::Serialize) -> Result<Spec> {
    Spec::new(name, config).map_err(|e| Fault::internal(e.to_string()))
}

/// A path of the local file system; `file:` before it may be written.
fn local_path(option: &TableOption) -> Result<String> {
    match flott_core::config::local_path(&option.value) {
        Err(scheme) => Err(Fault::unsupported(format!("the file system {scheme}"), option.span)),
        Ok("") => Err(wrong(option, "a path")),
        Ok(path) => Ok(path.to_owned()),
    }
}

/// The options of the CSV format, under the names the formats give them.
fn csv(options: &mut Options<'_>) -> Result<Value> {
    let mut csv = serde_json::Map::new();
    if let Some(delimiter) = options.character("csv.field-delimiter")? {
        csv.insert("delimiter".to_owned(), json!(delimiter));
    }
    let quote = options.character("csv.quote-character")?;
    if options.flag("csv.disable-quote-character")? {
        csv.insert("quote".to_owned(), Value::Null);
    } else if let Some(quote) = quote {
        csv.insert("quote".to_owned(), json!(quote));
    }
    if let Some(literal) = options.text("csv.null-literal") {
        csv.insert("null_literal".to_owned(), json!(literal));
    } else {
        csv.insert("empty_is_null".to_owned(), json!(false));
    }
    if options.flag("csv.allow-comments")? {
        csv.insert("comment".to_owned(), json!('#'));
    }
    Ok(Value::Object(csv))
}
