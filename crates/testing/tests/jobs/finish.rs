//! `finish` is called once, also where a checkpoint falls between it and the end of its task: an operator that emits
//! there must not emit again after a restore.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use flott_checkpoint::InMemory;
use flott_connectors::sequence::{SequenceConfig, schema};
use flott_core::{Batch, Context, InputId, Operator, OperatorInfo, Progress, Redistribution, Result, Spec};
use flott_plan::{NodeKind, Partitioning, TaskId, VertexId};
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::{Simulation, simulate};
use flott_testing::jobs::{CommittingSink, Graph, registry};

use super::row::hosts;

/// Emits at the end how many rows came.
#[derive(Default)]
struct Tally(i64);

impl Operator for Tally {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let stored = ctx.operator_state().get("rows").first().and_then(|bytes| bytes.as_slice().try_into().ok());
        self.0 = stored.map_or(0, i64::from_le_bytes);
        Ok(())
    }

    fn process(&mut self, _: InputId, batch: Batch, _: &mut Context<'_>) -> Result<Progress> {
        self.0 += batch.column(0).as_primitive::<Int64Type>().len() as i64;
        Ok(Progress::Done)
    }

    fn flush(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        ctx.operator_state().put("rows", Redistribution::Split, vec![self.0.to_le_bytes().to_vec()]);
        Ok(())
    }

    fn finish(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        ctx.emit(Batch::of(schema(), vec![Arc::new(Int64Array::from(vec![self.0]))], 1)?);
        Ok(Progress::Done)
    }
}

#[test]
fn finish_is_called_once() {
    let mut restarts = 0;
    for seed in 0..300 {
        let (mut registry, sink) = (registry(), CommittingSink::default());
        sink.register(&mut registry, "sink");
        let tally = |_: &Spec, _: &Arc<OperatorInfo>| Ok(Box::<Tally>::default() as Box<dyn Operator>);
        registry.add_operator("tally", Arc::new(tally));
        let options = [
            ("flott.batch.rows", "10"),
            ("execution.checkpointing.interval", "1 ms"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "1000000"),
        ];
        let mut graph = Graph::new(&options).unwrap();
        let spec = SequenceConfig { from: 1, to: 1000, splits: 1 }.spec().unwrap();
        let source = graph.add("source", NodeKind::Source { spec, watermarks: None }, &[], schema());
        let tally = NodeKind::Operator(Spec::new("tally", &()).unwrap());
        let tally = graph.add("tally", tally, &[(source, Partitioning::Global)], schema());
        // Another source keeps the sink busy after the end.
        let spec = SequenceConfig { from: -2000, to: -1, splits: 1 }.spec().unwrap();
        let other = graph.add("other", NodeKind::Source { spec, watermarks: None }, &[], schema());
        let sink_node = NodeKind::Sink(Spec::new("sink", &()).unwrap());
        let inputs = [(tally, Partitioning::Rebalance), (other, Partitioning::Rebalance)];
        graph.add("sink", sink_node, &inputs, schema());
        let simulation = Simulation {
            seed,
            store: Box::new(InMemory::default()),
            from: None,
            trigger: None,
            failures_per_million: 40_000,
            // Its end takes a while, so that checkpoints fall into it.
            slow: [(TaskId { vertex: VertexId(1), index: 0 }, 20)].into(),
            max_steps: 1_000_000,
        };
        let ran = simulate(&Arc::new(graph.tasks(hosts(seed)).unwrap()), &registry, simulation).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        // 1 to 1000 are 1000 rows; the other source's numbers are below 0.
        let rows = sink.rows().unwrap();
        let tallies: Vec<&str> = rows.iter().map(String::as_str).filter(|row| !row.starts_with('-')).collect();
        assert_eq!((tallies, rows.len()), (vec!["1000"], 2001), "seed {seed}: {:?}", ran.notes);
        restarts += ran.notes.iter().filter(|note| matches!(note, Note::Restarting(..))).count();
    }
    assert!(restarts > 500, "{restarts} restarts: the test is worth something only with many");
}
