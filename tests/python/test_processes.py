"""Whole jobs over several processes."""
import contextlib
import glob
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from collections import Counter

from flott.common import Types
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors import NumberSequenceSource

from support import testing


def environment(workers, parallelism):
    # Small batches, so that every task is dealt some.
    env = StreamExecutionEnvironment.get_execution_environment({"flott.batch.rows": 10}).set_parallelism(parallelism)
    env.python_workers = workers
    return env


def only_in(pid, x):
    # By its name, so the worker imports this module.
    if os.getpid() != pid:
        raise LookupError(f"no {x} here")
    return x


# Programs of these tests are interrupted: they must not inherit that it is ignored, as it is for a job in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Processes(unittest.TestCase):
    def tearDown(self):
        # No process is left after a job, not even one that nobody has waited for.
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_map_key_by_reduce(self):
        inputs = [(x * 7919) % 1000 for x in range(3000)]
        last, expected = {}, Counter()
        for x in inputs:
            key, value = f"k{x % 17}", x + 1
            last[key] = last.get(key, 0) + value
            expected[key, last[key]] += 1
        for workers in (1, 2):
            for parallelism in (1, 3):
                for of in (None, Types.TUPLE([Types.STRING(), Types.LONG()])):
                    with self.subTest(workers=workers, parallelism=parallelism, of=of):
                        env = environment(workers, parallelism)
                        pairs = env.from_collection(inputs, Types.LONG()).map(lambda x: (f"k{x % 17}", x + 1), of)
                        sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
                        rows = list(sums.execute_and_collect())
                        # Rows of a key are in order, but with several map tasks in one of many.
                        self.assertEqual({key: max(v for k, v in rows if k == key) for key in last}, last)
                        if parallelism == 1:
                            self.assertEqual(Counter(rows), expected)
                            self.assertEqual(dict(rows), last)
                        self.assertEqual(Counter(key for key, _ in rows), Counter(k for k, _ in expected.elements()))

    def test_order_free_results_are_the_same_rows(self):
        # Every value of a key is the same, so its sums do not depend on the order of the map tasks.
        inputs = [f"w{x % 13}" for x in range(2000)]
        seen, expected = Counter(), Counter()
        for word in inputs:
            seen[word] += 1
            expected[word, seen[word]] += 1
        for workers in (1, 2):
            with self.subTest(workers=workers):
                stream = environment(workers, 3).from_collection(inputs).map(lambda word: (word, 1))
                counts = stream.key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
                rows = list(counts.execute_and_collect())
                self.assertEqual(Counter(rows), expected)
                self.assertEqual(dict(rows), seen)

    def test_tasks_run_in_the_processes(self):
        # Of 3 tasks, the third is in the second of 2 processes, and each of 3 has one.
        for workers in (0, 1, 2):
            with self.subTest(workers=workers):
                stream = environment(workers, 3).from_collection(range(100)).map(lambda x: (x, os.getpid()))
                rows = list(stream.execute_and_collect())
                self.assertEqual(sorted(x for x, _ in rows), list(range(100)))
                pids = {pid for _, pid in rows}
                self.assertEqual((len(pids), os.getpid() in pids), (workers + 1, True))

    def test_several_jobs_of_one_program(self):
        # Each has workers of its own. The functions of the second are not those of the first.
        env = environment(1, 3)
        for add in (1, 100):
            stream = env.from_collection(range(30)).map(lambda x, add=add: (x + add, os.getpid()))
            rows = list(stream.execute_and_collect())
            self.assertEqual(sorted(x for x, _ in rows), [x + add for x in range(30)])
            self.assertEqual(len({pid for _, pid in rows}), 2)
        # Also at the same time, from two threads.
        results = {}

        def run(add):
            stream = environment(1, 2).from_collection(range(30)).map(lambda x: x + add)
            results[add] = sorted(stream.execute_and_collect())

        threads = [threading.Thread(target=run, args=(add,)) for add in (7, 70)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {add: [x + add for x in range(30)] for add in (7, 70)})

    def test_an_error_in_a_worker(self):
        here = os.getpid()
        stream = environment(1, 3).from_collection(range(100)).map(lambda x: only_in(here, x)).name("picky")
        with self.assertRaises(ValueError) as caught:
            list(stream.execute_and_collect())
        lines = str(caught.exception).splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertIn("test_processes.py", lines[1])
        self.assertIn("in only_in", str(caught.exception))
        self.assertNotIn("_run.py", str(caught.exception))
        self.assertRegex(lines[-1], r"^LookupError: no (\d+) here \(operator picky, record \1\b")

    def test_a_worker_that_ends(self):
        here = os.getpid()
        stream = environment(1, 3).from_collection(range(100)).map(lambda x: x if os.getpid() == here else os._exit(7))
        with self.assertRaisesRegex(RuntimeError, "a worker process ended with exit code 7"):
            list(stream.execute_and_collect())

    def test_what_is_refused(self):
        for workers in (-1, 1.5, "2"):
            with self.subTest(workers=workers), self.assertRaisesRegex(ValueError, "a number of worker processes"):
                environment(workers, 1).from_collection([1]).execute_and_collect()

    def test_a_worker_without_a_job(self):
        done = subprocess.run([sys.executable, "-m", "flott.worker"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a host, an address and a token in FLOTT_WORKER", done.stderr)

    def test_values_of_a_class_of_the_program(self):
        text = """if True:
            from flott.datastream import StreamExecutionEnvironment
            class Point:
                def __init__(self, x):
                    self.x = x
            options = {"flott.batch.rows": 1, "parallelism.default": 3}
            env = StreamExecutionEnvironment.get_execution_environment(options)
            env.python_workers = 2
            points = env.from_collection([Point(x) for x in range(9)]).map(lambda p: Point(p.x + 1))
            points = list(points.execute_and_collect())
            print(sorted(p.x for p in points), all(isinstance(p, Point) for p in points))
        """
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("[1, 2, 3, 4, 5, 6, 7, 8, 9] True\n", ""))


class PacedSource(NumberSequenceSource):
    """Numbers that go on with checkpoints; what tests of flott have."""

    def _to_engine(self, environment):
        return "paced", *super()._to_engine(environment)[1:]


class Checkpoints(unittest.TestCase):
    # A reader gives a batch after each checkpoint: when the second is complete, workers are not at the end.
    ROWS, BATCH = 30_000, 1_000
    LAST = Counter(x % 7 for x in range(1, ROWS + 1))

    def setUp(self):
        # Workers inherit it.
        patch = unittest.mock.patch.dict(os.environ, {testing.VARIABLE: "1"})
        patch.start()
        self.addCleanup(patch.stop)

    def test_only_tests_have_the_source(self):
        del os.environ[testing.VARIABLE]
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_source(PacedSource(1, 9), None, "Paced").print()
        with self.assertRaisesRegex(ValueError, "paced"):
            env.execute()

    def environment(self, workers, parallelism, directory, restarts):
        options = {"execution.checkpointing.interval": "1 ms", "execution.checkpointing.dir": directory}
        options["flott.batch.rows"] = self.BATCH
        options.update({"restart-strategy.type": restarts, "restart-strategy.fixed-delay.delay": "0 ms"})
        env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(parallelism)
        env.python_workers = workers
        return env

    def counts(self, env, directory, break_down, one):
        """(key, count, count) so far for each row, where `one` is what a row counts. The job breaks down in a worker,
        once, after the second checkpoint."""
        broken, here, batch = os.path.join(directory, "broken"), os.getpid(), self.BATCH

        def row(x):
            if x % batch == 0 and os.getpid() != here and not os.path.exists(broken):
                if glob.glob(os.path.join(directory, "chk-[2-9]*", "_metadata")):
                    pathlib.Path(broken).touch()
                    break_down()
            return (x % 7, *one)

        source = env.from_source(PacedSource(1, self.ROWS), None, "Paced")
        keyed = source.map(row).key_by(lambda t: t[0], Types.LONG())
        return list(keyed.reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])).execute_and_collect())

    def test_a_worker_is_lost_and_every_row_comes_once(self):
        expected = Counter((key, i, 0) for key, last in self.LAST.items() for i in range(1, last + 1))
        with tempfile.TemporaryDirectory() as directory, errors_into(directory) as errors:
            env = self.environment(1, 2, directory, "fixed-delay")
            rows = self.counts(env, directory, lambda: os._exit(9), (1, 0))
            self.assertIn("starts again in 0 ms: a worker process ended with exit code 9", errors())
        self.assertTrue(Counter(rows) == expected, f"{len(rows)} rows of {self.ROWS}")

    def test_resumed_in_other_processes_with_other_parallelism(self):
        def fail():
            raise LookupError("enough")

        for first, then in (((1, 2), (2, 3)), ((2, 3), (0, 1))):
            with self.subTest(first=first, then=then), tempfile.TemporaryDirectory() as directory:
                with errors_into(directory), self.assertRaisesRegex(ValueError, "LookupError: enough"):
                    self.counts(self.environment(*first, directory, "none"), directory, fail, (1, 0))
                env = self.environment(*then, directory, "none")
                env.resume = True
                rows = self.counts(env, directory, fail, (0, 1))
                last = {}
                for key, before, after in rows:
                    last[key] = max(last.get(key, (0, 0)), (before, after))
                self.assertEqual({key: before + after for key, (before, after) in last.items()}, self.LAST)
                self.assertGreater(sum(before for before, _ in last.values()), 0)
                self.assertGreater(sum(after for _, after in last.values()), 0)


