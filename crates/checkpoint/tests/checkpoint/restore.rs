//! What tasks of a new job get of an old one's checkpoint.

use std::collections::BTreeMap;

use flott_checkpoint::{Manifest, MemberSnapshot, Ownership, Restore, RuntimePart, TaskRestore, TaskState};
use flott_core::KeyGroup;
use flott_plan::{JobGraph, Partitioning};

use crate::graph::{MAX_PARALLELISM, hash, job, manifest, task};

fn count_job(parallelism: u32) -> JobGraph {
    job(&[("source", 2), ("count sink", parallelism)], &[(0, 1, hash())])
}

fn refusal(old: &JobGraph, in_flight: &[(u32, u32, u32)], new: &JobGraph, allow: bool) -> String {
    let manifest = manifest(old, in_flight);
    Restore::new(&manifest, new, allow).map(|_| ()).unwrap_err().to_string()
}

fn strings(entries: &[Vec<u8>]) -> String {
    entries.iter().map(|e| String::from_utf8_lossy(e)).collect::<Vec<_>>().join(" ")
}

fn tasks(restore: &Restore<'_>, vertex: u32, parallelism: u32) -> Vec<TaskRestore> {
    (0..parallelism).map(|index| restore.task(task(vertex, index)).unwrap()).collect()
}

/// Each key group has exactly one owner, the right one, at every pair of parallelisms.
#[test]
fn key_groups_move_to_their_new_owner() {
    for old_parallelism in [1, 2, 3, 7, 64, 128] {
        let old = count_job(old_parallelism);
        let manifest = manifest(&old, &[]);
        for new_parallelism in [1, 2, 3, 5, 127, 128] {
            let new = count_job(new_parallelism);
            let restore = Restore::new(&manifest, &new, false).unwrap();
            let mut seen = Vec::new();
            for (index, restored) in (0..).zip(tasks(&restore, 1, new_parallelism)) {
                assert_eq!(restored.members.iter().map(|m| m.uid.as_str()).collect::<Vec<_>>(), ["count", "sink"]);
                let [section] = restored.members[0].keyed.as_slice() else {
                    panic!("one section, its groups together")
                };
                for (group, bytes) in &section.groups {
                    assert_eq!(group.task(new_parallelism, MAX_PARALLELISM), index);
                    assert_eq!(bytes, &[group.0 as u8]);
                }
                assert!(section.groups.is_sorted());
                seen.extend(section.groups.iter().map(|(group, _)| group.0));
            }
            assert_eq!(seen, (0..128).collect::<Vec<u16>>(), "{old_parallelism} to {new_parallelism}");
        }
    }
}

#[test]
fn operator_state_is_redistributed() {
    let old = count_job(3);
    let manifest = manifest(&old, &[]);
    let new = count_job(2);
    let restore = Restore::new(&manifest, &new, false).unwrap();
    let state = |index| restore.task(task(1, index)).unwrap().members[0].operator_state.clone();
    let shown = |index, name: &str| strings(state(index).get(name));
    assert_eq!([shown(0, "split"), shown(1, "split")], ["s0 s2", "s1"]);
    assert_eq!([shown(0, "union"), shown(1, "union")], ["u0 u1 u2", "u0 u1 u2"]);
    assert_eq!([shown(0, "broadcast"), shown(1, "broadcast")], ["b", "b"]);
    assert_eq!(restore.enumerator("source"), Some(&b"splits"[..]));
    assert_eq!(restore.enumerator("count"), None);
    assert_eq!(crate::graph::show(restore.committables()), "sink=c1 c2");
}

