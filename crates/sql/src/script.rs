//! The text of a script and the errors that point into it: [`Fault`] inside this crate, [`flott_core::Error`] outside.

use std::fmt::{self, Write};

use arrow_schema::DataType;
use datafusion_common::{Column, DataFusionError, SchemaError};
use flott_core::{Error, ErrorDomain, type_name};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span};

/// As wide as a terminal is by tradition.
const WIDTH: usize = 80;
/// As wide as ` (line 12, column 345)`, which stands behind the carets.
const PLACE: usize = 23;

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// What is wrong with a statement and where; [`Script::error`] turns it into the error a user sees.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    message: String,
    /// Empty: the statement as a whole.
    span: Span,
    internal: bool,
    /// The column that is not there, for who can look up where it was written.
    missing: Option<String>,
}

impl Fault {
    /// The statement is at fault, at `span`.
    pub(crate) fn new(message: impl Into<String>, span: Span) -> Self {
        Self { message: message.into(), span, internal: false, missing: None }
    }

    /// The planner is at fault.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { internal: true, ..Self::new(message, Span::empty()) }
    }

    /// What the operators refuse, the planner should have refused with a place.
    #[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
    pub(crate) fn of_operators(error: Error) -> Self {
        match error.domain() {
            ErrorDomain::Internal => Self::internal(error.message()),
            _ => Self::new(error.to_string(), Span::empty()),
        }
    }

    /// Flink knows `what`, flott does not yet.
    pub(crate) fn unsupported(what: impl fmt::Display, span: Span) -> Self {
        Self::new(format!("{what} is not supported yet"), span)
    }

    /// The column that is not there, if that is what is wrong and where it was written is not known.
    pub(crate) fn missing_column(&self) -> Option<&str> {
        self.missing.as_deref().filter(|_| self.span == Span::empty())
    }

    /// Points at the whole token that starts where it points at a single character.
    pub(crate) fn widen(mut self, tokens: impl Iterator<Item = Span>) -> Self {
        if self.span.start == self.span.end {
            let mut tokens = tokens.filter(|token| token.start == self.span.start);
            self.span = tokens.next().unwrap_or(self.span);
        }
        self
    }

    /// Points at `span` where it pointed nowhere.
    pub(crate) fn or_at(mut self, span: Span) -> Self {
        if self.span == Span::empty() {
            self.span = span;
        }
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// Through DataFusion's planner and back: its hooks may fail only with its own error.
impl From<Fault> for DataFusionError {
    fn from(fault: Fault) -> Self {
        Self::External(Box::new(fault))
    }
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Self {
        let span = error.diagnostic().and_then(|d| d.span).map_or(Span::empty(), |span| {
            Span::new(Location::new(span.start.line, span.start.column), Location::new(span.end.line, span.end.column))
        });
        match error.find_root() {
            DataFusionError::External(inner) => match inner.downcast_ref::<Self>() {
                Some(fault) => fault.clone().or_at(span),
                None => Self::new(inner.to_string(), span),
            },
            DataFusionError::SchemaError(schema, _) => match &**schema {
                SchemaError::FieldNotFound { field, valid_fields } => {
                    Self { missing: Some(field.name.clone()), ..Self::new(missing_column(field, valid_fields), span) }
                }
                SchemaError::AmbiguousReference { field } => {
                    Self::new(format!("the column '{}' could be one of several", field.name), span)
                }
                other => Self::new(other.to_string(), span),
            },
            DataFusionError::Internal(message) => Self::internal(first_line(message)),
            DataFusionError::Plan(message) | DataFusionError::NotImplemented(message) => {
                let message = first_line(message);
                Self::new(no_condition(message).unwrap_or_else(|| message.to_owned()), span)
            }
            other => Self::new(first_line(&other.strip_backtrace()), span),
        }
    }
}

/// The first sentence: what follows is about DataFusion.
fn first_line(message: &str) -> &str {
    let line = message.lines().next().unwrap_or(message);
    line.split(": While expanding").next().unwrap_or(line)
}

/// DataFusion's words for a WHERE that is no condition, in ours.
fn no_condition(message: &str) -> Option<String> {
    let found = message.strip_prefix("Cannot create filter with non-boolean predicate ")?;
    let (condition, data_type) = found.rsplit_once(" returning ")?;
    let data_type = data_type.parse().map_or_else(|_| data_type.to_owned(), |t: DataType| type_name(&t));
    Some(format!("expected a condition after WHERE, found {condition} of type {data_type}"))
}

fn missing_column(field: &Column, valid: &[Column]) -> String {
    let hint = did_you_mean(&field.name, valid.iter().map(|column| column.name.as_str()));
    match &field.relation {
        // The name is right, what is before it is not.
        Some(table) if valid.iter().any(|column| column.name == field.name) => {
            format!("there is no table '{table}' with a column '{}' in FROM", field.name)
        }
        _ => format!("there is no column '{}'{hint}", field.name),
    }
}

impl From<ParserError> for Fault {
    fn from(error: ParserError) -> Self {
        let message = match error {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
            ParserError::RecursionLimitExceeded => "the expression is nested too deeply".to_owned(),
        };
        // The parser writes the place into its message: `… at Line: 3, Column: 7`.
        let (text, span) = match message.rsplit_once(" at Line: ") {
            Some((text, place)) => {
                let mut numbers = place.split(", Column: ").map_while(|n| n.trim().parse().ok());
                match (numbers.next(), numbers.next()) {
                    (Some(line), Some(column)) => {
                        let at = Location::new(line, column);
                        (text.to_owned(), Span::new(at, at))
                    }
                    _ => (message, Span::empty()),
                }
            }
            None => (message, Span::empty()),
        };
        let text = text.replacen("Expected: ", "expected ", 1).replacen(", found: ", ", found ", 1);
        Self::new(text.replace("found EOF", "found the end of the statement"), span)
    }
}

/// A script: one or more statements.
pub(crate) struct Script<'a> {
    text: &'a str,
}

