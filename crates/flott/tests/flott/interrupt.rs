//! Ctrl-C: the job is cancelled, the exit code is 130, and no part of a file is left.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::program::{example, files, told};

/// Ends with the test, also with one that fails.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        drop(self.0.kill());
    }
}

#[test]
fn ctrl_c_leaves_no_file() {
    for (signal, workers) in [("INT", "0"), ("TERM", "0"), ("INT", "1")] {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("numbers");
        let mut command = example("numbers");
        command.arg(&output).args(["--workers", workers]).stderr(Stdio::piped());
        // A terminal's Ctrl-C goes to the program and its workers alike.
        let mut program = Endless(command.process_group(0).spawn().unwrap());
        let mut stderr = BufReader::new(program.0.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "writing; Ctrl-C ends it\n");
        assert!(!files(&output).is_empty(), "hidden files are being written");
        let kill = format!("kill -{signal} -{}", program.0.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(program.0.wait().unwrap().code(), Some(130), "{rest}");
        assert_eq!(rest, "cancelled: what was not committed is gone\n");
        assert_eq!(files(&output), [] as [&str; 0]);
    }
}

#[test]
fn without_ctrl_c_all_files_are_there() {
    for workers in ["0", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("numbers");
        let run = example("numbers").arg(&output).args(["1000", "--workers", workers]).output().unwrap();
        assert_eq!(told(&run), (Some(0), String::new(), String::new()), "{workers} workers");
        let mut numbers = Vec::new();
        for name in files(&output) {
            let text = std::fs::read_to_string(output.join(name)).unwrap();
            numbers.extend(text.lines().map(|line| line.parse::<i64>().unwrap()));
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=500).map(|n| 2 * n).collect::<Vec<_>>(), "{workers} workers");
    }
}
