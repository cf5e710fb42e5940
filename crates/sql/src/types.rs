//! Flink's types and their Arrow counterparts. What a CAST between them does is DataFusion's and `functions.rs`'s.

use std::fmt;

use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast::{self, ExactNumberInfo, TimezoneInfo};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token};

use crate::script::{Fault, Result, did_you_mean};

/// A type of a column, as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlinkType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`, 1 byte
    TinyInt,
    /// `SMALLINT`, 2 bytes
    SmallInt,
    /// `INT`, 4 bytes
    Int,
    /// `BIGINT`, 8 bytes
    BigInt,
    /// `FLOAT`, 4 bytes
    Float,
    /// `DOUBLE`, 8 bytes
    Double,
    /// `DECIMAL(precision, scale)`
    Decimal(u8, i8),
    /// `CHAR(n)`; the length is not enforced, as Flink does not by default
    Char(u32),
    /// `VARCHAR(n)`; likewise
    Varchar(u32),
    /// `STRING`
    String,
    /// `BINARY(n)`, `VARBINARY(n)` and `BYTES`
    Bytes,
    /// `DATE`
    Date,
    /// `TIME(p)`, kept in milliseconds
    Time(u8),
    /// `TIMESTAMP(p)`
    Timestamp(u8),
    /// `TIMESTAMP_LTZ(p)`; the session's time zone is UTC
    TimestampLtz(u8),
}

const NAMES: [&str; 21] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "DEC",
    "NUMERIC",
    "CHAR",
    "VARCHAR",
    "STRING",
    "BINARY",
    "VARBINARY",
    "BYTES",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
];

fn unit(precision: u8) -> TimeUnit {
    match precision {
        0..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

impl FlinkType {
    /// The Arrow type values of this type have. Text is `Utf8`; local time zones are kept as UTC instants.
    pub fn to_arrow(&self) -> DataType {
        match *self {
            Self::Boolean => DataType::Boolean,
            Self::TinyInt => DataType::Int8,
            Self::SmallInt => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
            Self::Char(_) | Self::Varchar(_) | Self::String => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time(_) => DataType::Time32(TimeUnit::Millisecond),
            Self::Timestamp(p) => DataType::Timestamp(unit(p), None),
            Self::TimestampLtz(p) => DataType::Timestamp(unit(p), Some("UTC".into())),
        }
    }

    /// The type of a column of a query with this Arrow type; `None` where SQL has no such type yet.
    pub fn of_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::TinyInt,
            DataType::Int16 => Self::SmallInt,
            DataType::Int32 => Self::Int,
            DataType::Int64 => Self::BigInt,
            DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Decimal128(precision, scale) if (0..=38).contains(scale) => Self::Decimal(*precision, *scale),
            DataType::Utf8 => Self::String,
            DataType::Binary => Self::Bytes,
            DataType::Date32 => Self::Date,
            DataType::Time32(TimeUnit::Millisecond) => Self::Time(3),
            DataType::Timestamp(unit, zone) => {
                let precision = match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => 9,
                };
                match zone {
                    None => Self::Timestamp(precision),
                    Some(_) => Self::TimestampLtz(precision),
                }
            }
            _ => return None,
        })
    }

    /// Whether values are kept with just this type's precision: of a TIMESTAMP(0), say, milliseconds are kept.
    pub(crate) fn is_exact(&self) -> bool {
        match self {
            Self::Timestamp(p) | Self::TimestampLtz(p) => kept_precision(*p).is_ok(),
            _ => true,
        }
    }

    /// The type written in a CAST, as sqlparser read it.
    pub(crate) fn of_ast(written: &ast::DataType) -> Result<Self> {
        use ast::DataType as T;
        let number = |n: Option<u64>, default: u8, limit: u8| narrow(n, default, limit, Span::empty());
        Ok(match written {
            T::Boolean | T::Bool => Self::Boolean,
            T::TinyInt(None) => Self::TinyInt,
            T::SmallInt(None) => Self::SmallInt,
            T::Int(None) | T::Integer(None) => Self::Int,
            T::BigInt(None) => Self::BigInt,
            T::Float(ExactNumberInfo::None) => Self::Float,
            T::Double(ExactNumberInfo::None) | T::DoublePrecision => Self::Double,
            T::Decimal(info) | T::Numeric(info) | T::Dec(info) => match *info {
                ExactNumberInfo::None => Self::Decimal(10, 0),
                ExactNumberInfo::Precision(p) => decimal(p, 0, Span::empty())?,
                ExactNumberInfo::PrecisionAndScale(p, s) => {
                    decimal(p, u64::try_from(s).unwrap_or(u64::MAX), Span::empty())?
                }
            },
            T::String(_) => Self::String,
            T::Bytes(_) => Self::Bytes,
            T::Date => Self::Date,
            T::Time(p, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Self::Time(number(*p, 0, 9)?),
            T::Timestamp(p, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                Self::Timestamp(kept_precision(number(*p, 6, 9)?)?)
            }
            T::Custom(name, arguments) if name.to_string().eq_ignore_ascii_case("TIMESTAMP_LTZ") => {
                Self::TimestampLtz(kept_precision(number(arguments.first().and_then(|a| a.parse().ok()), 6, 9)?)?)
            }
            // A cast to a type with a length cuts text off or fills it up.
            other => return Err(Fault::unsupported(format!("a cast to the type {other}"), Span::empty())),
        })
    }

    /// Reads a type of a column definition. (sqlparser has no hook for types, and knows half of Flink's.)
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Self> {
        let token = parser.next_token();
        let Token::Word(word) = &token.token else {
            return Ok(parser.expected("a type such as BIGINT or STRING", token)?);
        };
        let name = word.value.to_uppercase();
        let span = token.span;
        Ok(match name.as_str() {
            "BOOLEAN" => Self::Boolean,
            "TINYINT" => Self::TinyInt,
            "SMALLINT" => Self::SmallInt,
            "INT" | "INTEGER" => Self::Int,
            "BIGINT" => Self::BigInt,
            "FLOAT" => Self::Float,
            "DOUBLE" => {
                let _optional = parser.parse_keyword(Keyword::PRECISION);
                Self::Double
            }
            "DECIMAL" | "DEC" | "NUMERIC" => {
                let (precision, scale) = arguments(parser)?;
                match precision {
                    None => Self::Decimal(10, 0),
                    Some(precision) => decimal(precision, scale.unwrap_or(0), span)?,
                }
            }
            "CHAR" | "CHARACTER" | "VARCHAR" => {
                let (length, _) = arguments(parser)?;
                let length = u32::try_from(length.unwrap_or(1)).unwrap_or(u32::MAX);
                if name == "VARCHAR" { Self::Varchar(length) } else { Self::Char(length) }
            }
            "STRING" => Self::String,
            "BINARY" | "VARBINARY" => {
                arguments(parser)?;
                Self::Bytes
            }
            "BYTES" => Self::Bytes,
            "DATE" => Self::Date,
            "TIME" => {
                let precision = narrow(arguments(parser)?.0, 0, 9, span)?;
                let _optional = parser.parse_keywords(&[Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE]);
                Self::Time(precision)
            }
            "TIMESTAMP" => {
                let precision = narrow(arguments(parser)?.0, 6, 9, span)?;
                if parser.parse_keywords(&[Keyword::WITH, Keyword::LOCAL, Keyword::TIME, Keyword::ZONE]) {
                    Self::TimestampLtz(precision)
                } else if parser.parse_keyword(Keyword::WITH) {
                    return Err(Fault::unsupported("the type TIMESTAMP WITH TIME ZONE", span));
                } else {
                    let _optional = parser.parse_keywords(&[Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE]);
                    Self::Timestamp(precision)
                }
            }
            "TIMESTAMP_LTZ" => Self::TimestampLtz(narrow(arguments(parser)?.0, 6, 9, span)?),
            "ARRAY" | "MAP" | "MULTISET" | "ROW" | "RAW" | "STRUCTURED" | "VARIANT" | "BITMAP" | "INTERVAL" => {
                return Err(Fault::unsupported(format!("the type {name}"), span));
            }
            _ => {
                let hint = did_you_mean(&name, NAMES.into_iter());
                return Err(Fault::new(format!("there is no type '{}'{hint}", word.value), span));
            }
        })
    }
}

