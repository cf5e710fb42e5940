//! `CREATE TABLE`: read here, on sqlparser's tokens, because its own has no place for watermarks.

use sqlparser::ast::{BinaryOperator, Expr, Ident, ObjectName, Spanned};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token};

use crate::dialect::parse_word;
use crate::interval::interval_millis;
use crate::script::{Fault, Result};
use crate::types::FlinkType;

/// What was written.
#[derive(Debug)]
pub(crate) struct CreateTable {
    pub(crate) name: ObjectName,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) watermark: Option<WatermarkDef>,
    pub(crate) primary_key: Vec<Ident>,
    pub(crate) options: Vec<TableOption>,
}

#[derive(Debug)]
pub(crate) struct ColumnDef {
    pub(crate) name: Ident,
    pub(crate) flink_type: FlinkType,
    pub(crate) nullable: bool,
}

/// `WATERMARK FOR column AS column - INTERVAL ..`
#[derive(Debug)]
pub(crate) struct WatermarkDef {
    pub(crate) column: Ident,
    pub(crate) out_of_orderness_ms: u64,
}

/// `'key' = 'value'` in WITH.
#[derive(Debug)]
pub(crate) struct TableOption {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) span: Span,
}

impl CreateTable {
    /// Reads what follows `CREATE [TEMPORARY] TABLE`. (Nothing outlives the environment, so every table is temporary.)
    pub(crate) fn parse(parser: &mut Parser<'_>, _temporary: bool) -> Result<Self> {
        let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        let mut table = Self {
            name,
            if_not_exists,
            columns: Vec::new(),
            watermark: None,
            primary_key: Vec::new(),
            options: Vec::new(),
        };
        parser.expect_token(&Token::LParen)?;
        loop {
            table.parse_item(parser)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
        table.parse_tail(parser)?;
        Ok(table)
    }

    fn parse_item(&mut self, parser: &mut Parser<'_>) -> Result<()> {
        let start = parser.peek_token();
        if parse_word(parser, "WATERMARK") {
            if self.watermark.is_some() {
                return Err(Fault::new("a table has at most one WATERMARK", start.span));
            }
            self.watermark = Some(parse_watermark(parser)?);
            return Ok(());
        }
        if parser.parse_keyword(Keyword::CONSTRAINT) {
            parser.parse_identifier()?;
        }
        if parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
            parser.expect_token(&Token::LParen)?;
            let key = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
            return self.set_primary_key(parser, key, start.span);
        }
        let name = parser.parse_identifier()?;
        if parser.parse_keyword(Keyword::AS) {
            return Err(Fault::unsupported(format!("the computed column {name}"), name.span));
        }
        let flink_type = FlinkType::parse(parser)?;
        let mut nullable = true;
        if parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
            nullable = false;
        } else {
            let _optional = parser.parse_keyword(Keyword::NULL);
        }
        if parse_word(parser, "METADATA") {
            return Err(Fault::unsupported(format!("the metadata column {name}"), name.span));
        }
        if parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
            self.set_primary_key(parser, vec![name.clone()], start.span)?;
        }
        if parser.parse_keyword(Keyword::COMMENT) {
            parser.parse_literal_string()?;
        }
        if self.columns.iter().any(|c| c.name.value == name.value) {
            return Err(Fault::new(format!("the column {name} is there twice"), name.span));
        }
        self.columns.push(ColumnDef { name, flink_type, nullable });
        Ok(())
    }

    fn set_primary_key(&mut self, parser: &mut Parser<'_>, key: Vec<Ident>, span: Span) -> Result<()> {
        if !self.primary_key.is_empty() {
            return Err(Fault::new("a table has at most one PRIMARY KEY", span));
        }
        if !(parser.parse_keyword(Keyword::NOT) && parse_word(parser, "ENFORCED")) {
            return Err(Fault::new("a PRIMARY KEY must be NOT ENFORCED: flott does not own the data", span));
        }
        self.primary_key = key;
        Ok(())
    }

    fn parse_tail(&mut self, parser: &mut Parser<'_>) -> Result<()> {
        loop {
            let token = parser.peek_token();
            if parser.parse_keyword(Keyword::COMMENT) {
                parser.parse_literal_string()?;
            } else if parser.parse_keyword(Keyword::WITH) {
                parser.expect_token(&Token::LParen)?;
                self.options = parser.parse_comma_separated(parse_option)?;
                parser.expect_token(&Token::RParen)?;
            } else {
                let Token::Word(word) = &token.token else {
                    return Ok(());
                };
                let word = word.value.to_uppercase();
                return match word.as_str() {
                    "PARTITIONED" | "DISTRIBUTED" | "LIKE" | "AS" => {
                        Err(Fault::unsupported(format!("CREATE TABLE .. {word}"), token.span))
                    }
                    _ => Ok(()),
                };
            }
        }
    }
}

fn parse_option(parser: &mut Parser<'_>) -> Result<TableOption, sqlparser::parser::ParserError> {
    let start = parser.peek_token().span.start;
    let key = parser.parse_literal_string()?;
    parser.expect_token(&Token::Eq)?;
    let value = parser.parse_literal_string()?;
    Ok(TableOption { key, value, span: Span::new(start, parser.get_current_token().span.end) })
}

fn parse_watermark(parser: &mut Parser<'_>) -> Result<WatermarkDef> {
    parser.expect_keyword(Keyword::FOR)?;
    let column = parser.parse_identifier()?;
    parser.expect_keyword(Keyword::AS)?;
    let start = parser.peek_token().span;
    let strategy = parser.parse_expr()?;
    let span = strategy.span().union(&start);
    let is_column = |e: &Expr| matches!(e, Expr::Identifier(ident) if ident.value == column.value);
    let out_of_orderness_ms = match &strategy {
        e if is_column(e) => 0,
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } if is_column(left) => match &**right {
            Expr::Interval(interval) => u64::try_from(interval_millis(interval, span)?)
                .map_err(|_| Fault::new("a watermark cannot run ahead of its rows", span))?,
            _ => return Err(unsupported_watermark(&column, span)),
        },
        _ => return Err(unsupported_watermark(&column, span)),
    };
    Ok(WatermarkDef { column, out_of_orderness_ms })
}

fn unsupported_watermark(column: &Ident, span: Span) -> Fault {
    Fault::unsupported(format!("a watermark other than '{column}' or '{column} - INTERVAL ..'"), span)
}
