#!/usr/bin/env python3
"""Ask Apache Flink what flott's SQL must answer, and write it down as golden files.

    python3 scripts/record_sql_golden.py PYTHON [FILE ...]

PYTHON is the interpreter of a virtual environment with `apache-flink==2.3.0` (it needs Java 17, and 1.2 GB):

    python3 -m venv ~/flink && ~/flink/bin/pip install apache-flink==2.3.0

FILE is one of crates/testing/tests/golden/sql/*.txt; without one all are recorded again. A file is written by hand up
to its queries; this script replaces what stands under `=== columns` and `=== result`, which only ever comes from
Flink. `cargo test -p flott-testing golden` compares; it needs no Flink.

A golden file:

    Apache Flink 2.3.0
    === table            the columns of the table `t`, as CREATE TABLE has them
    === options          further options of the CSV format (may be missing)
    === rows             the file that the table reads
    === query            any number of queries, each followed by what Flink says:
    === columns          names and types, one a line
    === result           one JSON array a row, sorted; or `error: ` and the reason
    === ours             rows of flott, where they differ on purpose (may be missing)
    === because          why
"""

import decimal
import json
import pathlib
import subprocess
import sys
import tempfile

VERSION = "Apache Flink 2.3.0"
FOLDER = pathlib.Path(__file__).parent.parent / "crates" / "testing" / "tests" / "golden" / "sql"


def sections(text):
    """[(title, body)], the first without a title."""
    parts, title, lines = [], None, []
    for line in text.splitlines():
        if line.startswith("=== "):
            parts.append((title, "\n".join(lines)))
            title, lines = line[4:], []
        else:
            lines.append(line)
    return parts + [(title, "\n".join(lines))]


def plain(value):
    """A value as JSON that keeps its type's digits: all but whole numbers and booleans is text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    kind, text = value.getClass().getSimpleName(), value.toString()
    if kind == "BigDecimal":
        return value.toPlainString()
    if kind == "LocalDate":
        return text
    if kind == "LocalDateTime":
        # Java leaves out what is zero.
        day, time = text.split("T")
        time, _, fraction = (time if time.count(":") == 2 else f"{time}:00").partition(".")
        return f"{day} {time}.{fraction:0<6}"
    raise TypeError(f"no form for {kind}: {text}")


def reason(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    return "error: " + (causes[-1] if causes else (lines or [type(error).__name__])[0])


def answer(env, query):
    try:
        table = env.sql_query(query)
        schema = table._j_table.getResolvedSchema()
        columns = [f"{c.getName()} {c.getDataType().getLogicalType().asSummaryString()}" for c in schema.getColumns()]
        # Java's own values: on their way through Python's rows some would change.
        rows, lines = table._j_table.execute().collect(), []
        while rows.hasNext():
            row = rows.next()
            if row.getKind().shortString() != "+I":
                raise ValueError(f"a row of kind {row.getKind().shortString()}")
            lines.append(json.dumps([plain(row.getField(i)) for i in range(row.getArity())], ensure_ascii=False))
        return "\n".join(columns), "\n".join(sorted(lines))
    except Exception as error:  # what Flink refuses is an answer too
        return "", reason(error)


def record(file):
    from pyflink.table import EnvironmentSettings, TableEnvironment

    parts = sections(file.read_text(encoding="utf-8"))
    given = dict(parts)
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")
    env.get_config().set("table.local-time-zone", "UTC")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.csv"
        path.write_text(given["rows"] + "\n", encoding="utf-8")
        options = given.get("options", "").strip()
        options = f", {options}" if options else ""
        env.execute_sql(
            f"CREATE TABLE t ({given['table']}) WITH ('connector' = 'filesystem', "
            f"'path' = 'file://{path}', 'format' = 'csv'{options})"
        )
        out = []
        for title, body in parts:
            if title is None:
                out.append(f"{VERSION}\n" + "\n".join(body.splitlines()[1:]).rstrip())
            elif title == "query":
                columns, rows = answer(env, body)
                out += [f"=== query\n{body.rstrip()}", f"=== columns\n{columns}".rstrip(), f"=== result\n{rows}".rstrip()]
                print(f"{file.name}: {rows.count(chr(10)) + 1} rows" if not rows.startswith("error") else rows)
            elif title not in ("columns", "result"):
                out.append(f"=== {title}\n{body.rstrip()}")
    file.write_text("\n".join(part.rstrip() for part in out) + "\n", encoding="utf-8")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if sys.argv[1] != "--here":
        sys.exit(subprocess.call([sys.argv[1], __file__, "--here", *sys.argv[2:]]))
    import importlib.metadata

    found = importlib.metadata.version("apache-flink")
    if not VERSION.endswith(" " + found):
        sys.exit(f"expected {VERSION}, found apache-flink {found}")
    files = [pathlib.Path(name) for name in sys.argv[2:]] or sorted(FOLDER.glob("*.txt"))
    for file in files:
        record(file)


if __name__ == "__main__":
    main()
