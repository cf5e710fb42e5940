//! The sources and sinks that are built in, with their configurations; each has a `spec` for
//! [`crate::StreamExecutionEnvironment`]'s `from_source` and [`crate::DataStream::sink_to`].

use std::path::PathBuf;

use arrow_schema::Schema;
pub use flott_connectors::{blackhole, files, print, sequence};
pub use flott_formats::csv::CsvOptions;

use crate::Record;

/// CSV files whose columns are `T`'s: what `read_csv` reads, where it needs options (a text for NULL, another
/// delimiter, event time found in the source).
///
/// ```
/// use flott::connectors::{CsvOptions, csv_source};
///
/// let options = CsvOptions { header: true, null_literal: Some("NA".to_owned()), ..CsvOptions::default() };
/// let source = csv_source::<(String, Option<i32>)>("flights.csv", options);
/// assert_eq!(source.schema().field(1).name(), "f1");
/// ```
pub fn csv_source<T: Record>(path: impl Into<PathBuf>, options: CsvOptions) -> files::FilesSourceConfig {
    let schema = Schema::new(T::fields());
    files::FilesSourceConfig::new(path, files::SourceFormat::Csv { schema, options })
}

/// CSV files in a folder, for `sink_to`: parts named `part-<task>-<number>.csv`, visible when they are whole.
pub fn csv_sink(folder: impl Into<PathBuf>, options: CsvOptions) -> files::FilesSinkConfig {
    files::FilesSinkConfig { path: folder.into(), format: files::SinkFormat::Csv(options) }
}
