"""The operators of the Python API as text tables (`tables/*.txt`), in the notation of the Rust ones.

`operator: name` begins a scenario over a run of `RUNS`, `scenario: title` another over the same. Steps: `> value` (in
Python, with `@` and the event time after and a row kind before; neighbours are one batch), `snapshot`,
`restore [parallelism=N]` (from the last snapshot), `finish`; several with `;` between them. What comes out follows a
step: `= value`, or `= error: …`, with which its scenario ends; `UPDATE_EXPECT=1` writes it anew. Where there are
several tasks, rows of a step are sorted. Every table runs again with batches of one row, and restored at parallelism 1
and 3 after every step: the same must come out.
"""
import os
import pathlib
import re
import unittest

from flott.common import Types
from support import plan, testing

TABLES = pathlib.Path(__file__).parent / "tables"
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
KINDS = ["+I", "-U", "+U", "-D"]


def keyed(of, key, key_type, then):
    """Two runs: a key for each value, and behind the exchange what `then` makes of the keyed stream, as text."""

    def build(env):
        stream = env.from_collection([], of) if of else env.from_collection([])
        stream = then(stream.map(lambda v: v, of).uid("m").key_by(key, key_type).uid("k")).uid("r")
        return stream.map(repr, Types.STRING()).uid("s")

    return build, ["m", "k"], ["r", "s"]


def alone(build, *uids, of=None):
    """One run without keys."""
    return (lambda env: build(env.from_collection([], of) if of else env.from_collection([])), list(uids))


def refuse_three(n):
    if n == 3:
        raise ValueError("three is refused")
    return n


def up_to(n):
    for i in range(1, n + 1):
        yield refuse_three(i)


ADD = lambda a, b: (a[0], a[1] + b[1])
RUNS = {
    "double": alone(lambda s: s.map(lambda t: (t[0], t[1] * 2), PAIR).uid("x"), "x", of=PAIR),
    "repr": alone(lambda s: s.map(repr, Types.STRING()).uid("x"), "x"),
    "parse": alone(lambda s: s.map(int, Types.LONG()).uid("x"), "x", of=Types.STRING()),
    "large": alone(lambda s: s.filter(lambda t: t[1] >= 10).uid("x"), "x", of=PAIR),
    "not_three": alone(lambda s: s.filter(refuse_three).uid("x"), "x", of=Types.LONG()),
    "words": alone(lambda s: s.flat_map(str.split, Types.STRING()).uid("x"), "x", of=Types.STRING()),
    "up_to": alone(lambda s: s.flat_map(up_to, Types.LONG()).uid("x"), "x", of=Types.LONG()),
    "keys": alone(lambda s: s.key_by(lambda t: t[0], Types.STRING()).uid("x"), "x", of=PAIR),
    "sums": keyed(PAIR, lambda t: t[0], Types.STRING(), lambda s: s.reduce(ADD)),
    "sums_of_any": keyed(None, lambda t: t[0], None, lambda s: s.reduce(ADD)),
    "sums_of_floats": keyed(None, lambda t: t[0], Types.DOUBLE(), lambda s: s.reduce(ADD)),
    "values": keyed(PAIR, lambda t: t[0], None, lambda s: s.rebalance()),
    "sum": keyed(PAIR, lambda t: t[0], None, lambda s: s.sum(1)),
    "run_of_four": alone(
        lambda s: s.map(lambda n: n + 1, Types.LONG()).uid("a").filter(lambda n: n % 2).uid("b")
        .flat_map(range, Types.LONG()).uid("c").key_by(lambda n: n % 3, Types.LONG()).uid("d"),
        "a", "b", "c", "d", of=Types.LONG(),
    ),
}


