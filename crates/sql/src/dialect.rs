//! Flink's dialect on sqlparser's hooks: how words and expressions are read. Statements are read in `statements.rs`.

use std::any::TypeId;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Identifiers in backticks and case-sensitive, strings in single quotes, `TABLE t` as an argument.
#[derive(Debug)]
pub(crate) struct FlinkDialect;

impl Dialect for FlinkDialect {
    /// What the parser asks for a dialect by name should be as for the generic one.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_multiline_comment_hints(&self) -> bool {
        false
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    /// `TABLE t` as an argument of a table function; the parser has nothing of the kind.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let [first, second] = parser.peek_tokens();
        match (first, second) {
            (Token::Word(table), Token::Word(_)) if table.keyword == Keyword::TABLE && table.quote_style.is_none() => {
                Some(parse_table_argument(parser))
            }
            _ => None,
        }
    }
}

fn parse_table_argument(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let prefix = parser.parse_identifier()?;
    let name = parser.parse_object_name(false)?;
    let parts: Vec<_> = name.0.into_iter().filter_map(|part| part.as_ident().cloned()).collect();
    Ok(Expr::Prefixed { prefix, value: Box::new(Expr::CompoundIdentifier(parts)) })
}

/// Whether a token is this word, whatever the case; for words that are no keywords of sqlparser.
pub(crate) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Takes the next word if it is this one ([`is_word`]).
pub(crate) fn parse_word(parser: &mut Parser<'_>, word: &str) -> bool {
    let found = is_word(parser.peek_token_ref(), word);
    if found {
        parser.advance_token();
    }
    found
}