/// State follows the uid where the chain is cut, joined or has grown.
#[test]
fn chaining_may_differ() {
    let together = job(&[("source", 2), ("count map sink", 2)], &[(0, 1, hash())]);
    let apart =
        job(&[("source", 2), ("count", 2), ("map new sink", 3)], &[(0, 1, hash()), (1, 2, Partitioning::Rebalance)]);
    let part = |members: &str, vertex: u32, index: u32| RuntimePart {
        members: members.split(' ').map(Into::into).collect(),
        index,
        parallelism: 2,
        bytes: format!("v{vertex}.{index}").into_bytes(),
    };
    let manifest = manifest(&together, &[]);
    let restore = Restore::new(&manifest, &apart, false).unwrap();
    let second = restore.task(task(1, 1)).unwrap();
    assert_eq!(second.runtime, [part("count map sink", 1, 0), part("count map sink", 1, 1)]);
    assert_eq!(strings(second.members[0].operator_state.get("split")), "s1");
    let third = restore.task(task(2, 2)).unwrap();
    assert_eq!(third.runtime.len(), 2);
    assert_eq!(third.members.iter().map(MemberSnapshot::is_empty).collect::<Vec<_>>(), [false, true, false]);
    assert!(restore.dropped().is_empty());

    let manifest = crate::graph::manifest(&apart, &[]);
    let restore = Restore::new(&manifest, &together, true).unwrap();
    let members: Vec<_> = restore.task(task(1, 0)).unwrap().runtime.iter().map(|p| p.members.join(" ")).collect();
    assert_eq!(members, ["count", "count", "map new sink", "map new sink", "map new sink"]);
    assert_eq!(restore.dropped(), ["new"]);
}

/// What an old task has promised holds only where it heard of everybody, or its senders are the same as before.
#[test]
fn a_clock_holds_if_the_task_reads_from_the_same_as_before() {
    use Partitioning::{Forward, Rebalance, Rescale};
    // Parallelism of a → b → c, then of the new ones; how a → b and b → c are partitioned; for b and c, whether they may
    // read from other tasks than before.
    let cases = [
        ([2, 2, 2], [2, 2, 2], [Rescale, Rescale], [false, false]),
        ([2, 4, 4], [3, 4, 4], [Rescale, Forward], [true, true]),
        ([2, 4, 4], [3, 4, 4], [Rescale, Rebalance], [true, false]),
        ([2, 4, 4], [3, 4, 4], [Rebalance, Forward], [false, false]),
        ([2, 4, 4], [2, 3, 4], [hash(), Rescale], [false, true]),
    ];
    for (old, new, hows, expected) in cases {
        let job = |[a, b, c]: [u32; 3]| {
            let [to_b, to_c] = hows.clone();
            job(&[("a", a), ("b", b), ("c", c)], &[(0, 1, to_b), (1, 2, to_c)])
        };
        let manifest = manifest(&job(old), &[]);
        let graph = job(new);
        let restore = Restore::new(&manifest, &graph, true).unwrap();
        let found = [1, 2].map(|vertex| restore.task(task(vertex, 0)).unwrap().other_senders);
        assert_eq!(found, expected, "{old:?} to {new:?}, {hows:?}");
    }
}

/// Thirty forks one after the other have a thousand million ways through them.
#[test]
fn many_ways_through_a_job_are_looked_at_once() {
    let names: Vec<String> = (0..91).map(|n| format!("v{n}")).collect();
    let vertices: Vec<_> = names.iter().map(|name| (name.as_str(), 2)).collect();
    let fork = |n: u32| [(n, n + 1), (n, n + 2), (n + 1, n + 3), (n + 2, n + 3)];
    let edges: Vec<_> = (0..30).flat_map(|n| fork(3 * n)).map(|(from, to)| (from, to, Partitioning::Rescale)).collect();
    let graph = job(&vertices, &edges);
    let manifest = manifest(&graph, &[]);
    assert!(!Restore::new(&manifest, &graph, true).unwrap().task(task(90, 1)).unwrap().other_senders);
}

