//! The notation of a table: scenarios of steps, read from text and written back with what came out.
//!
//! See [`super`] for what the lines mean.

use arrow_schema::SchemaRef;
use flott_core::{Error, InputId, Result, Spec, Timestamp};

use super::rows::parse_schema;

/// What a scenario runs: written once, kept by the scenarios after it until they say otherwise.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Schemas of the inputs and their key columns.
    pub inputs: Vec<(SchemaRef, Vec<usize>)>,
    /// The operator; several where they are fused.
    pub members: Vec<MemberSetup>,
    /// Tasks at the start.
    pub parallelism: u32,
}

/// An operator of a run: it reads the inputs, or the member before it.
#[derive(Clone, Debug)]
pub struct MemberSetup {
    /// The operator.
    pub spec: Spec,
    /// The schema of the main output.
    pub output: Option<SchemaRef>,
    /// Tags and schemas of the side outputs.
    pub sides: Vec<(String, SchemaRef)>,
}

/// What happens in a step.
#[derive(Clone, Debug)]
pub enum Command {
    /// Rows of one input.
    Rows(InputId, Vec<String>),
    /// The event-time clock rises.
    Watermark(Timestamp),
    /// Processing time rises.
    Time(Timestamp),
    /// A snapshot is taken.
    Snapshot,
    /// All tasks are replaced by so many new ones with the state of the last snapshot.
    Restore(u32),
    /// Requests are answered: those with this row, or all.
    Answer(Option<String>),
    /// The input ends.
    Finish,
    /// The counters are shown.
    Metrics,
}

/// A step: commands and what they are expected to give.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line it begins at, from 1.
    pub line: usize,
    /// In order.
    pub commands: Vec<Command>,
}

/// Steps over one operator.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What runs.
    pub setup: Setup,
    /// What happens.
    pub steps: Vec<Step>,
}

/// A table: scenarios, and its text without what was expected.
#[derive(Debug, Default)]
pub struct Table {
    /// In the order of the text.
    pub scenarios: Vec<Scenario>,
    /// Each line, and (scenario, step) where the outcome of a step is written after it.
    lines: Vec<(String, Option<(usize, usize)>)>,
}

impl Table {
    /// Reads a table.
    pub fn parse(text: &str) -> Result<Self> {
        let mut table = Self::default();
        let mut setup = Setup { parallelism: 1, ..Setup::default() };
        // A scenario begins with the first step after its headers.
        let mut fresh = true;
        let mut rows_go_on = false;
        let joined = join_continuations(text);
        for (number, line, original) in &joined {
            let is_row = line.starts_with('>');
            let at_line = |e: Error| e.at("line", number);
            if line.starts_with('=') {
                rows_go_on = false;
                continue;
            }
            if line.is_empty() || line.starts_with('#') || header(line, &mut setup, &mut fresh).map_err(at_line)? {
                table.lines.push((original.clone(), None));
                rows_go_on = false;
                continue;
            }
            if fresh {
                table.scenarios.push(Scenario { setup: setup.clone(), steps: Vec::new() });
                fresh = false;
            }
            let which = table.scenarios.len() - 1;
            let steps = &mut table.scenarios[which].steps;
            if is_row && rows_go_on {
                if let (Some(step), Some(last)) = (steps.last_mut(), table.lines.last_mut()) {
                    add_row(&mut step.commands, line).map_err(at_line)?;
                    last.1 = None;
                }
            } else {
                let mut commands = Vec::new();
                if is_row {
                    add_row(&mut commands, line).map_err(at_line)?;
                } else {
                    for part in line.split(';') {
                        commands.push(command(part.trim()).map_err(at_line)?);
                    }
                }
                steps.push(Step { line: *number, commands });
            }
            rows_go_on = is_row;
            table.lines.push((original.clone(), Some((which, steps.len() - 1))));
        }
        Ok(table)
    }

    /// The text of the table with these outcomes: lines by scenario and step.
    pub fn render(&self, outcomes: &[Vec<Vec<String>>]) -> String {
        let mut text = String::new();
        for (line, step) in &self.lines {
            text.push_str(line);
            text.push('\n');
            if let Some((scenario, step)) = step {
                for outcome in outcomes[*scenario].get(*step).into_iter().flatten() {
                    text.push_str(outcome);
                    text.push('\n');
                }
            }
        }
        text
    }
}

