//! From the options of a table to what makes its source or sink.
//!
//! This crate may not depend on the connectors: their configurations are written by their documented field names.
//! Unknown options are refused with the nearest name, before anything runs.

use sqlparser::tokenizer::Span;
use crate::create_table::TableOption;
use crate::script::{Fault, Result};

#[derive(Debug)]
pub(crate) enum Connector { Blackhole }

impl Connector {
    pub(crate) fn read(_table: &str, _options: Vec<TableOption>, _span: Span) -> Result<Self> {
        Err(Fault::new("x", Span::empty()))
    }
}
