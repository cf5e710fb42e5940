"""What a program's author sees when a function fails."""
import unittest

from flott.common import Types
from flott.datastream import MapFunction, StreamExecutionEnvironment
from support import error, plan, testing


def parse(text):
    return int(text)


class Errors(unittest.TestCase):
    def test_the_users_traceback_and_the_record(self):
        def build(env):
            stream = env.from_collection([], Types.STRING()).map(lambda s: s + "!").uid("a").name("shout")
            return stream.map(lambda s: parse(s)).uid("b").name("to number")

        text = error(build, ["a", "b"], ["x"])
        lines = text.splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertIn("test_errors.py", lines[1])
        self.assertIn("in <lambda>", lines[1])
        self.assertIn("in parse", text)
        self.assertNotIn("_run.py", text)
        self.assertNotIn("flott run", text)
        self.assertEqual(
            lines[-1], "ValueError: invalid literal for int() with base 10: 'x!' (operator to number, record 'x!')"
        )

    def test_each_kind_names_its_operator_and_record(self):
        def base(env):
            return env.from_collection([], Types.INT())

        cases = [
            (lambda env: base(env).filter(lambda x: 1 / x).uid("m"), "ZeroDivisionError: .*operator Filter, record 0"),
            (lambda env: base(env).flat_map(lambda x: [1 / x]).uid("m"), "operator Flat Map, record 0"),
            (lambda env: base(env).flat_map(lambda x: x).uid("m"), "'int' object is not iterable .operator Flat Map, record 3"),
            (lambda env: base(env).flat_map(lambda x: (1 // y for y in [x])).uid("m"), "operator Flat Map, record 0"),
            (lambda env: base(env).key_by(lambda x: 1 / x).uid("m"), "operator Key By, record 0"),
            (lambda env: base(env).map(lambda: 0).uid("m"), r"takes 0 positional arguments but 1 was given \(operator Map"),
        ]
        for build, expected in cases:
            with self.subTest(expected=expected):
                self.assertRegex(error(build, ["m"], [3, 0]), expected)

    def test_reduce(self):
        def build(env):
            return env.from_collection([], Types.INT()).key_by(lambda x: 1).uid("k").reduce(lambda a, b: a / 0).uid("r")

        built = plan(build)
        first, second = testing.Harness(built, ["k"]), testing.Harness(built, ["r"])
        first.push(first.rows([5, 6]))
        with self.assertRaisesRegex(ValueError, "ZeroDivisionError: .*operator Keyed Reduce, record 6"):
            second.push(first.take()[0])

    def test_wrong_types(self):
        pair = Types.TUPLE([Types.STRING(), Types.INT()])
        cases = [
            (Types.LONG(), "abc", "expected LONG, found str 'abc' (operator Map, record 0)"),
            (Types.LONG(), 1.5, "expected LONG, found float 1.5 (operator Map, record 0)"),
            (Types.INT(), 2**31, "expected INT, found int 2147483648 (operator Map, record 0)"),
            (Types.STRING(), 1, "expected STRING, found int 1 (operator Map, record 0)"),
            (Types.BOOLEAN(), 1, "expected BOOLEAN, found int 1 (operator Map, record 0)"),
            (Types.DOUBLE(), "1", "expected DOUBLE, found str '1' (operator Map, record 0)"),
            (pair, ("a", "b"), "expected INT in field 1, found str 'b' (operator Map, record 0)"),
            (pair, ("a",), "expected TUPLE(STRING, INT), 2 fields, found 1 fields: tuple ('a',) (operator Map, record 0)"),
            (pair, "ab", "expected TUPLE(STRING, INT), found str 'ab' (operator Map, record 0)"),
            (pair, None, "expected TUPLE(STRING, INT), found None (operator Map, record 0)"),
        ]
        for of, returned, expected in cases:
            with self.subTest(of=of, returned=returned):
                build = lambda env: env.from_collection([], Types.INT()).map(lambda _: returned, of).uid("m")
                self.assertEqual(error(build, ["m"], [0]), expected)

    def test_the_operator_that_made_the_value_is_to_blame(self):
        def build(env):
            stream = env.from_collection([], Types.INT()).map(lambda x: "a", Types.INT()).uid("a").name("maker")
            return stream.filter(lambda x: True).uid("b").key_by(lambda x: 1).uid("c")

        self.assertRegex(error(build, ["a", "b", "c"], [0]), "expected INT, found str 'a' .operator maker")

    def test_what_cannot_be_pickled(self):
        build = lambda env: env.from_collection([]).map(lambda x: (i for i in [x])).uid("m")
        self.assertRegex(error(build, ["m"], [0]), "expected an object that can be pickled, found generator")

    def test_a_long_record_is_cut(self):
        build = lambda env: env.from_collection([]).map(lambda x: 1 / 0).uid("m")
        self.assertRegex(error(build, ["m"], ["x" * 10000]), r"record 'x{499}… \(10002 characters\)")

    def test_a_record_whose_repr_fails(self):
        class Bad:
            def __repr__(self):
                raise RuntimeError("no")

        build = lambda env: env.from_collection([]).map(lambda x: Bad()).uid("a").map(lambda x: 1 / 0).uid("b")
        self.assertIn("its repr fails: RuntimeError: no", error(build, ["a", "b"], [1]))

    def test_open_fails(self):
        class Broken(MapFunction):
            def open(self, ctx):
                raise RuntimeError("no database")

        with self.assertRaisesRegex(ValueError, r"RuntimeError: no database \(operator Map\)"):
            testing.Harness(plan(lambda env: env.from_collection([]).map(Broken()).uid("m")), ["m"])

    def test_before_anything_runs(self):
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection([1])
        with self.assertRaisesRegex(TypeError, "map takes a function or an object with a method 'map', found 3"):
            stream.map(3)
        with self.assertRaisesRegex(ValueError, "the job has no sink"):
            env._take_plan("t")
        with self.assertRaisesRegex(ValueError, "expected LONG, found str 'a' .value 1, operator from_collection"):
            plan(lambda env: env.from_collection([1, "a"], Types.LONG()))
        with self.assertRaisesRegex(ValueError, "same uid"):
            plan(lambda env: env.from_collection([1]).map(str).uid("a").map(str).uid("a"))
        for tasks in (0, -1, "2", 1.5):
            with self.subTest(tasks=tasks), self.assertRaisesRegex(ValueError, "expected a parallelism of at least 1, found"):
                stream.set_parallelism(tasks)
        for tasks in (0, -1, "2", 1.5):
            for setter in (env.set_parallelism, env.set_max_parallelism):
                with self.subTest(setter=setter, tasks=tasks), self.assertRaisesRegex(ValueError, "at least 1, found"):
                    setter(tasks)

    def test_options(self):
        cases = [
            ({"paralelism.default": 2}, "there is no option 'paralelism.default'; did you mean 'parallelism.default'"),
            ({"parallelism.default": "three"}, "expected a whole number, found 'three' .option parallelism.default"),
            ({"flott.batch.rows": 1.5}, "expected a whole number, found '1.5' .option flott.batch.rows"),
            ({"pipeline.operator-chaining.enabled": "yes"}, "expected true or false, found 'yes'"),
            ({"parallelism.default": 129}, "parallelism 129 is above max parallelism 128"),
            ({"parallelism.default": 0}, "expected a parallelism of at least 1, found 0"),
            ({"pipeline.operator-chaining.enabled": False}, None),
        ]
        for options, expected in cases:
            env = StreamExecutionEnvironment.get_execution_environment(options)
            env.from_collection([1]).map(str).print()
            with self.subTest(options=options):
                if expected is None:
                    env._take_plan("t")
                else:
                    with self.assertRaisesRegex(ValueError, expected):
                        env._take_plan("t")


if __name__ == "__main__":
    unittest.main()
