//! `flott sql`: plans statements with `flott-sql` and runs their jobs one after the other.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flott::{Executor, Interrupt, LocalExecutor};
use flott_core::{Config, Error, Registry, Result};
use flott_sql::{Planned, PlannedJob, SqlEnvironment};

use crate::arguments::Sql;
use crate::progress::Progress;
use crate::results::Results;

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &Sql, interrupt: &Interrupt) -> Result<()> {
    let text = match (&arguments.file, &arguments.execute) {
        (Some(file), _) => read(file)?,
        (None, statements) => statements.clone().unwrap_or_default(),
    };
    let mut config = Config::default();
    for (key, value) in &arguments.options {
        config.set(key, value)?;
    }
    let results = Results::new(arguments.format);
    let mut registry = Registry::default();
    results.register(&mut registry);
    let planned = SqlEnvironment::new(config).with_select_sink(Results::spec()).execute(&text);
    let planned = planned.and_then(|planned| match planned.is_empty() {
        true => Err(Error::user("expected a statement, found none")),
        false => Ok(planned),
    });
    let planned = planned.map_err(|e| match &arguments.file {
        Some(file) => e.at("file", file.display()),
        None => e,
    })?;
    for statement in planned {
        match statement {
            Planned::Text(text) => flott::say(&format!("{}\n", text.trim_end()))?,
            Planned::Job(job) => run_job(job, &registry, &results, interrupt)?,
            // A table was made, an option set: jobs have it in their plans.
            _ => {}
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|e| Error::io("read", file.display(), &e))?;
    String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        Error::user("expected text in UTF-8, found bytes that are none").at("line", line).at("file", file.display())
    })
}

fn run_job(job: PlannedJob, registry: &Registry, results: &Results, interrupt: &Interrupt) -> Result<()> {
    let progress = Arc::new(Progress::of(&job.graph)?);
    let shown = Arc::clone(&progress);
    let executor =
        LocalExecutor::default().interrupted_by(interrupt).watch(LOOK_EVERY, move |moment| shown.look(moment));
    let result = executor.execute(job.graph, registry.clone());
    progress.clear();
    result?;
    match job.into {
        None => results.print(&job.output),
        Some(table) => {
            eprintln!("{table}: {}", progress.summary());
            Ok(())
        }
    }
}
