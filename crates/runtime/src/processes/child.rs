//! A started worker process: [`Child`]. Its standard error is passed on and its end kept, as last words.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use flott_core::{Error, Result, Threads};

/// A process of ours.
pub(super) struct Child {
    process: std::process::Child,
    words: Arc<Mutex<Vec<u8>>>,
}

impl Child {
    /// Starts it. `on_silence` is called when its standard error ends, which is when it does.
    pub(super) fn start(
        mut command: Command,
        threads: &dyn Threads,
        last_words_bytes: usize,
        on_silence: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|e| {
            let program = command.get_program().to_string_lossy();
            Error::user(format!("cannot start a worker process: {e}")).at("program", program)
        })?;
        let words = Arc::new(Mutex::new(Vec::new()));
        let stderr = process.stderr.take();
        let mut child = Self { process, words: Arc::clone(&words) };
        let body = move || {
            if let Some(stderr) = stderr {
                listen(stderr, &words, last_words_bytes);
            }
            on_silence();
        };
        // Nobody waits for this thread: a process that the worker has started may hold the pipe for ever.
        match threads.spawn("flott-worker-stderr", Box::new(body)) {
            Ok(_) => Ok(child),
            Err(error) => {
                child.end();
                Err(error)
            }
        }
    }

    /// For people.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills it if it still runs, and says how it ended. One that ends at this moment keeps its own status.
    pub(super) fn end(&mut self) -> String {
        let killed = self.process.kill();
        let status = match killed.and_then(|()| self.process.wait()) {
            Ok(status) => describe(status),
            Err(error) => format!("cannot be ended: {error}"),
        };
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words);
        match words.trim() {
            "" => status,
            words => format!("{status}; its last words: {words}"),
        }
    }
}

fn listen(mut stderr: impl Read, words: &Mutex<Vec<u8>>, keep: usize) {
    let mut piece = [0; 4096];
    loop {
        let length = match stderr.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        // Where our own standard error is closed there is nobody to read it.
        let _ = std::io::stderr().write_all(&piece[..length]);
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&piece[..length]);
        let surplus = words.len().saturating_sub(keep);
        words.drain(..surplus);
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was killed by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => "ended".to_owned(),
    }
}
