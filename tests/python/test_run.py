"""Fused runs: what goes in and comes out, without a runtime."""
import unittest

from flott.common import Row, Types
from flott.datastream import FlatMapFunction, MapFunction
from support import plan, run, testing, values


def three_maps(env, output=None):
    stream = env.from_collection([], Types.LONG())
    return stream.map(lambda x: x + 1).uid("a").map(lambda x: x * 2).uid("b").map(lambda x: x - 1, output).uid("c")


class Maps(unittest.TestCase):
    def test_one_run_of_three(self):
        chains = testing.chains(plan(three_maps))
        self.assertEqual(chains[0][1:4], ["a", "b", "c"])
        for output in (None, Types.LONG()):
            out = run(lambda env: three_maps(env, output), ["a", "b", "c"], [1, 2, -7])
            self.assertEqual(values(out), [3, 5, -13])

    def test_the_same_fused_or_not(self):
        built = plan(lambda env: three_maps(env, Types.LONG()))
        rows, out = None, [5, 6]
        for uid in "abc":
            harness = testing.Harness(built, [uid])
            rows = harness.rows(out)
            harness.push(rows)
            out = values(harness.take())
        self.assertEqual(out, values(run(lambda env: three_maps(env, Types.LONG()), ["a", "b", "c"], [5, 6])))

    def test_attached_once_a_batch(self):
        harness = testing.Harness(plan(three_maps), ["a", "b", "c"])
        rows = harness.rows(list(range(1000)))
        before, _ = testing.counts()
        for _ in range(5):
            harness.push(rows)
        after, _ = testing.counts()
        self.assertEqual(after - before, 5)

    def test_types_there_and_back(self):
        named = Types.ROW_NAMED(["name", "pair"], [Types.STRING(), Types.TUPLE([Types.INT(), Types.DOUBLE()])])
        marker = object
        cases = [
            (Types.STRING(), ["", "ä", "a\0b", None]),
            (Types.BOOLEAN(), [True, False, None]),
            (Types.BYTE(), [-128, 127, None]),
            (Types.SHORT(), [-(2**15), 2**15 - 1, None]),
            (Types.INT(), [-(2**31), 2**31 - 1, None]),
            (Types.LONG(), [-(2**63), 2**63 - 1, None]),
            (Types.FLOAT(), [0.5, float("inf"), None]),
            (Types.DOUBLE(), [0.1, -0.0, 1e300, None]),
            (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), (None, None)]),
            (Types.TUPLE([Types.TUPLE([Types.INT()]), Types.INT()]), [((1,), 2), (None, 3)]),
            (Types.ROW([Types.INT(), Types.STRING()]), [Row._of(["f0", "f1"], [1, "a"])]),
            (named, [Row(name="a", pair=(1, 0.5)), Row(name=None, pair=None)]),
            (
                Types.PICKLED_BYTE_ARRAY(),
                [None, True, False, 1, 2**80, 0.5, "ä", "\ud800", b"x", (1, ("a", None)), [1], {"a": {2}}, marker, 1j],
            ),
        ]
        for of, inputs in cases:
            with self.subTest(of=of):
                out = values(run(lambda env: env.from_collection([], of).map(lambda v: v, of).uid("m"), ["m"], inputs))
                self.assertEqual(out, inputs)
                self.assertEqual([type(v) for v in out], [type(v) for v in inputs])

    def test_values_that_become_the_declared_type(self):
        class Number:
            def __index__(self):
                return 7

        cases = [
            (Types.LONG(), [True, Number()], [1, 7]),
            (Types.DOUBLE(), [1, True], [1.0, 1.0]),
            (Types.FLOAT(), [0.1], [0.10000000149011612]),  # the float of 32 bits nearest to 0.1
            (Types.TUPLE([Types.INT(), Types.INT()]), [[1, 2], Row(3, 4)], [(1, 2), (3, 4)]),
            (Types.ROW_NAMED(["a", "b"], [Types.INT()] * 2), [(1, 2), Row(b=4, a=3)], [Row(a=1, b=2), Row(a=3, b=4)]),
        ]
        for of, returned, expected in cases:
            with self.subTest(of=of):
                out = run(lambda env: env.from_collection([]).map(lambda i: returned[i], of).uid("m"), ["m"], list(range(len(returned))))
                self.assertEqual(values(out), expected)

    def test_function_objects_are_opened_and_closed(self):
        import support as module  # the function is pickled: what it writes to must be found by import

        module.calls = calls = []

        class Scale(MapFunction):
            def open(self, ctx):
                module.calls.append(("open", ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks()))

            def map(self, value):
                return value * 10

            def close(self):
                module.calls.append("close")

        built = plan(lambda env: env.from_collection([], Types.INT()).rebalance().map(Scale(), Types.INT()).uid("m"), 2)
        harness = testing.Harness(built, ["m"], 1)
        harness.push(harness.rows([1]))
        self.assertEqual(values(harness.take()), [10])
        harness.finish()
        del harness
        self.assertEqual(calls, [("open", 1, 2), "close"])
        harness = testing.Harness(built, ["m"], 0)
        del harness  # a job that failed
        self.assertEqual(calls[2:], [("open", 0, 2), "close"])


