"""Whole jobs in this process."""
import os
import signal
import subprocess
import sys
import unittest

from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors import NumberSequenceSource


def environment(parallelism, **options):
    options = {key.replace("_", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(parallelism)


def script(text, *arguments, **options):
    """Runs a program of its own."""
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60, env=dict(os.environ), **options
    )


# Programs of these tests are interrupted: they must not inherit that it is ignored, as it is for a job in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Jobs(unittest.TestCase):
    def test_word_count(self):
        lines = ["to be or not", "to be", "that is", "the question to"] * 500
        expected = {}
        for word in " ".join(lines).split():
            expected[word] = expected.get(word, 0) + 1
        pair = Types.TUPLE([Types.STRING(), Types.INT()])
        for parallelism in (1, 3):
            for typed in (True, False):
                with self.subTest(parallelism=parallelism, typed=typed):
                    env = environment(parallelism)
                    words = env.from_collection(lines, Types.STRING()).flat_map(lambda line: line.split())
                    pairs = words.map(lambda word: (word, 1), pair if typed else None)
                    keyed = pairs.key_by(lambda t: t[0], Types.STRING() if typed else None)
                    counts = keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))
                    last = {}
                    rows = 0
                    for word, count in counts.execute_and_collect():
                        rows += 1
                        last[word] = max(count, last.get(word, 0))
                    self.assertEqual(last, expected)
                    self.assertEqual(rows, sum(expected.values()))

    def test_chained_or_not_at_any_parallelism_and_batch_size(self):
        expected = sorted((x + 1) * 2 for x in range(1, 10001) if x % 3)
        for parallelism in (1, 3):
            for options in ({}, {"flott_batch_rows": 7}):
                for chaining in (True, False):
                    with self.subTest(parallelism=parallelism, options=options, chaining=chaining):
                        env = environment(parallelism, **options)
                        if not chaining:
                            env.disable_operator_chaining()
                        source = NumberSequenceSource(1, 10000)
                        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
                        stream = numbers.filter(lambda x: x % 3).map(lambda x: x + 1, Types.LONG()).map(lambda x: x * 2)
                        self.assertEqual(sorted(stream.execute_and_collect()), expected)

    def test_union_and_limit(self):
        env = environment(1)
        stream = env.from_collection([1, 2], Types.INT()).union(env.from_collection([3], Types.INT()))
        self.assertEqual(sorted(stream.map(lambda x: x).execute_and_collect()), [1, 2, 3])
        self.assertEqual(env.from_collection([1, 2, 3]).execute_and_collect(limit=2), [1, 2])

    def test_an_error_of_a_function(self):
        for parallelism in (1, 3):
            env = environment(parallelism)
            stream = env.from_sequence(-5, 5).map(lambda x: 1 // x).name("invert")
            with self.assertRaisesRegex(ValueError, r"in <lambda>\n.*\n?.*\n?ZeroDivisionError.*operator invert, record 0"):
                stream.execute_and_collect()

    def test_print(self):
        text = """if True:
            from flott.common import Types
            from flott.datastream import StreamExecutionEnvironment
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([("a", 1.0)], Types.TUPLE([Types.STRING(), Types.DOUBLE()])).print()
            env.execute("job")
        """
        done = script(text)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("(a,1.0)", done.stdout)

    def test_interrupted(self):
        text = """if True:
            from flott.datastream import StreamExecutionEnvironment
            env = StreamExecutionEnvironment.get_execution_environment()
            def say(x):
                if x == 1:
                    print("running", flush=True)
                return False
            env.from_sequence(1, 10**15).filter(say).print()
            env.execute()
        """
        job = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(job.stdout.readline(), "running\n")
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", errors)
        # Python's own code for a program that an interrupt ended.
        self.assertEqual(job.returncode, -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
