//! Random jobs with their expected results: small graphs of operators whose result does not depend on any order, from
//! a seed, and a plain loop over the rows beside each.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::{DataType, SchemaRef};
use flott_core::{InputId, OutputId, Registry, Spec, WatermarkStrategy};
use flott_operators::calc::CalcConfig;
use flott_operators::deduplicate::DeduplicateConfig;
use flott_operators::expr::{BinaryOp, Expr, Scalar};
use flott_operators::reduce::ReduceConfig;
use flott_operators::window_aggregate::WindowAggregateConfig;
use flott_operators::{Call, Function};
use flott_plan::{NodeId, NodeKind, Partitioning};
use flott_testing::jobs::{CommittingSink, Graph, registry};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::row::{self, BEHIND_MS, Row, lines, schema};

const WINDOW_MS: i64 = 100;
/// Streams of more rows are not multiplied further.
const MANY: usize = 1500;

/// A job, where its results will be, and what they must be: one of each sink.
pub(crate) struct Job {
    pub(crate) graph: Graph,
    pub(crate) registry: Registry,
    pub(crate) sinks: Vec<CommittingSink>,
    expected: Vec<Vec<String>>,
}

impl Job {
    /// Checks the committed rows of every sink.
    #[track_caller]
    pub(crate) fn check(&self, what: &str) {
        for (index, (sink, expected)) in self.sinks.iter().zip(&self.expected).enumerate() {
            let found = sink.rows().unwrap();
            assert!(found == *expected, "{what}: sink {index}: {}", difference(&found, expected));
        }
    }
}

fn difference(found: &[String], expected: &[String]) -> String {
    let mut counts = BTreeMap::<&String, i64>::new();
    found.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    expected.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    let wrong: Vec<_> = counts.into_iter().filter(|(_, count)| *count != 0).take(5).collect();
    format!("{} rows for {}; too often (+), too rarely (−): {wrong:?}", found.len(), expected.len())
}

/// Rows of an output, what they are, and whether none is behind the watermark.
#[derive(Clone)]
struct Stream {
    node: NodeId,
    output: OutputId,
    rows: Vec<Row>,
    on_time: bool,
    read: bool,
}

/// Builds a job: its shape from `shape`, parallelism from `tasks`; `with` are options.
pub(crate) fn job(shape: u64, tasks: u64, with: &[(&str, String)]) -> Job {
    let (random, tasks) = (SmallRng::seed_from_u64(shape), SmallRng::seed_from_u64(tasks));
    let with: Vec<_> = with.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let mut registry = registry();
    super::ops::register(&mut registry);
    let graph = Graph::new(&with).unwrap();
    let job = Job { graph, registry, sinks: Vec::new(), expected: Vec::new() };
    let mut builder = Builder { job, random, tasks, streams: Vec::new() };
    (0..builder.random.random_range(1..=2)).for_each(|_| builder.source());
    (0..builder.random.random_range(2..=7)).for_each(|_| builder.operator());
    builder.sinks();
    builder.job
}

struct Builder {
    job: Job,
    random: SmallRng,
    tasks: SmallRng,
    streams: Vec<Stream>,
}

impl Builder {
    fn strategy(behind: i64, every: u32) -> WatermarkStrategy {
        let strategy = WatermarkStrategy::for_bounded_out_of_orderness(behind as u64);
        strategy.with_time_column(1).with_every_rows(every)
    }

    fn source(&mut self) {
        let count = self.random.random_range(1..400);
        let rows = row::input(&mut self.random, count);
        let spec = row::source(&rows, self.random.random_range(1..6));
        let watermarks = Some(Self::strategy(BEHIND_MS, self.random.random_range(1..60)));
        let uid = format!("source{}", self.job.graph.0.nodes.len());
        let node = self.job.graph.add(&uid, NodeKind::Source { spec, watermarks }, &[], schema());
        self.job.graph.node(node).parallelism = Some(self.tasks.random_range(1..=4));
        self.streams.push(Stream { node, output: OutputId::MAIN, rows, on_time: true, read: false });
    }

    /// A partitioning that needs nothing of the rows.
    fn any(&mut self) -> Partitioning {
        match self.random.random_range(0..6) {
            0 | 1 => Partitioning::Forward,
            2 => Partitioning::Rebalance,
            3 => Partitioning::Rescale,
            4 => Partitioning::Shuffle,
            _ => Partitioning::Hash(vec![1, 2]),
        }
    }

