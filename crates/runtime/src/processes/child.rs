//! A started worker process: [`Child`]. Its standard error is passed on and its end kept, as last words. All of a job
//! that run now: [`LiveWorkers`].

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::{Error, Result, Threads};
use flott_plan::HostId;

use crate::master::{self, Note};

type Process = Arc<Mutex<std::process::Child>>;

/// The worker processes of a job that run now, for whoever must end them at once. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct LiveWorkers(Arc<Mutex<Live>>);

#[derive(Debug, Default)]
struct Live {
    killed: bool,
    processes: BTreeMap<HostId, Process>,
}

impl LiveWorkers {
    /// Kills all of them, whatever they do, and no other one starts.
    pub fn kill(&self) {
        let mut live = self.lock();
        live.killed = true;
        // One that cannot be killed has ended.
        live.processes.values().for_each(|process| drop(lock(process).kill()));
    }

    /// The process of a worker, for people.
    pub fn pid(&self, host: HostId) -> Option<u32> {
        self.lock().processes.get(&host).map(|process| lock(process).id())
    }

    /// What a job still waits for, in words: tasks and where they run.
    pub fn waiting_for(&self, tasks: &[(String, HostId)]) -> String {
        master::waiting_for(tasks, |host| self.pid(host))
    }

    /// Tells a person at the terminal what a job says while it goes on, on standard error. Whether anybody reads that is
    /// no business of the job's.
    pub fn tell(&self, note: &Note) {
        let text = match note {
            Note::Completed(..) => return,
            // The first one cancels, if that has not been asked for yet.
            Note::Waiting(tasks) => format!("{}; a second Ctrl-C ends it now", self.waiting_for(tasks)),
            note => note.to_string(),
        };
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process of ours.
pub(super) struct Child {
    host: HostId,
    live: LiveWorkers,
    process: Process,
    words: Arc<Mutex<Vec<u8>>>,
}

impl Child {
    /// Starts that of a host. `on_silence` is called when its standard error ends, which is when it does.
    pub(super) fn start(
        mut command: Command,
        (host, live): (HostId, &LiveWorkers),
        threads: &dyn Threads,
        last_words_bytes: usize,
        on_silence: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let (process, stderr) = {
            let mut live = live.lock();
            if live.killed {
                return Err(Error::external("cannot start a worker process: those of this job are killed").final_());
            }
            let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|e| {
                let program = command.get_program().to_string_lossy();
                Error::user(format!("cannot start a worker process: {e}")).at("program", program)
            })?;
            let stderr = process.stderr.take();
            let process = Arc::new(Mutex::new(process));
            live.processes.insert(host, Arc::clone(&process));
            (process, stderr)
        };
        let words = Arc::new(Mutex::new(Vec::new()));
        let mut child = Self { host, live: live.clone(), process, words: Arc::clone(&words) };
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
                child.end(true);
                Err(error)
            }
        }
    }

    /// For people.
    pub(super) fn pid(&self) -> u32 {
        lock(&self.process).id()
    }

    /// Kills it if it still runs, and says how it ended. One that ends at this moment keeps its own status. `wanted`:
    /// it is to end, so nobody need guess why it does.
    pub(super) fn end(&mut self, wanted: bool) -> String {
        let mut process = lock(&self.process);
        let killed = process.kill();
        let status = match killed.and_then(|()| process.wait()) {
            Ok(status) => describe(status, wanted),
            Err(error) => format!("cannot be ended: {error}"),
        };
        drop(process);
        let mut live = self.live.lock();
        // The next process of the host may be there already.
        if live.processes.get(&self.host).is_some_and(|process| Arc::ptr_eq(process, &self.process)) {
            live.processes.remove(&self.host);
        }
        drop(live);
        let words = lock(&self.words);
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
        let mut words = lock(words);
        words.extend_from_slice(&piece[..length]);
        let surplus = words.len().saturating_sub(keep);
        words.drain(..surplus);
    }
}

#[cfg_attr(not(unix), expect(unused_variables, reason = "only a signal makes somebody wonder"))]
fn describe(status: ExitStatus, wanted: bool) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        const KILL: i32 = 9;
        let guess = match signal {
            KILL if !wanted => ": the machine may have run out of memory, or somebody has killed it",
            _ => "",
        };
        return format!("was killed by signal {signal}{guess}");
    }
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => "ended".to_owned(),
    }
}
