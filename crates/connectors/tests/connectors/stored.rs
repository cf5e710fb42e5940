//! What connectors put into checkpoints: it has a version, and means the same in another working directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use flott_connectors::collect::Collected;
use flott_connectors::collection::CollectionConfig;
use flott_connectors::files::{FilesSinkConfig, FilesSourceConfig, SinkFormat, SourceFormat};
use flott_connectors::sequence::SequenceConfig;
use flott_core::{Batch, Committable, ErrorDomain, Result, Sink, Spec, schema_of};
use flott_formats::csv::CsvOptions;

use super::support::{info, nothing, registry, source, splits};

fn schema() -> SchemaRef {
    schema_of(vec![Field::new("n", DataType::Int64, false)])
}

fn rows() -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(vec![1, 2, 3]))]).unwrap()
}

/// The same bytes from a flott of the future.
fn newer(mut bytes: Vec<u8>) -> Vec<u8> {
    assert_eq!(bytes[0], 1);
    bytes[0] = 7;
    bytes
}

#[track_caller]
fn refused<T>(result: Result<T>, what: &str) {
    let error = result.err().unwrap();
    let expected = format!("expected version 1 of {what}, found 7: written by a newer flott");
    assert_eq!((error.message(), error.domain()), (expected.as_str(), ErrorDomain::User));
}

#[test]
fn sources_refuse_newer_versions_by_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    for (spec, position) in [
        (FilesSourceConfig::new(folder.path(), SourceFormat::Lines).spec(), "the position in a file"),
        (SequenceConfig { from: 1, to: 9, splits: 2 }.spec(), "the position of a range of rows"),
        (CollectionConfig::new(&schema(), &[rows()], 2).unwrap().spec(), "the position of a range of rows"),
    ] {
        let spec = spec.unwrap();
        let (source, mut split) = (source(&spec).unwrap(), splits(&spec).remove(0));
        let left = source.enumerator(None).unwrap().snapshot().unwrap();
        refused(source.enumerator(Some(&newer(left))), "the splits that are left");
        split.position = newer(split.position);
        refused(source.reader(&info(0, 1, nothing())).unwrap().add_split(split), position);
    }
}

#[test]
fn sinks_refuse_newer_versions_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let collected = Collected::default();
    let mut registry = registry();
    collected.register(&mut registry);
    let files = files_sink(folder.path());
    for (spec, part, entry) in [
        (files, "a part of a files sink", "the number of the next part"),
        (Collected::spec().unwrap(), "collected rows", "the number of the next committable"),
    ] {
        let sink: Box<dyn Sink> = registry.sink(&spec.factory).unwrap()(&spec).unwrap();
        let info = info(0, 1, schema());
        let mut writer = sink.writer(&info, &[]).unwrap();
        writer.write(&Batch::new(rows())).unwrap();
        let Committable(bytes) = writer.prepare_commit().unwrap().remove(0);
        refused(sink.committer().unwrap().unwrap().commit(&[Committable(newer(bytes))]), part);
        refused(sink.writer(&info, &[newer(writer.snapshot().unwrap().remove(0))]), entry);
    }
}

fn files_sink(path: &Path) -> Spec {
    FilesSinkConfig { path: path.to_owned(), format: SinkFormat::Csv(CsvOptions::default()) }.spec().unwrap()
}

/// The way from here to a folder that begins at the root.
fn relative(path: &Path) -> PathBuf {
    let here = std::path::absolute(".").unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    up.join(path.strip_prefix("/").unwrap())
}

fn holds(bytes: &[u8], path: &Path) -> bool {
    let path = path.to_str().unwrap().as_bytes();
    bytes.windows(path.len()).any(|window| window == path)
}

/// A job that is resumed in another working directory finds its files and the parts it is to commit.
#[cfg(unix)]
#[test]
fn paths_are_stored_absolute_and_shown_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let written = relative(folder.path());
    assert!(written.is_relative() && written.is_dir());
    let absolute = std::path::absolute(&written).unwrap();

    let spec = files_sink(&written.join("out"));
    let sink = registry().sink("files").unwrap()(&spec).unwrap();
    let mut writer = sink.writer(&info(0, 1, schema()), &[]).unwrap();
    writer.write(&Batch::new(rows())).unwrap();
    let parts = writer.prepare_commit().unwrap();
    assert!(holds(&parts[0].0, &absolute.join("out/part-0-0.csv")));
    sink.committer().unwrap().unwrap().commit(&parts).unwrap();
    assert!(folder.path().join("out/part-0-0.csv").exists());

    let csv = || SourceFormat::Csv { schema: Schema::clone(&schema()), options: CsvOptions::default() };
    std::fs::write(folder.path().join("bad.csv"), "1\nx\n").unwrap();
    for path in [written.clone(), written.join("bad.csv")] {
        let spec = FilesSourceConfig::new(&path, csv()).spec().unwrap();
        let split = splits(&spec).into_iter().find(|split| split.id.starts_with("bad.csv")).unwrap();
        assert!(holds(&split.position, &absolute.join("bad.csv")));
        let mut reader = source(&spec).unwrap().reader(&info(0, 1, nothing())).unwrap();
        reader.add_split(split).unwrap();
        let clock = flott_core::ManualClock::default();
        let ctx = flott_core::ReaderContext { waker: std::task::Waker::noop(), clock: &clock, max_rows: 1 };
        drop(reader.next_batch(&ctx).unwrap());
        let error = reader.next_batch(&ctx).unwrap_err();
        assert_eq!(error.place("file"), written.join("bad.csv").to_str());
    }
}