/// Lines with their numbers, indented ones joined to the line before; beside them the original text.
fn join_continuations(text: &str) -> Vec<(usize, String, String)> {
    let mut joined: Vec<(usize, String, String)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        match joined.last_mut() {
            Some((_, all, original)) if line.starts_with("  ") => {
                *all = format!("{all} {}", line.trim());
                *original = format!("{original}\n{line}");
            }
            _ => joined.push((i + 1, line.trim().to_owned(), line.to_owned())),
        }
    }
    joined
}

/// Reads a header line into `setup`; `false` if it is none.
fn header(line: &str, setup: &mut Setup, fresh: &mut bool) -> Result<bool> {
    let Some((head, rest)) = line.split_once(':').filter(|_| !line.starts_with('>')) else { return Ok(false) };
    let mut words = head.split(' ');
    let rest = rest.trim();
    match (words.next().unwrap_or_default(), words.next()) {
        ("scenario", None) => {}
        ("operator", None) => *setup = Setup { members: vec![member(rest)], parallelism: 1, ..Setup::default() },
        ("fused", None) => setup.members.push(member(rest)),
        ("parallelism", None) => setup.parallelism = number(rest)?,
        ("output", None) => last(setup)?.output = Some(parse_schema(rest)?),
        ("side", Some(tag)) => last(setup)?.sides.push((tag.to_owned(), parse_schema(rest)?)),
        ("input", Some(index)) => {
            let (columns, key) = rest.split_once("key:").unwrap_or((rest, ""));
            let schema = parse_schema(columns)?;
            let keys = key.split(',').map(str::trim).filter(|k| !k.is_empty()).map(|k| schema.index_of(k));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            let index: usize = number(index)?;
            setup.inputs.truncate(index);
            if setup.inputs.len() != index {
                return Err(Error::user(format!("expected input {}, found input {index}", setup.inputs.len())));
            }
            setup.inputs.push((schema, keys));
        }
        _ => return Ok(false),
    }
    *fresh = true;
    Ok(true)
}

/// An operator from `name {config}`.
fn member(text: &str) -> MemberSetup {
    let (factory, config) = text.split_once(' ').unwrap_or((text, "null"));
    let spec = Spec { factory: factory.to_owned(), config: config.trim().as_bytes().to_vec() };
    MemberSetup { spec, output: None, sides: Vec::new() }
}

fn last(setup: &mut Setup) -> Result<&mut MemberSetup> {
    setup.members.last_mut().ok_or_else(|| Error::user("a table begins with 'operator:'"))
}

fn add_row(commands: &mut Vec<Command>, line: &str) -> Result<()> {
    let line = &line[1..];
    let (input, row) = line.split_once(' ').unwrap_or((line, ""));
    let input = InputId(if input.is_empty() { 0 } else { number(input)? });
    match commands.last_mut() {
        Some(Command::Rows(last, rows)) if *last == input => rows.push(row.to_owned()),
        _ => commands.push(Command::Rows(input, vec![row.to_owned()])),
    }
    Ok(())
}

fn command(text: &str) -> Result<Command> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    Ok(match word {
        "watermark" if rest == "+inf" => Command::Watermark(Timestamp::MAX),
        "watermark" => Command::Watermark(Timestamp(number(rest)?)),
        "time" => Command::Time(Timestamp(number(rest)?)),
        "snapshot" => Command::Snapshot,
        "restore" => Command::Restore(match rest.strip_prefix("parallelism=") {
            Some(tasks) => number(tasks)?,
            None => 1,
        }),
        "answer" => Command::Answer((!rest.is_empty()).then(|| rest.to_owned())),
        "finish" => Command::Finish,
        "metrics" => Command::Metrics,
        _ => return Err(Error::user(format!("the tables know no command '{text}'"))),
    })
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N> {
    text.parse().map_err(|_| Error::user(format!("expected a number, found '{text}'")))
}
