//! The tables that statements know.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use sqlparser::ast::{Ident, Spanned};

use crate::connectors::Connector;
use crate::create_table::CreateTable;
use crate::script::{Fault, Result, did_you_mean};
use crate::statements::table_name;
use crate::types::FlinkType;

/// A table as CREATE TABLE declared it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) watermark: Option<Watermark>,
    pub(crate) connector: Connector,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) flink_type: FlinkType,
    pub(crate) nullable: bool,
}

/// The time attribute of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermark {
    pub(crate) column: usize,
    pub(crate) out_of_orderness_ms: u64,
}

impl Table {
    fn declare(name: String, create: CreateTable) -> Result<Self> {
        let columns: Vec<_> = create
            .columns
            .into_iter()
            .map(|c| Column { name: c.name.value, flink_type: c.flink_type, nullable: c.nullable })
            .collect();
        if columns.is_empty() {
            return Err(Fault::new(format!("the table {name} has no columns"), create.name.span()));
        }
        for key in &create.primary_key {
            find(&columns, key)?;
        }
        let watermark = match create.watermark {
            None => None,
            Some(definition) => {
                let column = find(&columns, &definition.column)?;
                // Flink allows these types alone for a time attribute.
                let found = &columns[column].flink_type;
                if !matches!(found, FlinkType::Timestamp(0..=3) | FlinkType::TimestampLtz(0..=3)) {
                    let text = format!("a watermark needs a TIMESTAMP(3) or TIMESTAMP_LTZ(3), found {found}");
                    return Err(Fault::new(text, definition.column.span));
                }
                Some(Watermark { column, out_of_orderness_ms: definition.out_of_orderness_ms })
            }
        };
        let connector = Connector::read(&name, create.options, create.name.span())?;
        Ok(Self { name, columns, watermark, connector })
    }

    /// The columns in Arrow's words.
    pub(crate) fn schema(&self) -> SchemaRef {
        let field = |c: &Column| Field::new(&c.name, c.flink_type.to_arrow(), c.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// Type of a column, in Arrow's words.
    pub(crate) fn arrow_type(&self, column: usize) -> DataType {
        self.columns[column].flink_type.to_arrow()
    }
}

fn find(columns: &[Column], name: &Ident) -> Result<usize> {
    columns.iter().position(|c| c.name == name.value).ok_or_else(|| {
        let hint = did_you_mean(&name.value, columns.iter().map(|c| c.name.as_str()));
        Fault::new(format!("there is no column '{}'{hint}", name.value), name.span)
    })
}

/// Tables by name. There is one catalog with one database, and names have case.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tables: BTreeMap<String, Arc<Table>>,
}

impl Catalog {
    pub(crate) fn create(&mut self, create: CreateTable) -> Result<String> {
        let name = table_name(&create.name)?;
        if self.tables.contains_key(&name) {
            if create.if_not_exists {
                return Ok(name);
            }
            return Err(Fault::new(format!("the table '{name}' exists already"), create.name.span()));
        }
        let table = Table::declare(name.clone(), create)?;
        self.tables.insert(name.clone(), Arc::new(table));
        Ok(name)
    }

    pub(crate) fn drop(&mut self, name: &sqlparser::ast::ObjectName, if_exists: bool) -> Result<String> {
        let wanted = table_name(name)?;
        match self.tables.remove(&wanted) {
            None if !if_exists => Err(self.missing(&wanted).or_at(name.span())),
            _ => Ok(wanted),
        }
    }

    /// The table of this name; the fault points nowhere yet.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<Table>> {
        self.tables.get(name).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Fault {
        let hint = did_you_mean(name, self.tables.keys().map(String::as_str));
        Fault::new(format!("there is no table '{name}'{hint}"), sqlparser::tokenizer::Span::empty())
    }
}