@contextlib.contextmanager
def errors_into(directory):
    """What this process writes to its standard error goes to a file; gives a function that reads it."""
    path, kept = os.path.join(directory, "stderr"), os.dup(2)
    with open(path, "w") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield lambda: pathlib.Path(path).read_text()
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def waits_out(text):
    """Without what is said on a busy machine: that a cancelled job still waits for its tasks."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("waiting for task "))


# The last of 3 tasks, in the worker, says that it runs; no task ends by itself.
ENDLESS = """if True:
    import os, signal
    from flott.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(3)
    env.python_workers = 1
    here, said = os.getpid(), set()
    def say(x):
        if os.getpid() != here and not said:
            said.add(x)
            os.write(1, b"running\\n")
        return False
    env.from_sequence(1, 10**15).filter(say).print()
    try:
        env.execute()
    except KeyboardInterrupt:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("alone")
"""


# As that, but the function in the worker does not return.
STUCK = """if True:
    import os, threading
    from flott.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(3)
    env.python_workers = 1
    here = os.getpid()
    def wait(x):
        if os.getpid() != here:
            os.write(1, b"running\\n")
            threading.Event().wait()
        return False
    env.from_sequence(1, 10**15).filter(wait).print()
    try:
        env.execute()
    except KeyboardInterrupt:
        print("goes on")