class FiltersAndFlatMaps(unittest.TestCase):
    def test_times_and_kinds_follow_their_rows(self):
        def build(env):
            stream = env.from_collection([], Types.LONG()).filter(lambda x: x % 2).uid("f")
            return stream.flat_map(lambda x: range(x), Types.LONG()).uid("m")

        (out,) = run(build, ["f", "m"], [1, 2, 3], [10, 20, 30], [0, 1, 2])
        self.assertEqual(out.values(), [0, 0, 1, 2])
        self.assertEqual(out.times(), [10, 30, 30, 30])
        self.assertEqual(out.kinds(), ["+I", "+U", "+U", "+U"])
        (out,) = run(lambda env: env.from_collection([], Types.LONG()).map(str).uid("m"), ["m"], [1, 2], [10, 20], [0, 3])
        self.assertEqual((out.times(), out.kinds()), ([10, 20], ["+I", "-D"]))

    def test_filter_alone_keeps_columns(self):
        of = Types.TUPLE([Types.STRING(), Types.FLOAT()])
        build = lambda env: env.from_collection([], of).filter(lambda t: t[0] > "a").uid("f")
        self.assertEqual(values(run(build, ["f"], [("a", 1.0), ("b", None), ("c", 0.1)])), [("b", None), ("c", 0.10000000149011612)])
        self.assertEqual(run(build, ["f"], [("a", 1.0)]), [])

    def test_many_rows_of_one_leave_in_chunks(self):
        def build(env):
            stream = env.from_collection([], Types.LONG()).flat_map(lambda x: range(x), Types.LONG()).uid("m")
            return stream.filter(lambda x: x >= 0).uid("f")

        harness = testing.Harness(plan(build), ["m", "f"])
        before, _ = testing.counts()
        calls = harness.push(harness.rows([20000, 3]).with_times([7, 8]))
        out = harness.take()
        self.assertEqual([len(batch) for batch in out], [8192, 8192, 20003 - 2 * 8192])  # 8192: CHUNK_ROWS of _run.py
        self.assertEqual((calls, testing.counts()[0] - before), (3, 3))
        self.assertEqual(values(out), [*range(20000), *range(3)])
        self.assertEqual([t for batch in out for t in batch.times()], [7] * 20000 + [8] * 3)
        self.assertEqual(dict(harness.metrics(0))["numRecordsOut"], 20003)
        self.assertEqual(dict(harness.metrics(1))["numRecordsIn"], 20003)

    def test_rows_are_counted_between_members(self):
        def build(env):
            stream = env.from_collection([], Types.LONG()).map(lambda x: x).uid("a").filter(lambda x: x > 1).uid("b")
            return stream.map(lambda x: x).uid("c").flat_map(lambda x: [x] * x).uid("d").map(lambda x: x).uid("e")

        harness = testing.Harness(plan(build), list("abcde"))
        harness.push(harness.rows([1, 2, 3]))
        counts = [dict(harness.metrics(i)) for i in range(5)]
        self.assertEqual([c["numRecordsOut"] for c in counts[:4]], [3, 2, 2, 5])
        self.assertEqual([c["numRecordsIn"] for c in counts[1:]], [3, 2, 2, 5])

    def test_generator_methods(self):
        class Twice(FlatMapFunction):
            def flat_map(self, value):
                yield value
                yield -value

        out = run(lambda env: env.from_collection([], Types.INT()).flat_map(Twice(), Types.INT()).uid("m"), ["m"], [1, 2])
        self.assertEqual(values(out), [1, -1, 2, -2])

    def test_too_many_flat_maps(self):
        def build(env):
            stream = env.from_collection([])
            for i in range(17):
                stream = stream.flat_map(lambda x: [x]).uid(f"m{i}")
            return stream

        with self.assertRaisesRegex(ValueError, "start_new_chain"):
            harness = testing.Harness(plan(build), [f"m{i}" for i in range(17)])
            harness.push(harness.rows([1]))