    /// Adds a node that reads these streams: (stream, input, how).
    fn node(&mut self, name: &str, kind: NodeKind, inputs: &[(usize, u8, Partitioning)], output: SchemaRef) -> NodeId {
        let uid = format!("{name}{}", self.job.graph.0.nodes.len());
        let edges: Vec<_> = inputs.iter().map(|(at, _, how)| (self.streams[*at].node, how.clone())).collect();
        let forward = inputs.iter().find(|(_, _, how)| *how == Partitioning::Forward);
        let same = forward.map(|(at, ..)| self.job.graph.node(self.streams[*at].node).parallelism);
        let drawn = self.tasks.random_range(1..=4);
        let node = self.job.graph.add(&uid, kind, &edges, output);
        let of_graph = self.job.graph.node(node);
        of_graph.parallelism = same.unwrap_or(Some(drawn));
        for (edge, (at, input, _)) in of_graph.inputs.iter_mut().zip(inputs) {
            (edge.output, edge.input) = (self.streams[*at].output, InputId(*input));
            self.streams[*at].read = true;
        }
        node
    }

    fn add(&mut self, name: &str, spec: Spec, inputs: &[(usize, u8, Partitioning)], rows: Vec<Row>, on_time: bool) {
        let node = self.node(name, NodeKind::Operator(spec), inputs, schema());
        self.streams.push(Stream { node, output: OutputId::MAIN, rows, on_time, read: false });
    }