"""


class Ends(unittest.TestCase):
    def end(self, signal_number, to_all):
        """The exit code and the output of a job in two processes that a signal has ended. Waits for both: each holds
        the pipe of the output."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen([sys.executable, "-c", ENDLESS], text=True, start_new_session=True, **pipes)
        self.assertEqual(job.stdout.readline(), "running\n")
        if to_all:
            os.killpg(job.pid, signal_number)
        else:
            job.send_signal(signal_number)
        output, errors = job.communicate(timeout=60)
        return job.returncode, output, waits_out(errors)

    def test_interrupted(self):
        # As the terminal does it, and as `kill` does.
        for to_all in (True, False):
            with self.subTest(to_all=to_all):
                self.assertEqual(self.end(signal.SIGINT, to_all), (0, "alone\n", ""))

    def test_interrupted_again(self):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", STUCK], text=True, start_new_session=True, **pipes) as job:
            self.assertEqual(job.stdout.readline(), "running\n")
            job.send_signal(signal.SIGINT)
            waits = job.stderr.readline()
            self.assertRegex(waits, r"^waiting for task .+/2 in worker \d+; a second Ctrl-C ends it now\n$")
            job.send_signal(signal.SIGINT)
            # To the end of both: each holds the pipe of the output.
            self.assertEqual(job.communicate(timeout=60), ("", ""))
        self.assertEqual(job.returncode, 130)

    def test_the_program_is_killed(self):
        code, output, errors = self.end(signal.SIGKILL, False)
        self.assertEqual((code, output), (-signal.SIGKILL, ""))


if __name__ == "__main__":
    unittest.main()
