//! Ctrl-C: the job is cancelled, the exit code is that of the signal, and no part of a file is left. Again: at once.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::program::{example, files, told};

/// Takes long enough to be interrupted; a program that does not listen must not fill the disk.
const UP_TO: &str = "1000000000";

/// Ends with the test, also with one that fails.
struct Endless(Child);

impl Endless {
    /// The program of numbers, and its standard error, when it writes.
    fn start(output: &PathBuf, workers: &str) -> (Self, BufReader<ChildStderr>) {
        // Whoever runs these tests may ignore SIGHUP (`nohup`), and the program would too.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(example("numbers").get_program());
        command.arg(output).args([UP_TO, "--workers", workers]);
        Self::spawn(command, output)
    }

    fn spawn(mut command: Command, output: &PathBuf) -> (Self, BufReader<ChildStderr>) {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Self(command.process_group(0).spawn().unwrap());
        let mut stderr = BufReader::new(program.0.stderr.take().unwrap());
        let mut line = String::new();
        while line != "writing; Ctrl-C ends it\n" {
            line.clear();
            // nohup has something to say first.
            assert!(stderr.read_line(&mut line).unwrap() > 0 && !line.starts_with("error"), "{line}");
        }
        assert!(!files(output).is_empty(), "hidden files are being written");
        (program, stderr)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        drop(self.0.kill());
    }
}

#[test]
fn ctrl_c_leaves_no_file() {
    // 128 and the number of the signal.
    for (signal, workers, code) in [("INT", "0", 130), ("TERM", "0", 143), ("HUP", "1", 129), ("INT", "1", 130)] {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("numbers");
        let (mut program, mut stderr) = Endless::start(&output, workers);
        // A terminal's Ctrl-C goes to the program and its workers alike.
        kill(signal, &format!("-{}", program.0.id()));
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(program.0.wait().unwrap().code(), Some(code), "{rest}");
        assert_eq!(rest.lines().last(), Some("cancelled: what was not committed is gone"), "{rest}");
        assert_eq!(files(&output), [] as [&str; 0]);
    }
}

#[test]
fn ctrl_c_again_does_not_wait_for_a_worker_that_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("numbers");
    let (mut program, mut stderr) = Endless::start(&output, "1");
    // The worker's task, which needs nobody of the other process, writes too.
    while !files(&output).iter().any(|name| name.starts_with(".part-1-")) {
        assert!(program.0.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let worker = child_of(program.0.id());
    kill("STOP", &worker);
    kill("INT", &program.0.id().to_string());
    let mut waits = String::new();
    stderr.read_line(&mut waits).unwrap();
    assert!(waits.starts_with("waiting for task "), "{waits}");
    assert!(waits.contains(&format!(" in worker {worker}")), "{waits}");
    assert!(waits.ends_with("; a second Ctrl-C ends it now\n"), "{waits}");
    kill("INT", &program.0.id().to_string());
    // Both hold the other end of it: to the end of both.
    program.0.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(program.0.wait().unwrap().code(), Some(130));
    // What the worker was at is still hidden.
    let visible = files(&output).into_iter().filter(|name| !name.starts_with('.'));
    assert_eq!(visible.collect::<Vec<_>>(), [] as [&str; 0]);
}

#[test]
fn a_program_that_is_to_survive_its_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("numbers");
    let mut command = Command::new("nohup");
    command.arg(example("numbers").get_program()).arg(&output).arg(UP_TO);
    let (mut program, mut stderr) = Endless::spawn(command, &output);
    kill("HUP", &program.0.id().to_string());
    kill("TERM", &program.0.id().to_string());
    stderr.read_to_string(&mut String::new()).unwrap();
    // Had it heard the first, the second would have ended it with this code as well, but at once: with its files.
    assert_eq!(program.0.wait().unwrap().code(), Some(143));
    assert_eq!(files(&output), [] as [&str; 0]);
}

fn kill(signal: &str, process: &str) {
    let kill = format!("kill -{signal} {process}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// The one process that another has started, whichever thread has.
fn child_of(pid: u32) -> String {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children = |thread: PathBuf| std::fs::read_to_string(thread.join("children")).unwrap_or_default();
    let all: String = threads.map(|thread| children(thread.unwrap().path())).collect();
    let all: Vec<_> = all.split_whitespace().collect();
    assert_eq!(all.len(), 1, "one worker: {all:?}");
    all[0].to_owned()
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