impl<'a> Script<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// The fault as the error a user sees: message, the line it is about, carets under it, line and column.
    pub(crate) fn error(&self, fault: Fault) -> Error {
        if fault.internal {
            return Error::internal(fault.message);
        }
        let Span { start, end } = fault.span;
        let line = usize::try_from(start.line).ok().and_then(|n| self.text.lines().nth(n.checked_sub(1)?));
        let Some(line) = line else {
            return Error::user(fault.message);
        };
        let column = usize::try_from(start.column).unwrap_or(1).max(1);
        let width = if end.line == start.line { end.column.saturating_sub(start.column) } else { u64::MAX };
        let number = start.line.to_string();
        let mut message = fault.message;
        let margin = 2 + number.len() + " | ".len();
        let (shown, marks) = marked(line, column - 1, usize::try_from(width).unwrap_or(usize::MAX), WIDTH - 1 - margin);
        // Writing to a string cannot fail.
        let _ = write!(message, "\n  {number} | {shown}\n  {:1$} | {marks}", "", number.len());
        Error::user(message).at("line", start.line).at("column", column)
    }
}

/// A line and the carets below it, under `width` characters from `at`. A line longer than `room` is cut to the part
/// around them.
fn marked(line: &str, at: usize, width: usize, room: usize) -> (String, String) {
    let chars: Vec<char> = line.chars().collect();
    let at = at.min(chars.len());
    let carets = width.clamp(1, (chars.len() - at).max(1));
    if chars.len() <= room {
        // A tab stays a tab under the line, so the caret stands where the terminal shows the text.
        let indent: String = chars[..at].iter().map(|&c| if c == '\t' { '\t' } else { ' ' }).collect();
        return (line.to_owned(), indent + &"^".repeat(carets));
    }
    // A third of the room is for what comes before, unless less is needed behind.
    let from = if at + carets + PLACE < room {
        0
    } else {
        let needed = (at + carets + PLACE).max(chars.len()) + 1 - room;
        needed.min(at - at.min(room / 3))
    };
    let cut_before = usize::from(from > 0);
    let to = chars.len().min(from + room - cut_before);
    let to = if to < chars.len() { to - 1 } else { to };
    let mut shown = if from > 0 { "…".to_owned() } else { String::new() };
    shown.extend(chars[from..to].iter().map(|&c| if c == '\t' { ' ' } else { c }));
    if to < chars.len() {
        shown.push('…');
    }
    let indent = " ".repeat(at - from + cut_before);
    (shown, indent + &"^".repeat(carets.min((to - at.min(to)).max(1))))
}

/// The words `given` was probably meant to be, for the end of an error message.
pub(crate) fn did_you_mean<'a>(given: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let lower = given.to_lowercase();
    match flott_core::config::nearest(given, known.clone()).or_else(|| flott_core::config::nearest(&lower, known)) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => String::new(),
    }
}