class Tasks:
    """The parallel tasks of a run; where it has two, values pass the first on their way to the keyed second."""

    def __init__(self, name):
        self.build, *self.runs = RUNS[name]
        self.seen = 0
        self.saved = None
        self.start(1, [])

    def start(self, parallelism, snapshots):
        self.parallelism = parallelism
        self.plan = plan(self.build, parallelism)
        self.first = testing.Harness(self.plan, self.runs[0]) if len(self.runs) > 1 else None
        self.tasks = [testing.Harness(self.plan, self.runs[-1], i, snapshots) for i in range(parallelism)]

    def push(self, rows):
        if self.first:
            self.first.push(batch(self.first, rows))
            parts = [part for out in self.first.take() for part in self.deal(out)]
        else:
            shares = [[] for _ in self.tasks]
            for row in rows:
                shares[self.seen % self.parallelism].append(row)
                self.seen += 1
            parts = [(i, batch(self.tasks[i], share)) for i, share in enumerate(shares)]
        lines = []
        for i, part in parts:
            if len(part):
                self.tasks[i].push(part)
                lines += self.lines(i)
        return lines

    def deal(self, rows):
        """(task, rows of it): as the exchange does."""
        if self.parallelism == 1:
            return [(0, rows)]
        return [(task, rows.slice(i, 1)) for i, task in enumerate(self.tasks[0].owners(rows))]

    def lines(self, i):
        lines = []
        for rows in self.tasks[i].take():
            values, keys, times, kinds = rows.values(), rows.keys(), rows.times(), rows.kinds()
            for row, value in enumerate(values):
                key = f" key {keys[row]!r}" if keys else ""
                kind = f"{kinds[row]} " if kinds and kinds[row] != "+I" else ""
                lines.append(f"= {kind}{value!r}{key}" + (f" @{times[row]}" if times else ""))
        return lines

    def snapshot(self):
        # Only a keyed run has state.
        return [task.snapshot() for task in self.tasks] if self.first else []

    def do(self, command):
        if isinstance(command, list):
            return self.push(command)
        if command == "snapshot":
            self.saved = self.snapshot()
        elif command == "finish":
            for task in self.tasks:
                task.finish()
            return [line for i in range(self.parallelism) for line in self.lines(i)]
        else:
            found = re.fullmatch(r"restore(?: parallelism=(\d+))?", command)
            if not found or self.saved is None:
                raise AssertionError(f"no such step here: {command}")
            self.start(int(found[1] or 1), self.saved)
        return []


def batch(harness, rows):
    """Rows of a table as a batch."""
    values, times, kinds = [], [], []
    for row in rows:
        found = re.fullmatch(r"(?:([+-][IUD]) )?(.*?)(?: @(-?\d+))?", row)
        values.append(eval(found[2], {"nan": float("nan")}))
        kinds.append(KINDS.index(found[1] or "+I"))
        times += [int(found[3])] if found[3] else []
    return harness.rows(values).with_times(times or None, kinds if any(kinds) else None)


def parse(text):
    """(lines, scenarios): a scenario is its operator and its steps, a step commands and the line it ends in."""
    lines = [line for line in text.splitlines() if not line.startswith("=")]
    scenarios, operator, fresh = [], None, True
    for number, line in enumerate(lines):
        if line.startswith(("operator: ", "scenario: ")):
            operator = line.removeprefix("operator: ") if line.startswith("o") else operator
            fresh = True
        elif line and not line.startswith("#"):
            if fresh:
                scenarios.append((operator, []))
                fresh = False
            steps = scenarios[-1][1]
            if not line.startswith("> "):
                steps.append([line.split("; "), number])
            elif steps and isinstance(steps[-1][0][0], list) and steps[-1][1] == number - 1:
                steps[-1][0][0].append(line[2:])
                steps[-1][1] = number
            else:
                steps.append([[[line[2:]]], number])
    return lines, scenarios


def outcome(scenario, rows_in_batch=None, restore_each=None):
    """The lines of every step."""
    operator, steps = scenario
    tasks, outcomes = Tasks(operator), []
    for commands, _ in steps:
        lines, parallel = [], tasks.parallelism > 1
        try:
            for command in commands:
                if isinstance(command, list) and rows_in_batch:
                    for at in range(0, len(command), rows_in_batch):
                        lines += tasks.do(command[at : at + rows_in_batch])
                else:
                    lines += tasks.do(command)
        except (ValueError, TypeError) as e:
            # Its last line: tracebacks are the business of test_errors.
            return [*outcomes, [*lines, "= error: " + str(e).splitlines()[-1]]]
        outcomes.append(sorted(lines) if parallel or tasks.parallelism > 1 else lines)
        if restore_each:
            tasks.start(restore_each, tasks.snapshot())
    return outcomes


class Tables(unittest.TestCase):
    maxDiff = None

    def check(self, path):
        text = path.read_text()
        lines, scenarios = parse(text)
        outcomes = [outcome(scenario) for scenario in scenarios]
        after = {}
        for (_, steps), found in zip(scenarios, outcomes):
            after |= {number: out for (_, number), out in zip(steps, found)}
        written = "".join(f"{line}\n" for n, first in enumerate(lines) for line in [first, *after.get(n, [])])
        if os.environ.get("UPDATE_EXPECT"):
            path.write_text(written)
        else:
            self.assertEqual(written, text)
        for scenario, expected in zip(scenarios, outcomes):
            for variation in ({"rows_in_batch": 1}, {"restore_each": 1}, {"restore_each": 3}):
                with self.subTest(operator=scenario[0], line=scenario[1][0][1] + 1, **variation):
                    found = outcome(scenario, **variation)
                    self.assertEqual([sorted(step) for step in found], [sorted(step) for step in expected])


for table in sorted(TABLES.glob("*.txt")):
    setattr(Tables, f"test_{table.stem}", lambda self, path=table: self.check(path))


if __name__ == "__main__":
    unittest.main()
