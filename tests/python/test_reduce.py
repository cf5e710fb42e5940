"""Keyed state of Python objects: reduce, snapshots and restores."""
import unittest

from flott.common import Types
from support import plan, testing, values


def sums(env, of=None):
    pairs = env.from_collection([], of) if of else env.from_collection([])
    keyed = pairs.map(lambda v: v, of).uid("m").key_by(lambda t: t[0], Types.STRING()).uid("k")
    stream = keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("r")
    return stream.map(lambda t: f"{t[0]}{t[1]}", Types.STRING()).uid("s")


class Keyed:
    """key_by, then reduce and map as one run, by hand."""

    def __init__(self, build=sums, parallelism=1, index=0, restored=()):
        self.plan = plan(build, parallelism)
        self.first = testing.Harness(self.plan, ["m", "k"])
        self.second = testing.Harness(self.plan, ["r", "s"], index, list(restored))

    def push(self, inputs):
        self.first.push(self.first.rows(inputs))
        for rows in self.first.take():
            self.second.push(rows)
        return values(self.second.take())


class Reduce(unittest.TestCase):
    def test_one_run(self):
        self.assertEqual(testing.chains(plan(sums))[1][:2], ["r", "s"])
        keyed = Keyed()
        self.assertEqual(keyed.push([("a", 1), ("b", 10), ("a", 2), ("a", 3)]), ["a1", "b10", "a3", "a6"])
        self.assertEqual(keyed.push([("b", 5), ("c", 1)]), ["b15", "c1"])

    def test_typed(self):
        of = Types.TUPLE([Types.STRING(), Types.LONG()])
        keyed = Keyed(lambda env: sums(env, of))
        self.assertEqual(keyed.push([("a", 1), (None, 2), ("a", 2), (None, 3)]), ["a1", "None2", "a3", "None5"])

    def test_attached_once_a_batch_and_pickled_only_for_a_snapshot(self):
        keyed = Keyed()
        batch = [(f"k{i % 10}", 1) for i in range(1000)]
        keyed.push(batch)
        attaches, encodes = testing.counts()
        keyed.push(batch)
        keyed.push(batch)
        # Two runs, two batches.
        self.assertEqual(testing.counts(), (attaches + 4, encodes))
        keyed.second.snapshot()
        self.assertEqual(testing.counts(), (attaches + 5, encodes + 10))
        keyed.push([("k0", 1)])
        keyed.second.snapshot()
        self.assertEqual(testing.counts()[1], encodes + 20)

    def test_a_snapshot_changes_nothing(self):
        keyed = Keyed()
        keyed.push([("a", 1)])
        first = keyed.second.snapshot()
        self.assertEqual(keyed.second.snapshot(), first)
        self.assertEqual(keyed.push([("a", 2)]), ["a3"])
        self.assertNotEqual(keyed.second.snapshot(), first)

    def test_restored(self):
        keyed = Keyed()
        keyed.push([("a", 1), ("b", 2)])
        bytes = keyed.second.snapshot()
        attaches, encodes = testing.counts()
        again = Keyed(restored=[bytes])
        # Opening two runs; the state stays bytes, and goes back into a snapshot as it is.
        self.assertEqual(testing.counts()[0], attaches + 2)
        self.assertEqual(again.second.snapshot(), bytes)
        self.assertEqual(testing.counts()[1], encodes)
        self.assertEqual(again.push([("b", 3), ("a", 1), ("b", 1)]), ["b5", "a2", "b6"])

    def test_restored_at_another_parallelism(self):
        keyed = Keyed()
        keys = [f"k{i}" for i in range(50)]
        keyed.push([(k, 1) for k in keys])
        bytes = keyed.second.snapshot()
        parts = [Keyed(parallelism=3, index=i, restored=[bytes]) for i in range(3)]
        # A key answers 2 only in the task that owns it: each of the 50 does so once.
        answers = [part.push([(k, 1) for k in keys]) for part in parts]
        for row, key in enumerate(keys):
            found = sorted(answer[row] for answer in answers)
            self.assertEqual(found, [f"{key}1", f"{key}1", f"{key}2"])
        snapshots = [part.second.snapshot() for part in parts]
        self.assertEqual(len(set(snapshots)), 3)

    def test_objects_of_any_class(self):
        class Total:
            def __init__(self, key, n):
                self.key, self.n = key, n

        def build(env):
            stream = env.from_collection([]).map(lambda v: Total(*v)).uid("m").key_by(lambda t: t.key).uid("k")
            return stream.reduce(lambda a, b: Total(a.key, a.n + b.n)).uid("r").map(lambda t: (t.key, t.n)).uid("s")

        keyed = Keyed(build)
        self.assertEqual(keyed.push([("a", 1), ("a", 2)]), [("a", 1), ("a", 3)])
        again = Keyed(build, restored=[keyed.second.snapshot()])
        self.assertEqual(again.push([("a", 4)]), [("a", 7)])

    def test_none_is_no_value(self):
        def build(env):
            stream = env.from_collection([]).map(lambda v: v).uid("m").key_by(lambda v: 0).uid("k")
            return stream.reduce(lambda a, b: None if b == "drop" else a + b).uid("r").map(lambda v: v).uid("s")

        keyed = Keyed(build)
        self.assertEqual(keyed.push([1, 2, "drop", 4, 5]), [1, 3, None, 4, 9])
        self.assertEqual(keyed.push(["drop"]), [None])
        self.assertEqual(keyed.push([7]), [7])

    def test_many_rows_of_a_reduce(self):
        def build(env):
            stream = env.from_collection([]).map(lambda v: v).uid("m").key_by(lambda t: t[0]).uid("k")
            stream = stream.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("r")
            return stream.flat_map(lambda t: range(t[1]), Types.LONG()).uid("s")

        keyed = Keyed(build)
        out = keyed.push([("a", 5000), ("b", 1), ("a", 5000)])
        self.assertEqual(out, [*range(5000), 0, *range(10000)])
        self.assertEqual(keyed.push([("a", 1), ("b", 1)]), [*range(10001), 0, 1])

    def test_sum(self):
        of = Types.TUPLE([Types.STRING(), Types.INT()])

        def build(env):
            stream = env.from_collection([], of).map(lambda v: v, of).uid("m").key_by(lambda t: t[0]).uid("k")
            return stream.sum(1).uid("r").map(lambda v: v).uid("s")

        self.assertEqual(Keyed(build).push([("a", 1), ("a", 2)]), [("a", 1), ("a", 3)])
        with self.assertRaisesRegex(ValueError, "position from 0 to 1, found 2"):
            plan(lambda env: env.from_collection([], of).key_by(lambda t: t[0]).sum(2))


if __name__ == "__main__":
    unittest.main()
