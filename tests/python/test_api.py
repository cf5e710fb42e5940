"""Streams as plans, types and rows, and how values are printed."""
import doctest
import pickle
import unittest

import flott.common.typeinfo
import flott.common.types
import flott.datastream.connectors.number_seq
import flott.datastream.data_stream
import flott.datastream.stream_execution_environment
from flott.common import Row, RowKind, Types
from flott.datastream import StreamExecutionEnvironment
from flott.datastream._print import Formatter
from support import plan, testing


class Plans(unittest.TestCase):
    def test_chains(self):
        def chains(build, parallelism=1):
            return testing.chains(plan(build, parallelism))

        maps = lambda env: env.from_sequence(1, 9).map(str).uid("a").map(str).uid("b")
        self.assertEqual([len(c) for c in chains(maps)], [5])
        lists = lambda env: env.from_collection([1]).map(str).uid("a")
        self.assertEqual([len(c) for c in chains(lists)], [4])
        # The source reads in one task, so what follows is dealt out.
        self.assertEqual([len(c) for c in chains(lists, 3)], [1, 3])
        cut = lambda env: env.from_sequence(1, 9).map(str).start_new_chain().map(str).disable_chaining()
        self.assertEqual([len(c) for c in chains(cut)], [1, 1, 1, 2])
        dealt = lambda env: env.from_sequence(1, 9).rebalance().map(str)
        self.assertEqual([len(c) for c in chains(dealt)], [1, 3])
        union = lambda env: env.from_sequence(1, 3).union(env.from_sequence(4, 5), env.from_sequence(6, 7)).map(str)
        self.assertEqual([len(c) for c in chains(union)], [1, 1, 1, 3])

    def test_parallelism_of_a_node(self):
        built = lambda env: env.from_sequence(1, 9).map(str).set_parallelism(2).uid("a").key_by(lambda v: v).uid("k")
        # key_by finds keys where the values are.
        self.assertIn(["a", "k"], testing.chains(plan(built, 3)))

    def test_a_plan_is_taken_once(self):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_sequence(1, 2).print()
        env._take_plan("t")
        with self.assertRaisesRegex(ValueError, "no operators"):
            env._take_plan("t")


class Rows(unittest.TestCase):
    def test_row(self):
        row = Row(name="Ann", age=3)
        self.assertEqual((row.name, row["age"], row[1], len(row), list(row)), ("Ann", 3, 3, 2, ["Ann", 3]))
        self.assertEqual(row.as_dict(), {"name": "Ann", "age": 3})
        row.age = 4
        self.assertEqual(row, Row(name="Ann", age=4))
        self.assertNotEqual(row, Row("Ann", 5))
        self.assertEqual(pickle.loads(pickle.dumps(row)), row)
        self.assertEqual(repr(Row(1, "a")), "Row(1, 'a')")
        row.set_row_kind(RowKind.DELETE)
        self.assertEqual(str(row.get_row_kind()), "-D")
        with self.assertRaises(AttributeError):
            row.other

    def test_printed_as_flink_does(self):
        pair = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
        cases = [
            (Types.PICKLED_BYTE_ARRAY(), (1, "a"), "(1, 'a')"),
            (Types.STRING(), "a", "a"),
            (Types.INT(), None, "null"),
            (Types.BOOLEAN(), True, "true"),
            (pair, ("a", 1.0), "(a,1.0)"),
            (pair, (None, 1e7), "(null,1.0E7)"),
            (Types.ROW([Types.INT(), pair]), Row(1, ("a", 0.5)), "+I[1, (a,0.5)]"),
            # Java's Double.toString.
            (Types.DOUBLE(), 12345678.9, "1.23456789E7"),
            (Types.DOUBLE(), 0.00012, "1.2E-4"),
            (Types.DOUBLE(), -1.5e300, "-1.5E300"),
            (Types.DOUBLE(), float("inf"), "Infinity"),
            (Types.DOUBLE(), 9999999.0, "9999999.0"),
        ]
        for of, value, expected in cases:
            with self.subTest(expected=expected):
                self.assertEqual(Formatter(of).map(value), expected)


def load_tests(_loader, tests, _pattern):
    for module in (
        flott.common.typeinfo,
        flott.common.types,
        flott.datastream.connectors.number_seq,
        flott.datastream.data_stream,
        flott.datastream.stream_execution_environment,
    ):
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
