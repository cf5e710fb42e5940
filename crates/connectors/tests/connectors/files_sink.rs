//! The sink `files`: nothing is visible before its commit, nothing twice after it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use flott_connectors::files::{FilesSinkConfig, SinkFormat};
use flott_core::{Batch, ErrorDomain, Sink, SinkWriter, schema_of};
use flott_formats::csv::CsvOptions;

use super::support::{info, registry};

fn schema() -> SchemaRef {
    schema_of(vec![Field::new("n", DataType::Int64, false)])
}

fn sink(path: &Path, header: bool) -> Box<dyn Sink> {
    let format = SinkFormat::Csv(CsvOptions { header, ..CsvOptions::default() });
    let spec = FilesSinkConfig { path: path.to_owned(), format }.spec().unwrap();
    registry().sink("files").unwrap()(&spec).unwrap()
}

fn writer(sink: &dyn Sink, task: u32, restored: &[Vec<u8>]) -> Box<dyn SinkWriter> {
    sink.writer(&info(task, 2, schema()), restored).unwrap()
}

fn batch(numbers: std::ops::Range<i64>) -> Batch {
    let array: Int64Array = numbers.collect::<Vec<_>>().into();
    Batch::new(RecordBatch::try_new(schema(), vec![Arc::new(array)]).unwrap())
}

/// `name: content` of all files, hidden ones too, sorted.
fn files(path: &Path) -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let content = fs::read_to_string(&path).unwrap().replace('\n', " ");
            format!("{}: {}", path.file_name().unwrap().to_str().unwrap(), content.trim_end())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn visible_when_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("made/here");
    let sink = sink(path, true);
    let mut committer = sink.committer().unwrap().unwrap();
    let (mut first, mut second) = (writer(&*sink, 0, &[]), writer(&*sink, 1, &[]));
    first.write(&batch(0..2)).unwrap();
    second.write(&batch(0..0)).unwrap();
    first.write(&batch(2..3)).unwrap();
    first.flush().unwrap();
    assert_eq!(files(path), [".part-0-0.inprogress: n 0 1 2"]);
    let one = first.prepare_commit().unwrap();
    assert_eq!(second.prepare_commit().unwrap(), [], "no rows, no part");
    second.write(&batch(7..8)).unwrap();
    first.write(&batch(3..4)).unwrap();
    committer.commit(&one).unwrap();
    committer.commit(&one).unwrap();
    let two = [first.prepare_commit().unwrap(), second.prepare_commit().unwrap()].concat();
    let found = files(path);
    assert_eq!(found, [".part-0-1.inprogress: n 3", ".part-1-0.inprogress: n 7", "part-0-0.csv: n 0 1 2"]);
    committer.commit(&[one, two].concat()).unwrap();
    assert_eq!(files(path), ["part-0-0.csv: n 0 1 2", "part-0-1.csv: n 3", "part-1-0.csv: n 7"]);
}

#[test]
fn updates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(&*sink(folder.path(), false), 0, &[]);
    let error = writer.write(&batch(0..2).with_row_kinds(Some(vec![0u8, 2].into()))).unwrap_err();
    assert_eq!(error.message(), "expected only new rows (+I), found an update or a removal");
}

#[test]
fn abandoned() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), false);
    let mut writer = writer(&*sink, 0, &[]);
    writer.write(&batch(0..1)).unwrap();
    let prepared = writer.prepare_commit().unwrap();
    writer.write(&batch(1..2)).unwrap();
    writer.abandon();
    assert_eq!(files(folder.path()), [".part-0-0.inprogress: 0"], "what a checkpoint may count on stays");
    sink.committer().unwrap().unwrap().commit(&prepared).unwrap();
    assert_eq!(files(folder.path()), ["part-0-0.csv: 0"]);
}

#[test]
fn names_are_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), false);
    let mut committer = sink.committer().unwrap().unwrap();
    let mut before = writer(&*sink, 1, &[]);
    before.write(&batch(0..1)).unwrap();
    committer.commit(&before.prepare_commit().unwrap()).unwrap();
    before.write(&batch(1..2)).unwrap();
    let pending = before.prepare_commit().unwrap();
    let state = before.snapshot().unwrap();
    drop(before);

    // Task 1 again, once with the state and once (after a rescale) without; the pending part is still to commit.
    let mut with = writer(&*sink, 1, &state);
    with.write(&batch(2..3)).unwrap();
    let mut without = writer(&*sink, 1, &[]);
    without.write(&batch(3..4)).unwrap();
    for part in [pending, with.prepare_commit().unwrap(), without.prepare_commit().unwrap()] {
        committer.commit(&part).unwrap();
    }
    assert_eq!(files(folder.path()), ["part-1-0.csv: 0", "part-1-1.csv: 1", "part-1-2.csv: 2", "part-1-3.csv: 3"]);
}

#[test]
fn commits_that_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, path) = (sink(folder.path(), false), folder.path());
    let mut committer = sink.committer().unwrap().unwrap();
    let mut writer = writer(&*sink, 0, &[]);
    writer.write(&batch(0..1)).unwrap();
    let part = writer.prepare_commit().unwrap();
    fs::write(path.join("part-0-0.csv"), "mine").unwrap();
    let error = committer.commit(&part).unwrap_err();
    assert_eq!(error.message(), format!("cannot commit {}/.part-0-0.inprogress: the name is taken", path.display()));
    fs::remove_file(path.join("part-0-0.csv")).unwrap();
    fs::remove_file(path.join(".part-0-0.inprogress")).unwrap();
    let error = committer.commit(&part).unwrap_err();
    assert_eq!(error.message(), "cannot commit a part: somebody has removed it; its rows are lost");
    fs::write(path.join("file"), "").unwrap();
    for folder in ["file", "file/below"] {
        let error = self::sink(&path.join(folder), false).writer(&info(0, 1, schema()), &[]).err().unwrap();
        let expected = format!("expected a folder to write to, found a file (file {}/file)", path.display());
        assert_eq!((error.to_string(), error.domain()), (expected, ErrorDomain::User), "{folder}");
    }
}