/// `(a)` or `(a, b)` after a type's name.
fn arguments(parser: &mut Parser<'_>) -> Result<(Option<u64>, Option<u64>)> {
    if !parser.consume_token(&Token::LParen) {
        return Ok((None, None));
    }
    let first = parser.parse_literal_uint()?;
    let second = if parser.consume_token(&Token::Comma) { Some(parser.parse_literal_uint()?) } else { None };
    parser.expect_token(&Token::RParen)?;
    Ok((Some(first), second))
}

fn narrow(given: Option<u64>, default: u8, limit: u8, span: Span) -> Result<u8> {
    let given = given.unwrap_or(u64::from(default));
    u8::try_from(given)
        .ok()
        .filter(|n| *n <= limit)
        .ok_or_else(|| Fault::new(format!("expected a precision from 0 to {limit}, found {given}"), span))
}

/// Refuses a precision of timestamps that is between Arrow's units.
fn kept_precision(precision: u8) -> Result<u8> {
    match precision {
        3 | 6 | 9 => Ok(precision),
        _ => Err(Fault::unsupported(format!("a timestamp of precision {precision} (3, 6 and 9 are)"), Span::empty())),
    }
}

fn decimal(precision: u64, scale: u64, span: Span) -> Result<FlinkType> {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if scale <= precision => Ok(FlinkType::Decimal(p, s)),
        _ => Err(Fault::new(
            format!(
                "expected DECIMAL(p, s) with p from 1 to 38 and s from 0 to p, found DECIMAL({precision}, {scale})"
            ),
            span,
        )),
    }
}

impl fmt::Display for FlinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::TinyInt => f.write_str("TINYINT"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Int => f.write_str("INT"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal(precision, scale) => write!(f, "DECIMAL({precision}, {scale})"),
            Self::Char(length) => write!(f, "CHAR({length})"),
            Self::Varchar(length) => write!(f, "VARCHAR({length})"),
            Self::String => f.write_str("STRING"),
            Self::Bytes => f.write_str("BYTES"),
            Self::Date => f.write_str("DATE"),
            Self::Time(precision) => write!(f, "TIME({precision})"),
            Self::Timestamp(precision) => write!(f, "TIMESTAMP({precision})"),
            Self::TimestampLtz(precision) => write!(f, "TIMESTAMP_LTZ({precision})"),
        }
    }
}
