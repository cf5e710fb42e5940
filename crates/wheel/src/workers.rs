//! The processes of a job beside the program's own: how they are started ([`Workers`]), and what they do ([`serve`]).

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use flott_connectors::collect::Collected;
use flott_core::{Config, Error, Result, SystemClock, SystemThreads};
use flott_runtime::processes::{LiveWorkers, ProcessLimits, Processes, SEAT_VARIABLE, Seat, run_worker};
use pyo3::prelude::*;

use crate::registry::registry;

/// What Python knows about the workers of a job: the attributes of `flott._workers.Workers`.
#[derive(FromPyObject)]
pub(crate) struct Workers {
    /// How many.
    pub(crate) count: u32,
    /// The secret of the job.
    token: String,
    /// A program and its arguments.
    command: Vec<String>,
    /// Of the environment, beside what is inherited.
    variables: BTreeMap<String, String>,
}

impl Workers {
    /// As the runtime wants it, for a job with these options.
    pub(crate) fn processes(self, config: &Config, live: &LiveWorkers) -> Result<Processes> {
        let Self { command, variables, .. } = self;
        let launcher = move |seat: &Seat| {
            let (program, arguments) =
                command.split_first().ok_or_else(|| Error::internal("a worker without a command"))?;
            let mut command = Command::new(program);
            command.args(arguments).envs(&variables).env(SEAT_VARIABLE, seat.to_string());
            Ok(command)
        };
        let (limits, live) = (ProcessLimits::of(config)?, live.clone());
        Ok(Processes { launcher: Arc::new(launcher), token: self.token, limits, live })
    }
}

/// Takes part in the job of another process until that has ended. Then this process must end.
pub(crate) fn serve(seat: &str) -> Result<()> {
    // What is collected is kept where the job was started.
    let registry = registry(&Collected::default());
    run_worker(&seat.parse()?, registry, Arc::new(SystemClock::default()), Arc::new(SystemThreads))
}
