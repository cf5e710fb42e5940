"""Compute the demo's answer with DuckDB and compare flott's with it, row by row.

Per origin airport and scheduled hour: departures, cancellations, mean departure delay in minutes of those that left.
Counts must be equal, means within a relative 1e-9. Exit code 1 and the first differences otherwise.

    python scripts/check_flights.py [RESULT] [--input FLIGHTS]

RESULT is a CSV file or a folder of them, with a header each. Needs duckdb (scripts/requirements-test.txt).
"""

import argparse
import csv
import math
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "target" / "demo"
COLUMNS = ["origin", "window_start", "departures", "cancellations", "mean_dep_delay"]
SHOWN = 10

QUERY = """
    SELECT origin,
           strftime(time_bucket(INTERVAL 1 HOUR, time_hour), '%Y-%m-%d %H:%M:%S'),
           count(dep_time),
           count(*) - count(dep_time),
           avg(dep_delay) FILTER (dep_time IS NOT NULL)
    FROM read_csv(?, header = true, nullstr = 'NA', columns = {
        'year': 'INT', 'month': 'INT', 'day': 'INT', 'dep_time': 'INT', 'sched_dep_time': 'INT', 'dep_delay': 'DOUBLE',
        'arr_time': 'INT', 'sched_arr_time': 'INT', 'arr_delay': 'DOUBLE', 'carrier': 'VARCHAR', 'flight': 'INT',
        'tailnum': 'VARCHAR', 'origin': 'VARCHAR', 'dest': 'VARCHAR', 'air_time': 'DOUBLE', 'distance': 'DOUBLE',
        'hour': 'INT', 'minute': 'INT', 'time_hour': 'TIMESTAMP'})
    GROUP BY ALL
"""


def main():
    parser = argparse.ArgumentParser(description="Compare the demo's result with DuckDB's.")
    parser.add_argument("result", nargs="?", type=Path, default=DEMO / "result")
    parser.add_argument("--input", type=Path, default=DEMO / "flights.csv")
    arguments = parser.parse_args()
    ours, repeated = read_result(arguments.result)
    theirs = ask_duckdb(arguments.input)
    differences = repeated + [line for key in sorted(ours.keys() | theirs.keys()) for line in compare(key, ours, theirs)]
    if differences:
        print("\n".join(differences[:SHOWN]))
        sys.exit(f"check_flights: {len(differences)} differences in {len(theirs)} windows, the first {SHOWN} above")
    print(f"check_flights: {len(theirs)} windows equal DuckDB's")


def ask_duckdb(path):
    try:
        import duckdb
    except ImportError:
        sys.exit("check_flights: no duckdb in this Python; `make venv` makes one that has it")
    if not path.is_file():
        sys.exit(f"check_flights: {path} is missing; `make flights` fetches it")
    # time_hour ends in Z; read as a plain TIMESTAMP it stays in UTC, whatever this machine's time zone.
    rows = duckdb.connect().execute(QUERY, [str(path)]).fetchall()
    return {(origin, start): (departures, cancelled, mean) for origin, start, departures, cancelled, mean in rows}


def read_result(path):
    """The windows of one CSV file or of a folder's, and a line for each one that occurs twice."""
    files = sorted(path.glob("**/*.csv")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        sys.exit(f"check_flights: no CSV file at {path}; `make demo` writes it")
    windows, repeated = {}, []
    for file in files:
        with file.open(newline="") as lines:
            rows = csv.reader(lines)
            header = next(rows, None)
            if header != COLUMNS:
                sys.exit(f"check_flights: {file}: columns are {header}, expected {COLUMNS}")
            for row in rows:
                try:
                    origin, start, departures, cancelled, mean = row
                    answer = (int(departures), int(cancelled), float(mean) if mean else None)
                except ValueError as error:
                    sys.exit(f"check_flights: {file}:{rows.line_num}: {error}")
                if (origin, start) in windows:
                    repeated.append(f"{origin} {start}: twice, again at {file}:{rows.line_num}")
                windows[origin, start] = answer
    return windows, repeated


def compare(key, ours, theirs):
    name = " ".join(key)
    if key not in ours:
        return [f"{name}: missing, DuckDB has {theirs[key]}"]
    if key not in theirs:
        return [f"{name}: flott has {ours[key]}, DuckDB has no such window"]
    (*counts, mean), (*their_counts, their_mean) = ours[key], theirs[key]
    same = counts == their_counts and (
        mean == their_mean or (None not in (mean, their_mean) and math.isclose(mean, their_mean, rel_tol=1e-9))
    )
    return [] if same else [f"{name}: flott has {ours[key]}, DuckDB has {theirs[key]}"]


if __name__ == "__main__":
    main()
