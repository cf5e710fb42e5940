//! From the text of a script to statements. CREATE TABLE's inside is in `create_table.rs`; what a query means, in the
//! planner.

use sqlparser::ast::{Ident, ObjectName, Query, Spanned};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace};

use crate::create_table::CreateTable;
use crate::dialect::{FlinkDialect, is_word, parse_word};
use crate::script::{Fault, Result, Script, did_you_mean};

/// A statement of a script.
#[derive(Debug)]
pub(crate) enum Statement {
    CreateTable(CreateTable),
    DropTable { name: ObjectName, if_exists: bool },
    Insert { table: ObjectName, columns: Vec<Ident>, query: Box<Query> },
    Query(Box<Query>),
    Explain(Box<Statement>),
    Set { key: String, value: String, span: Span },
}

/// The tokens of one statement: at least one that is not white space.
#[derive(Debug)]
pub(crate) struct StatementTokens(Vec<TokenWithSpan>);

/// Splits a script at semicolons; those in strings, identifiers and comments are none. Empty statements are dropped.
pub(crate) fn split(script: &Script<'_>) -> Result<Vec<StatementTokens>> {
    let tokens = Tokenizer::new(&FlinkDialect, script.text())
        .tokenize_with_location()
        .map_err(|e| Fault::new(lower_first(&e.message), Span::new(e.location, e.location)))?;
    let mut statements = Vec::new();
    for part in tokens.split(|t| t.token == Token::SemiColon) {
        if part.iter().any(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF)) {
            statements.push(StatementTokens(part.to_vec()));
        }
    }
    Ok(statements)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

const STATEMENTS: [&str; 9] = ["CREATE", "DROP", "EXECUTE", "EXPLAIN", "INSERT", "SELECT", "SET", "VALUES", "WITH"];

/// Statements of Flink that are known by their first word and come later.
const LATER: [&str; 23] = [
    "ADD", "ALTER", "ANALYZE", "BEGIN", "CALL", "COMPILE", "DELETE", "DESC", "DESCRIBE", "END", "LOAD", "MERGE",
    "REMOVE", "REPLACE", "RESET", "SHOW", "STOP", "TRUNCATE", "UNLOAD", "UPDATE", "UPSERT", "USE", "GRANT",
];

