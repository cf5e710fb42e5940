//! `keyed-count`: how many pairs of each key, with an exchange by key, beside the `timely` crate.
//!
//! *final*: each key's count comes out once, at the end. *running*: each pair brings out its key and the count so far.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flott_connectors::blackhole::Blackhole;
use flott_core::key::fmix64;
use flott_core::{Error, Result, Spec};
use flott_operators::reduce::{self, ReduceConfig};
use flott_operators::window_aggregate::{self, WindowAggregateConfig};
use flott_operators::{Call, Function};
use flott_plan::{NodeKind, Partitioning};
use flott_testing::jobs::registry;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandle;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Input, Inspect, Operator};

use crate::job;
use crate::measure::{Measured, Stopwatch, child};
use crate::pairs::{self, Pairs};
use crate::report::{Runs, Section, compare, compare_heading};

/// The benchmark's name.
pub(crate) const NAME: &str = "keyed-count";
/// Of the peer, as the version table of the workspace has it.
const TIMELY_VERSION: &str = "timely 0.32";
const CONTENDERS: [&str; 3] = ["flott", "timely", "timely, fast hash"];
/// Pairs given to timely at once.
const TIMELY_BATCH: usize = 1024;

/// Runs every case, contenders in turn.
pub(crate) fn bench(runs: usize, rows: u64) -> Result<Section> {
    let mut table = vec![compare_heading()];
    for output in ["final", "running"] {
        for (keys, shown) in [(10_000, "10 k"), (1_000_000, "1 M")] {
            for workers in [1, 2] {
                let mut contenders = CONTENDERS.map(|c| Runs { contender: c.to_owned(), runs: Vec::new() });
                for _ in 0..runs {
                    for contender in &mut contenders {
                        let args = [
                            NAME,
                            &contender.contender,
                            output,
                            &rows.to_string(),
                            &keys.to_string(),
                            &format!("{workers}"),
                        ];
                        contender.runs.push(child(&args.map(str::to_owned))?);
                    }
                }
                let case = format!("{output}, {shown} keys, {workers} worker{}", if workers == 1 { "" } else { "s" });
                table.extend(compare(&case, rows, &contenders)?);
            }
        }
    }
    let about = format!(
        "{} M pairs of 64-bit numbers are made in the job, exchanged by key and counted. *final*: each key's count \
         comes out once, at the end (flott: `window_aggregate` over one window). *running*: each pair brings out its \
         key and count so far (flott: `reduce`). The peer is {TIMELY_VERSION} in the same program and with the same \
         allocator and generator: `Exchange`, then a `HashMap` with std's hash, as in timely's examples, or with the \
         multiplications of flott's own key hash.",
        rows / 1_000_000
    );
    Ok(Section { name: NAME, about, table })
}

/// One run, in this process: contender, final or running, rows, keys, workers.
pub(crate) fn run(args: &[String]) -> Result<Measured> {
    let [contender, output, rows, keys, workers] = args else {
        return Err(Error::internal(format!("{NAME} of {args:?}")));
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| Error::internal(format!("'{text}' is no number")));
    let (rows, keys, workers) = (number(rows)?, number(keys)?, number(workers)?);
    let pairs = Pairs { rows, keys, parts: workers };
    let running = output == "running";
    match contender.as_str() {
        "timely" => by_timely::<BuildHasherDefault<DefaultHasher>>(pairs, running),
        "timely, fast hash" => by_timely::<BuildHasherDefault<Mixer>>(pairs, running),
        _ => by_flott(pairs, running),
    }
}

fn by_flott(pairs: Pairs, running: bool) -> Result<Measured> {
    let mut graph = job::graph(pairs.parts as u32, &[])?;
    let schema = pairs::schema();
    let source = NodeKind::Source { spec: pairs.spec()?, watermarks: None };
    let source = graph.add("pairs", source, &[], Arc::clone(&schema));
    let count = Call { function: Function::Count, column: None };
    let (spec, output) = if running {
        let config = ReduceConfig { columns: vec![Call { function: Function::First, column: Some(0) }, count] };
        (Spec::new(reduce::NAME, &config)?, config.output(["key", "count"], &schema)?)
    } else {
        // One window holds all values, which are the numbers from 0 on.
        let size_ms = i64::MAX / 2;
        let config = WindowAggregateConfig { size_ms, offset_ms: 0, time_column: Some(1), aggregates: vec![count] };
        (Spec::new(window_aggregate::NAME, &config)?, config.output(["count"], &schema, &[0])?)
    };
    let count = graph.add("count", NodeKind::Operator(spec), &[(source, Partitioning::Hash(vec![0]))], output);
    job::sink(&mut graph, count, Blackhole::spec()?);
    let mut registry = registry();
    pairs::register(&mut registry);
    let blackhole = Blackhole::default();
    blackhole.register(&mut registry);
    let watch = Stopwatch::start()?;
    job::run(&graph, &registry, job::clock())?;
    watch.stop(blackhole.rows())
}

/// MurmurHash3's finaliser as a hasher of single words.
#[derive(Default)]
struct Mixer(u64);

impl std::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = fmix64(self.0 ^ word);
    }
}

fn by_timely<S: BuildHasher + Default + 'static>(pairs: Pairs, running: bool) -> Result<Measured> {
    let seen = Arc::new(AtomicU64::new(0));
    let total = Arc::clone(&seen);
    let watch = Stopwatch::start()?;
    let guards = timely::execute(timely::Config::process(pairs.parts as usize), move |worker| {
        let mut input = InputHandle::new();
        let seen = Arc::clone(&seen);
        worker.dataflow::<u64, _, _>(|scope| {
            // The exchange looks at the low bits, the table at the high and low ones: a rotation keeps them apart.
            let exchange = Exchange::new(|pair: &(u64, u64)| fmix64(pair.0).rotate_left(32));
            scope
                .input_from(&mut input)
                .unary_frontier::<CapacityContainerBuilder<Vec<(u64, u64)>>, _, _, _>(exchange, "count", |_, _| {
                    let mut counts: HashMap<u64, u64, S> = HashMap::default();
                    let mut held = None;
                    move |(input, frontier), output| {
                        input.for_each_stamp(|stamp, data| {
                            if running {
                                let Some(capability) = stamp.retain_least(output.output_index()) else { return };
                                let mut session = output.session(&capability);
                                for (key, _) in data.flat_map(|batch| batch.drain(..)) {
                                    let count = counts.entry(key).or_insert(0);
                                    *count += 1;
                                    session.give((key, *count));
                                }
                            } else {
                                if held.is_none() {
                                    held = stamp.retain_least(output.output_index());
                                }
                                for (key, _) in data.flat_map(|batch| batch.drain(..)) {
                                    *counts.entry(key).or_insert(0) += 1;
                                }
                            }
                        });
                        if frontier.is_empty()
                            && let Some(capability) = held.take()
                        {
                            output.session(&capability).give_iterator(counts.drain());
                        }
                    }
                })
                .inspect_core(move |event| {
                    if let Ok((_, rows)) = event {
                        seen.fetch_add(rows.len() as u64, Ordering::Relaxed);
                    }
                });
        });
        let mut numbers = pairs.part(worker.index() as u64);
        while !numbers.is_empty() {
            for number in numbers.by_ref().take(TIMELY_BATCH) {
                input.send(pairs.pair(number));
            }
            worker.step();
        }
        drop(input);
    })
    .map_err(|e| Error::external(format!("timely: {e}")))?;
    for joined in guards.join() {
        joined.map_err(|e| Error::external(format!("timely: {e}")))?;
    }
    watch.stop(total.load(Ordering::Relaxed))
}