#[test]
fn refusals() {
    let old = count_job(2);
    let mut narrow = count_job(2);
    narrow.vertices[1].max_parallelism = 64;
    let error = refusal(&old, &[], &narrow, true);
    assert!(error.contains("max parallelism 128, the job has 64") && error.contains("uid count"), "{error}");

    let error = refusal(&old, &[], &count_job(129), true);
    assert!(error.contains("1 to the max parallelism 128, found 129"), "{error}");

    let without_count = job(&[("source", 2), ("sink", 2)], &[(0, 1, hash())]);
    let error = refusal(&old, &[], &without_count, false);
    assert!(error.contains("(uid count)") && error.contains("--allow-non-restored-state"), "{error}");
    assert!(error.contains("checkpoint 7, job test"), "{error}");
    let old_manifest = manifest(&old, &[]);
    assert_eq!(Restore::new(&old_manifest, &without_count, true).unwrap().dropped(), ["count"]);

    let without_sink = job(&[("source", 2), ("count", 2)], &[(0, 1, hash())]);
    let error = refusal(&old, &[], &without_sink, false);
    assert!(error.contains("(uid sink)"), "prepared results would be lost: {error}");
}

/// Operators without state may go without being asked for.
#[test]
fn empty_operators_may_go() {
    let old = count_job(2);
    let mut manifest = manifest(&old, &[]);
    for state in manifest.vertices.iter_mut().flat_map(|v| &mut v.tasks) {
        let TaskState::Snapshot(snapshot) = state else { continue };
        snapshot.members.retain(|m| m.uid != "count");
    }
    let new = job(&[("source", 2), ("sink", 2)], &[(0, 1, hash())]);
    assert!(Restore::new(&manifest, &new, false).unwrap().dropped().is_empty());
}

const CHANNELS: &[(u32, u32, u32)] = &[(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 2)];

/// Each row in flight of a hash edge has exactly one owner at every parallelism.
#[test]
fn rows_in_flight_have_one_owner() {
    let old = count_job(3);
    let manifest = manifest(&old, CHANNELS);
    for parallelism in [1, 2, 3, 4, 7, 128] {
        let new = count_job(parallelism);
        let restore = Restore::new(&manifest, &new, false).unwrap();
        // A row of every key group the old reader owned, in every channel.
        let mut owners: BTreeMap<(u32, u32, u32), u32> = BTreeMap::new();
        for (index, restored) in (0..).zip(tasks(&restore, 1, parallelism)) {
            for channel in restored.in_flight.iter().flat_map(|edge| &edge.channels) {
                assert_eq!(channel.elements, format!("{}>{}", channel.from, channel.to).into_bytes());
                for group in KeyGroup::range(channel.to, 3, MAX_PARALLELISM) {
                    let is_own = KeyGroup(group as u16).task(parallelism, MAX_PARALLELISM) == index;
                    if channel.ownership == Ownership::Whole {
                        assert!(is_own, "group {group} was given to task {index} of {parallelism}");
                    }
                    if is_own {
                        *owners.entry((channel.from, channel.to, group)).or_default() += 1;
                    }
                }
            }
        }
        assert!(owners.values().all(|owners| *owners == 1), "{parallelism}");
        let rows = CHANNELS.iter().map(|&(_, _, to)| KeyGroup::range(to, 3, MAX_PARALLELISM).len()).sum::<usize>();
        assert_eq!(owners.len(), rows, "{parallelism}");
    }
}