class Keys(unittest.TestCase):
    def keys(self, key, key_type, inputs):
        harness = testing.Harness(plan(lambda env: env.from_collection([]).key_by(key, key_type).uid("k")), ["k"])
        harness.push(harness.rows(inputs))
        (out,) = harness.take()
        self.assertEqual(out.values(), inputs)
        return out.keys()

    def test_declared(self):
        self.assertEqual(self.keys(lambda v: v, Types.INT(), [1, True, None]), [1, 1, None])
        self.assertEqual(self.keys(lambda v: v, Types.STRING(), ["a", None]), ["a", None])
        pair = Types.TUPLE([Types.STRING(), Types.LONG()])
        self.assertEqual(self.keys(lambda v: v, pair, [("a", 1)]), [("a", 1)])

    def test_undeclared_are_equal_where_python_says_so(self):
        inputs = [1, True, 1.0, "1", b"1", (1, "a"), (True, "a"), None, -0.0, 0.5]
        keys = self.keys(lambda v: v, None, inputs)
        self.assertEqual(keys, inputs)
        self.assertEqual([type(k) for k in keys[:3]], [int, int, int])
        self.assertEqual(repr(keys[8]), "0")

    def test_refused(self):
        cases = [
            (lambda: self.keys(lambda v: [v], None, [1]), "expected a key of bool, int of 64 bits, .* found list .1."),
            (lambda: self.keys(lambda v: {}, None, ["r"]), "operator Key By, record 'r'"),
            (lambda: self.keys(lambda v: 2**70, None, [1]), "int of 64 bits"),
            (lambda: self.keys(lambda v: "x", Types.INT(), [1]), "expected INT, found str 'x'"),
            (lambda: self.keys(lambda v: v, Types.TUPLE([Types.TUPLE([Types.INT()])]), [1]), r"cannot be made of TUPLE\(INT\)"),
            (lambda: self.keys(lambda v: v, Types.TUPLE([Types.PICKLED_BYTE_ARRAY()] * 2), [1]), "cannot be made of PICKLED"),
        ]
        for fails, text in cases:
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, text):
                fails()

    def test_map_then_key_by_is_one_run(self):
        def build(env):
            pairs = env.from_collection([], Types.STRING()).map(lambda w: (w, 1)).uid("m")
            return pairs.key_by(lambda t: t[0], Types.STRING()).uid("k").reduce(lambda a, b: a).uid("r")

        self.assertEqual(testing.chains(plan(build))[0][-2:], ["m", "k"])
        (out,) = run(build, ["m", "k"], ["a", "b"])
        self.assertEqual((out.values(), out.keys()), ([("a", 1), ("b", 1)], ["a", "b"]))

    def test_a_keyed_stream_is_a_stream(self):
        built = plan(lambda env: env.from_collection([1], Types.INT()).key_by(lambda v: v).uid("k"))
        self.assertEqual([len(chain) for chain in testing.chains(built)], [2, 3])  # values, format, print
        built = plan(lambda env: env.from_collection([1], Types.INT()).key_by(lambda v: v).map(lambda v: v + 1).uid("m"))
        harness = testing.Harness(built, ["m"])
        harness.push(harness.rows([1]))
        self.assertEqual(values(harness.take()), [2])


if __name__ == "__main__":
    unittest.main()