    fn operator(&mut self) {
        let at = self.random.random_range(0..self.streams.len());
        let Stream { rows, on_time, .. } = self.streams[at].clone();
        let how = self.any();
        let plain = |name| Spec::new(name, &()).unwrap();
        let calc = |config: &CalcConfig| Spec::new("calc", config).unwrap();
        match self.random.random_range(0..12) {
            0 => {
                let even = binary(BinaryOp::Modulo, Expr::Column(2), int(3));
                let condition = binary(BinaryOp::Gt, even, int(0));
                let rows = rows.into_iter().filter(|row| row.2 % 3 > 0).collect();
                self.add("filter", calc(&CalcConfig::filter(condition)), &[(at, 0, how)], rows, on_time);
            }
            1 => {
                let rekeyed = binary(BinaryOp::Modulo, Expr::Column(2), int(7));
                let columns = [("k", rekeyed), ("t", Expr::Column(1)), ("v", Expr::Column(2))];
                let config = CalcConfig::project(columns.map(|(name, expr)| (name.to_owned(), expr)).to_vec());
                let rows = rows.into_iter().map(|(_, t, v)| (v % 7, t, v)).collect();
                let schema = config.output(&schema()).unwrap();
                // Same columns for all streams: a key computed from a column that is never NULL is never NULL.
                assert!(
                    schema.fields().iter().zip(row::schema().fields()).all(|(a, b)| a.data_type() == b.data_type())
                );
                self.add("rekey", calc(&config), &[(at, 0, how)], rows, on_time);
            }
            2 if rows.len() < MANY => {
                let rows = rows.into_iter().flat_map(super::ops::copies).collect();
                self.add("explode", plain("explode"), &[(at, 0, how)], rows, on_time);
            }
            3 | 4 => {
                let name = ["ask", "ask_unordered"][self.random.random_range(0..2)];
                let rows = rows.into_iter().map(super::ops::answer).collect();
                self.add(name, plain(name), &[(at, 0, how)], rows, on_time);
            }
            5 if on_time => {
                let config = DeduplicateConfig { ttl_ms: Some(self.random.random_range(0..300)) };
                let spec = Spec::new("deduplicate", &config).unwrap();
                let rows = rows.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
                self.add("deduplicate", spec, &[(at, 0, Partitioning::Hash(vec![0, 1, 2]))], rows, on_time);
            }
            6 => self.add("delay", plain("delay"), &[(at, 0, Partitioning::Hash(vec![0]))], rows, false),
            7 => {
                let (even, odd): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.2 % 2 == 0);
                self.add("split", plain("split"), &[(at, 0, how)], even, on_time);
                let main = self.streams.len() - 1;
                let node = self.streams[main].node;
                self.job.graph.node(node).side_outputs = vec![("odd".into(), schema())];
                self.streams.push(Stream { node, output: OutputId(1), rows: odd, on_time, read: false });
            }
            8 => {
                let other = self.random.random_range(0..self.streams.len());
                let sum: i64 = self.streams[other].rows.iter().map(|row| row.2).sum();
                let rows = rows.into_iter().map(|(k, t, v)| (k, t, v + sum)).collect();
                let how = if how == Partitioning::Forward { Partitioning::Rebalance } else { how };
                self.add("scale", plain("scale"), &[(at, 0, how), (other, 1, Partitioning::Broadcast)], rows, false);
            }
            9 => {
                // Far enough behind that no row is late, whatever its way here.
                let strategy = Self::strategy(100_000, self.random.random_range(1..60));
                let node = self.node("watermarks", NodeKind::Watermarks(strategy), &[(at, 0, how)], schema());
                self.streams.push(Stream { node, output: OutputId::MAIN, rows, on_time: true, read: false });
            }
            _ => {
                let other = self.random.random_range(0..self.streams.len());
                let second = self.streams[other].clone();
                if rows.len() + second.rows.len() > MANY {
                    return;
                }
                // A union: two edges into one input.
                let how = [Partitioning::Rebalance, Partitioning::Rescale][self.random.random_range(0..2)].clone();
                let all = rows.into_iter().chain(second.rows).collect();
                let inputs = [(at, 0, how), (other, 0, Partitioning::Shuffle)];
                self.add("union", calc(&CalcConfig::default()), &inputs, all, on_time && second.on_time);
            }
        }
    }

    /// A sink, or an aggregate before it, for every stream that nobody reads.
    fn sinks(&mut self) {
        for at in 0..self.streams.len() {
            let Stream { rows, on_time, read, .. } = self.streams[at].clone();
            if read {
                continue;
            }
            let name = format!("sink{}", self.job.sinks.len());
            let sink = CommittingSink::default();
            sink.register(&mut self.job.registry, &name);
            let key = Partitioning::Hash(vec![0]);
            let (from, expected) = match self.random.random_range(0..3) {
                0 if on_time => (self.window(at, key), windows(&rows)),
                1 => (self.reduce(at, key), counts(&rows)),
                _ => (at, lines(&rows)),
            };
            let how = self.any();
            let how = if let Partitioning::Hash(_) = how { Partitioning::Global } else { how };
            let schema = self.job.graph.node(self.streams[from].node).output.clone();
            let kind = NodeKind::Sink(Spec::new(&name, &()).unwrap());
            self.node(&name, kind, &[(from, 0, how)], schema);
            self.job.sinks.push(sink);
            self.job.expected.push(expected);
        }
    }

    fn derived(&mut self, node: NodeId) -> usize {
        self.streams.push(Stream { node, output: OutputId::MAIN, rows: Vec::new(), on_time: true, read: true });
        self.streams.len() - 1
    }

    /// Sums per key and window, its start as a number.
    fn window(&mut self, at: usize, how: Partitioning) -> usize {
        let config: WindowAggregateConfig = serde_json::from_value(serde_json::json!({
            "size_ms": WINDOW_MS,
            "aggregates": [{"function": "count"}, {"function": "sum", "column": 2}],
        }))
        .unwrap();
        let output = config.output(["n", "sum"], &schema(), &[0]).unwrap();
        let kind = NodeKind::Operator(Spec::new("window_aggregate", &config).unwrap());
        let node = self.node("window", kind, &[(at, 0, how)], output.clone());
        let at = self.derived(node);
        let start = Expr::Cast(Box::new(Expr::Column(1)), DataType::Int64);
        let columns = [("k", Expr::Column(0)), ("start", start), ("n", Expr::Column(3)), ("sum", Expr::Column(4))];
        let config = CalcConfig::project(columns.map(|(name, expr)| (name.to_owned(), expr)).to_vec());
        let kind = NodeKind::Operator(Spec::new("calc", &config).unwrap());
        let node = self.node("start", kind, &[(at, 0, Partitioning::Forward)], config.output(&output).unwrap());
        self.derived(node)
    }

    /// For each row of a key how many there were so far.
    fn reduce(&mut self, at: usize, how: Partitioning) -> usize {
        let first = Call { function: Function::First, column: Some(0) };
        let config = ReduceConfig { columns: vec![first, Call { function: Function::Count, column: None }] };
        let output = config.output(["k", "n"], &schema()).unwrap();
        let kind = NodeKind::Operator(Spec::new("reduce", &config).unwrap());
        let node = self.node("reduce", kind, &[(at, 0, how)], output);
        self.derived(node)
    }
}

fn int(value: i64) -> Expr {
    Expr::Literal(Scalar::int64(value))
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

fn windows(rows: &[Row]) -> Vec<String> {
    let mut sums = BTreeMap::<(i64, i64), (i64, i64)>::new();
    for &(key, time, value) in rows {
        let sum = sums.entry((key, time.div_euclid(WINDOW_MS) * WINDOW_MS)).or_default();
        *sum = (sum.0 + 1, sum.1 + value);
    }
    let lines = sums.into_iter().map(|((key, start), (n, sum))| format!("{key}, {start}, {n}, {sum}"));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

fn counts(rows: &[Row]) -> Vec<String> {
    let mut counts = BTreeMap::<i64, i64>::new();
    let mut lines = Vec::new();
    for (key, ..) in rows {
        let count = counts.entry(*key).or_default();
        *count += 1;
        lines.push(format!("{key}, {count}"));
    }
    lines.sort();
    lines
}