/// Channels of other edges move whole, each to one task, by sender and then by reader.
#[test]
fn channels_without_keys_move_whole() {
    let old = job(&[("source", 2), ("map", 3)], &[(0, 1, Partitioning::Rebalance)]);
    let manifest = {
        let mut manifest = manifest(&old, CHANNELS);
        manifest.committables.clear();
        manifest
    };
    let got = |parallelism: u32| {
        let new = job(&[("source", 2), ("map", parallelism)], &[(0, 1, Partitioning::Rebalance)]);
        let restore = Restore::new(&manifest, &new, false).unwrap();
        let shown = |restored: TaskRestore| {
            let channels = restored.in_flight.iter().flat_map(|edge| &edge.channels);
            let shown = channels.inspect(|c| assert_eq!(c.ownership, Ownership::Whole));
            shown.map(|c| strings(std::slice::from_ref(&c.elements))).collect::<Vec<_>>().join(" ")
        };
        tasks(&restore, 1, parallelism).into_iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(got(3), ["0>0 1>0", "0>1 1>1", "1>2"]);
    assert_eq!(got(2), ["0>0 1>0 1>2", "0>1 1>1"]);
    assert_eq!(got(1), ["0>0 0>1 1>0 1>1 1>2"]);
    assert_eq!(got(5), ["0>0 1>0", "0>1 1>1", "1>2", "", ""]);
}

#[test]
fn rows_in_flight_need_their_edge() {
    let old = job(&[("source", 2), ("count", 2), ("sink", 2)], &[(0, 1, hash()), (1, 2, Partitioning::Forward)]);
    let rows = &[(0, 0, 1)];

    let chained = job(&[("source count", 2), ("sink", 2)], &[(0, 1, Partitioning::Forward)]);
    let error = refusal(&old, rows, &chained, true);
    assert!(error.contains("edge source -> count") && error.contains("inside a chain"), "{error}");

    let other = |partitioning| {
        job(&[("source", 2), ("count", 2), ("sink", 2)], &[(0, 1, partitioning), (1, 2, Partitioning::Forward)])
    };
    let error = refusal(&old, rows, &other(Partitioning::Rebalance), false);
    assert!(error.contains("was partitioned HASH and is now REBALANCE"), "{error}");
    let error = refusal(&old, rows, &other(Partitioning::Hash(vec![1])), false);
    assert!(error.contains("or by other columns"), "{error}");

    let wider = job(&[("source", 2), ("count", 3), ("sink", 3)], &[(0, 1, hash()), (1, 2, Partitioning::Forward)]);
    let error = refusal(&old, &[(1, 0, 0)], &wider, false);
    assert!(error.contains("FORWARD edge cannot be dealt out from 2 to 3 tasks"), "{error}");

    let old_manifest = manifest(&old, rows);
    let without_reader = job(&[("source", 2), ("sink", 2)], &[(0, 1, Partitioning::Forward)]);
    let dropped = Restore::new(&old_manifest, &without_reader, true).unwrap();
    assert_eq!(dropped.dropped(), ["count"], "rows to an operator that is dropped are dropped with it");
}

/// A stream united with itself: two edges that only their order tells apart.
#[test]
fn twin_edges_are_told_apart() {
    let twins = |parallelism| {
        job(
            &[("source", 1), ("sink", parallelism)],
            &[(0, 1, Partitioning::Rebalance), (0, 1, Partitioning::Rebalance)],
        )
    };
    let mut old = manifest(&twins(1), &[(0, 0, 0), (1, 0, 0)]);
    old.edges[1].nth = 1;
    let new = twins(2);
    // The plan names an edge by the output it leaves: both leave the only output, in order.
    let restore = Restore::new(&old, &new, false).unwrap();
    let edges: Vec<_> = restore.task(task(1, 0)).unwrap().in_flight.iter().map(|edge| edge.edge.0).collect();
    assert_eq!(edges, [0, 1]);
}

#[test]
fn finished_tasks_stay_finished() {
    let old = count_job(2);
    let mut half = manifest(&old, &[]);
    half.vertices[1].tasks[0] = TaskState::Finished;
    fn finished(manifest: &Manifest, new: &JobGraph) -> Vec<bool> {
        let restore = Restore::new(manifest, new, false).unwrap();
        tasks(&restore, 1, new.vertices[1].parallelism).iter().map(|t| t.finished).collect()
    }
    assert_eq!(finished(&half, &count_job(2)), [true, false]);
    assert_eq!(finished(&half, &count_job(3)), [false, false, false]);
    half.vertices[1].tasks[1] = TaskState::Finished;
    assert_eq!(finished(&half, &count_job(3)), [true, true, true]);
    let grown = job(&[("source", 2), ("count sink new", 2)], &[(0, 1, hash())]);
    assert_eq!(finished(&half, &grown), [false, false], "a new operator has something to finish yet");
}
