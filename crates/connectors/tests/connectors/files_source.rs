//! The source `files`: what is read, in which parts, and what is refused.

use std::fs;
use std::path::Path;

use arrow_schema::{DataType, Field, Schema};
use flott_connectors::files::{FilesSourceConfig, SourceFormat};
use flott_core::{Error, ErrorDomain, ReaderContext, SourceEvent, Spec};
use flott_formats::csv::CsvOptions;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tempfile::TempDir;

use super::support::{info, nothing, read, source, splits, text};

fn csv(path: &Path, header: bool, split_bytes: u64) -> Spec {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
    let options = CsvOptions { header, comment: Some('#'), ..CsvOptions::default() };
    let format = SourceFormat::Csv { schema, options };
    FilesSourceConfig { split_bytes, ..FilesSourceConfig::new(path, format) }.spec().unwrap()
}

fn lines(path: &Path, split_bytes: u64) -> Spec {
    FilesSourceConfig { split_bytes, ..FilesSourceConfig::new(path, SourceFormat::Lines) }.spec().unwrap()
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

#[test]
fn files_of_a_folder_in_the_order_of_their_names() {
    let files = [
        ("b.csv", "s,n\nx,2\n"),
        ("a.csv", "n,other,s\n1,-,y\n"),
        ("c/d.csv", "n,s\n3,z"),
        ("empty.csv", ""),
        ("header.csv", "n,s\n"),
        (".hidden", "no"),
        ("_SUCCESS", "no"),
    ];
    let folder = folder(&files);
    let spec = csv(folder.path(), true, 1 << 20);
    let read = read(&spec, 10, 0).unwrap();
    let expected = [("a.csv", "1, y"), ("b.csv", "2, x"), ("c/d.csv", "3, z")];
    assert_eq!(read, expected.map(|(split, row)| (split.to_owned(), row.to_owned())));
    assert_eq!(splits(&spec).len(), 4, "an empty file has no split");
    let one = csv(&folder.path().join("b.csv"), true, 1 << 20);
    assert_eq!(text(&super::support::read(&one, 10, 0).unwrap()), "2, x");
}

#[test]
fn files_without_rows() {
    let files = [("hidden/.part", "1,x\n"), ("empty/a.csv", ""), ("header/a.csv", "n,s\n"), ("blank.csv", "\n\r\n")];
    let folder = folder(&files);
    for (name, header) in
        [("hidden", true), ("empty", true), ("header", true), ("header/a.csv", true), ("blank.csv", false)]
    {
        let spec = csv(&folder.path().join(name), header, 1);
        assert_eq!(read(&spec, 10, 1).unwrap(), [], "{name}");
    }
}

#[test]
fn refused_before_anything_runs() {
    let folder = folder(&[("good.csv", "n,s\n1,x\n"), ("lacks/a.csv", "n,t,u\n1,x,y\n"), ("nothing.csv", "")]);
    let path = folder.path().display();
    for (spec, expected) in [
        (
            csv(&folder.path().join("no.csv"), true, 1),
            format!("cannot read: No such file or directory (os error 2) (file {path}/no.csv)"),
        ),
        (
            csv(&folder.path().join("nothing.csv"), true, 1),
            format!("expected a header with the columns n, s, found an empty file (file {path}/nothing.csv)"),
        ),
        (
            csv(&folder.path().join("nothing.csv"), false, 1),
            format!("expected rows with the columns n, s, found an empty file (file {path}/nothing.csv)"),
        ),
        (
            lines(&folder.path().join("nothing.csv"), 1),
            format!("expected lines of text, found an empty file (file {path}/nothing.csv)"),
        ),
        #[cfg(unix)]
        (
            lines(Path::new("/dev/null"), 1),
            "expected a file or a folder, found a device or a pipe (file /dev/null)".into(),
        ),
        (
            csv(&folder.path().join("lacks"), true, 1),
            format!("the column 's' is not in the header: n, t, u (line 1, file {path}/lacks/a.csv)"),
        ),
        (
            csv(&folder.path().join("good.csv"), true, 0),
            "expected split_bytes of at least 1, found 0 (source files)".into(),
        ),
    ] {
        let error = source(&spec).unwrap().enumerator(None).err().unwrap();
        assert_eq!((error.to_string(), error.domain()), (expected, ErrorDomain::User));
    }
    let unknown =
        Spec { factory: "files".into(), config: br#"{"path":"x","format":"lines","spilt_bytes":1}"#.to_vec() };
    let error = source(&unknown).err().unwrap().to_string();
    assert!(error.contains("unknown field `spilt_bytes`"), "{error}");
}

#[test]
fn errors_name_file_line_and_column_in_every_part() {
    let folder = folder(&[("a.csv", "n,s\n1,x\n2,x\n3,x\n4x,x\n")]);
    let file = folder.path().join("a.csv");
    for split_bytes in [1, 4, 7, 1 << 20] {
        for events in [0, 1] {
            let error = read(&csv(&file, true, split_bytes), 1, events).unwrap_err().to_string();
            assert_eq!(error, format!("expected BIGINT, found '4x' (column n, line 5, file {})", file.display()));
        }
    }
}

#[test]
fn a_line_break_in_quotes() {
    let folder = folder(&[("a.csv", "1,\"x\ny\"\n2,z\n")]);
    let file = folder.path().join("a.csv");
    assert_eq!(text(&read(&csv(&file, false, 1 << 20), 10, 0).unwrap()), "1, x\ny | 2, z");
    let error = read(&csv(&file, false, 6), 10, 0).unwrap_err().to_string();
    let expected = "found an end of line inside quotes in a file that is read in parts; set splittable to false";
    assert_eq!(error, format!("{expected} (line 1, file {})", file.display()));
    let mut config: FilesSourceConfig = csv(&file, false, 6).read().unwrap();
    config.splittable = false;
    assert_eq!(text(&read(&config.spec().unwrap(), 1, 1).unwrap()), "1, x\ny | 2, z");
}

#[test]
fn a_file_that_has_been_cut() {
    let folder = folder(&[("a.txt", "one\ntwo\n")]);
    let file = folder.path().join("a.txt");
    let spec = lines(&file, 1 << 20);
    let mut reader = source(&spec).unwrap().reader(&info(0, 1, nothing())).unwrap();
    reader.add_split(splits(&spec).remove(0)).unwrap();
    fs::write(&file, "one\n").unwrap();
    let clock = flott_core::ManualClock::default();
    let ctx = ReaderContext { waker: std::task::Waker::noop(), clock: &clock, max_rows: 1 };
    let error = reader.next_batch(&ctx).unwrap_err();
    assert_eq!(error.message(), "expected a file of at least 8 bytes, found 4: it has been cut");
}

/// What is wrong with a row may be found after it was read, such as an event time that is NULL.
#[test]
fn a_row_of_the_last_batch_is_found_again() {
    let content = "n,s\n1,x\n2,x\n\n3,x\n# no row\n4,x\n5,x\n6,x";
    let folder = folder(&[("a.csv", content)]);
    let file = folder.path().join("a.csv");
    // Of the rows; the second and the third of a blank line and a comment.
    let lines = [2, 3, 5, 7, 8, 9];
    for (split_bytes, max_rows) in [(1 << 20, 100), (1 << 20, 2), (9, 100), (9, 1), (4, 2)] {
        let spec = csv(&file, true, split_bytes);
        let source = source(&spec).unwrap();
        let mut reader = source.reader(&info(0, 1, nothing())).unwrap();
        splits(&spec).into_iter().for_each(|split| reader.add_split(split).unwrap());
        let clock = flott_core::ManualClock::default();
        let ctx = ReaderContext { waker: std::task::Waker::noop(), clock: &clock, max_rows };
        let mut found = Vec::new();
        loop {
            match reader.next_batch(&ctx).unwrap() {
                SourceEvent::Batch(_, batch) => found.extend((0..batch.num_rows()).map(|row| {
                    let error = reader.at_row(Error::user("NULL"), row);
                    assert_eq!(error.place("file"), file.to_str());
                    error.place("line").unwrap().parse::<u64>().unwrap()
                })),
                SourceEvent::SplitFinished(_) => {}
                _ => break,
            }
        }
        assert_eq!(found, lines, "parts of {split_bytes} bytes, batches of {max_rows}");
    }
}

#[test]
fn a_paused_split_gives_way() {
    let folder = folder(&[("a.txt", "a1\na2\n"), ("b.txt", "b1\n")]);
    let spec = lines(folder.path(), 1 << 20);
    let mut reader = source(&spec).unwrap().reader(&info(0, 1, nothing())).unwrap();
    splits(&spec).into_iter().for_each(|split| reader.add_split(split).unwrap());
    let clock = flott_core::ManualClock::default();
    let ctx = ReaderContext { waker: std::task::Waker::noop(), clock: &clock, max_rows: 1 };
    let mut step = |pause: &[(&str, bool)]| {
        pause.iter().for_each(|(split, paused)| reader.pause(split, *paused));
        format!("{:?}", reader.next_batch(&ctx).unwrap()).split("Batch {").next().unwrap().to_owned()
    };
    assert_eq!(step(&[]), "Batch(\"a.txt\", ");
    assert_eq!(step(&[("a.txt", true)]), "Batch(\"b.txt\", ");
    assert_eq!(step(&[("b.txt", true)]), "Wait(Waker)");
    assert_eq!(step(&[("a.txt", false)]), "Batch(\"a.txt\", ");
    assert_eq!(step(&[]), "SplitFinished(\"a.txt\")");
    assert_eq!(step(&[("b.txt", false)]), "SplitFinished(\"b.txt\")");
    assert_eq!(step(&[]), "NeedSplit");
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the parts, the batches and the moments of snapshot and restore: every row once, in order.
    #[test]
    fn every_row_exactly_once(
        rows in proptest::collection::vec("[a-z]{0,6}", 0..30),
        blank in any::<bool>(),
        crlf in any::<bool>(),
        header in any::<bool>(),
        last_end in any::<bool>(),
        split_bytes in 1..40u64,
        max_rows in 1..5usize,
        events in 0..4usize,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut content = if header { format!("# comment{end}s,n{end}") } else { String::new() };
        for (n, s) in rows.iter().enumerate() {
            content.push_str(&if header { format!("{s},{n}{end}") } else { format!("{n},{s}{end}") });
            if blank {
                content.push_str(end);
            }
        }
        if !last_end {
            content.truncate(content.trim_end_matches(['\r', '\n']).len());
        }
        // In a folder, where a file may be empty.
        let folder = folder(&[("f", &content)]);

        let read_csv = read(&csv(folder.path(), header, split_bytes), max_rows, events).unwrap();
        let expected: Vec<_> = rows.iter().enumerate().map(|(n, s)| {
            format!("{n}, {}", if s.is_empty() { "null" } else { s })
        }).collect();
        prop_assert_eq!(read_csv.iter().map(|(_, row)| row.clone()).collect::<Vec<_>>(), expected);

        let read_lines = read(&lines(folder.path(), split_bytes), max_rows, events).unwrap();
        let expected: Vec<_> = content.lines().map(str::to_owned).collect();
        prop_assert_eq!(read_lines.iter().map(|(_, row)| row.clone()).collect::<Vec<_>>(), expected);
    }
}
