//! Ctrl-C: the job is cancelled, the exit code is 130, and no part of a file is left.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::program::{example, files};

#[test]
fn ctrl_c_leaves_no_file() {
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("numbers");
        let mut program = example("numbers").arg(&output).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(program.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "writing; Ctrl-C ends it\n");
        assert!(!files(&output).is_empty(), "hidden files are being written");
        let kill = format!("kill -{signal} {}", program.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(program.wait().unwrap().code(), Some(130), "{rest}");
        assert_eq!(rest, "cancelled: what was not committed is gone\n");
        assert_eq!(files(&output), [] as [&str; 0]);
    }
}

#[test]
fn without_ctrl_c_all_files_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("numbers");
    let status = example("numbers").arg(&output).arg("10").status().unwrap();
    assert!(status.success());
    let names = files(&output);
    let texts = names.iter().map(|name| std::fs::read_to_string(output.join(name)).unwrap());
    let mut numbers: Vec<i64> = texts.flat_map(|t| t.lines().map(|l| l.parse().unwrap()).collect::<Vec<_>>()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 4, 6, 8, 10]);
}