impl StatementTokens {
    /// From its first to its last token.
    pub(crate) fn span(&self) -> Span {
        let mut solid = self.0.iter().filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF)).map(|t| t.span);
        let first = solid.next().unwrap_or_else(Span::empty);
        solid.next_back().map_or(first, |last| Span::new(first.start, last.end))
    }

    /// Its first token, where errors about the whole statement point.
    pub(crate) fn start(&self) -> Span {
        let solid = self.0.iter().find(|t| !matches!(t.token, Token::Whitespace(_)));
        solid.map_or(Span::empty(), |t| t.span)
    }

    /// Its text in the script it was split from.
    pub(crate) fn text<'a>(&self, script: &Script<'a>) -> &'a str {
        let Span { start, end } = self.span();
        let from = offset(script.text(), start);
        &script.text()[from..offset(script.text(), end).max(from)]
    }

    /// Parses it.
    pub(crate) fn parse(self) -> Result<Statement> {
        self.check_tokens()?;
        let end = self.span().end;
        let spans: Vec<Span> = self.0.iter().map(|token| token.span).collect();
        let mut parser = Parser::new(&FlinkDialect).with_tokens_with_locations(self.0);
        let statement = parse_statement(&mut parser).and_then(|statement| {
            if parser.peek_token_ref().token != Token::EOF {
                let token = parser.peek_token();
                parser.expected::<()>("the end of the statement", token)?;
            }
            Ok(statement)
        });
        // What is missing is missing behind the last token.
        statement.map_err(|fault| fault.widen(spans.into_iter()).or_at(Span::new(end, end)))
    }

    /// What the parser would swallow without a word.
    fn check_tokens(&self) -> Result<()> {
        for TokenWithSpan { token, span } in &self.0 {
            match token {
                Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('+') => {
                    let start = span.start;
                    let end = Location::new(start.line, start.column + 3);
                    return Err(Fault::unsupported("a hint (/*+ .. */)", Span::new(start, end)));
                }
                Token::DoubleQuotedString(text) => {
                    let message =
                        format!("strings are written in single quotes ('{text}'), identifiers in backticks (`{text}`)");
                    return Err(Fault::new(message, *span));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Byte offset of a place in a text.
fn offset(text: &str, at: Location) -> usize {
    let mut lines = text.split_inclusive('\n');
    let before: usize =
        lines.by_ref().take(usize::try_from(at.line).unwrap_or(1).saturating_sub(1)).map(str::len).sum();
    let line = lines.next().unwrap_or_default();
    let column = usize::try_from(at.column).unwrap_or(1).saturating_sub(1);
    before + line.char_indices().nth(column).map_or(line.len(), |(i, _)| i)
}

fn parse_statement(parser: &mut Parser<'_>) -> Result<Statement> {
    let token = parser.peek_token();
    let word = match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        Token::LParen => return Ok(Statement::Query(parser.parse_query()?)),
        _ => return Ok(parser.expected("a statement", token)?),
    };
    match word.as_str() {
        "SELECT" | "WITH" | "VALUES" => Ok(Statement::Query(parser.parse_query()?)),
        "CREATE" => parse_create(parser),
        "DROP" => parse_drop(parser),
        "INSERT" => parse_insert(parser),
        "EXPLAIN" => parse_explain(parser),
        "SET" => parse_set(parser),
        "EXECUTE" => {
            parser.advance_token();
            match parser.peek_token() {
                next if is_word(&next, "INSERT") || is_word(&next, "SELECT") => parse_statement(parser),
                next => Err(Fault::unsupported(format!("EXECUTE {next}"), token.span)),
            }
        }
        word if LATER.contains(&word) => Err(Fault::unsupported(format!("the statement {word}"), token.span)),
        _ => {
            let hint = did_you_mean(&word, STATEMENTS.into_iter());
            Err(Fault::new(format!("expected a statement, found {token}{hint}"), token.span))
        }
    }
}

fn parse_create(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.expect_keyword(Keyword::CREATE)?;
    let temporary = parser.parse_keyword(Keyword::TEMPORARY);
    let what = parser.next_token();
    if !is_word(&what, "TABLE") {
        return Err(Fault::unsupported(format!("CREATE {what}"), what.span));
    }
    Ok(Statement::CreateTable(CreateTable::parse(parser, temporary)?))
}

fn parse_drop(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.expect_keyword(Keyword::DROP)?;
    let _optional = parser.parse_keyword(Keyword::TEMPORARY);
    let what = parser.next_token();
    if !is_word(&what, "TABLE") {
        return Err(Fault::unsupported(format!("DROP {what}"), what.span));
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    Ok(Statement::DropTable { name: parser.parse_object_name(false)?, if_exists })
}

fn parse_insert(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.expect_keyword(Keyword::INSERT)?;
    let next = parser.next_token();
    if !is_word(&next, "INTO") {
        return if is_word(&next, "OVERWRITE") {
            Err(Fault::unsupported("INSERT OVERWRITE", next.span))
        } else {
            Ok(parser.expected("INTO", next)?)
        };
    }
    let table = parser.parse_object_name(false)?;
    let next = parser.peek_token();
    if is_word(&next, "PARTITION") {
        return Err(Fault::unsupported("INSERT INTO .. PARTITION", next.span));
    }
    // A parenthesis opens a column list, or a query as in `INSERT INTO t (SELECT ..)`.
    let query_follows = ["SELECT", "WITH", "VALUES"].iter().any(|w| is_word(parser.peek_nth_token_ref(1), w));
    let columns = match next.token {
        Token::LParen if !query_follows => {
            parser.advance_token();
            let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
            columns
        }
        _ => Vec::new(),
    };
    let query = parser.parse_query()?;
    let next = parser.peek_token();
    if is_word(&next, "ON") {
        return Err(Fault::unsupported("ON CONFLICT", next.span));
    }
    Ok(Statement::Insert { table, columns, query })
}

fn parse_explain(parser: &mut Parser<'_>) -> Result<Statement> {
    let explain = parser.next_token();
    if parse_word(parser, "PLAN") {
        parser.expect_keyword(Keyword::FOR)?;
    }
    let next = parser.peek_token();
    for detail in ["ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"] {
        if is_word(&next, detail) {
            return Err(Fault::unsupported(format!("EXPLAIN {detail}"), next.span));
        }
    }
    match parse_statement(parser)? {
        inner @ (Statement::Query(_) | Statement::Insert { .. }) => Ok(Statement::Explain(Box::new(inner))),
        _ => Err(Fault::new("expected a SELECT or INSERT to explain", explain.span)),
    }
}

fn parse_set(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.advance_token();
    let key = parser.next_token();
    let Token::SingleQuotedString(name) = &key.token else {
        return Ok(parser.expected("an option in quotes, as in SET 'parallelism.default' = '2'", key)?);
    };
    parser.expect_token(&Token::Eq)?;
    let value = parser.next_token();
    let Token::SingleQuotedString(text) = &value.token else {
        return Ok(parser.expected("a value in quotes", value)?);
    };
    Ok(Statement::Set { key: name.clone(), value: text.clone(), span: Span::new(key.span.start, value.span.end) })
}

/// The table a name means: there is one catalog with one database, whose names may be written before it.
pub(crate) fn table_name(name: &ObjectName) -> Result<String> {
    let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str()).collect();
    match parts.as_slice() {
        [table] | ["default_database", table] | ["default_catalog", "default_database", table] => {
            Ok((*table).to_owned())
        }
        _ => Err(Fault::unsupported(format!("a catalog or database other than default ({name})"), name.span())),
    }
}
