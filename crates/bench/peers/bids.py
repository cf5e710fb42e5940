"""One of the bid queries by DuckDB or DataFusion, timed; prints one line of JSON.

    bids.py duckdb|datafusion pass|tumble FILE THREADS

pass parses every column of every row and takes each one's MAX; tumble counts rows per auction and window of 10 s and
counts what comes out. Needs the virtual environment of `make venv`.
"""

import json
import os
import resource
import sys
import time

TUMBLE = "SELECT count(*), sum(n) FROM (SELECT {window} AS w, auction, count(*) AS n FROM bids GROUP BY 1, 2)"
PASS = "SELECT count(*), max(auction), max(bidder), max(price), max(ts) FROM bids"
COLUMNS = ["auction", "bidder", "price", "ts"]


def duckdb_query(query, path, threads):
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    types = {name: "BIGINT" for name in COLUMNS[:3]} | {"ts": "TIMESTAMP"}
    bids = f"read_csv('{path}', header = false, delim = ',', auto_detect = false, columns = {types})"
    sql = PASS if query == "pass" else TUMBLE.format(window="time_bucket(INTERVAL 10 SECONDS, ts)")
    return f"DuckDB {duckdb.__version__}", lambda: connection.execute(sql.replace("bids", bids)).fetchone()[0]


def datafusion_query(query, path, threads):
    import datafusion
    import pyarrow

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    types = [pyarrow.int64()] * 3 + [pyarrow.timestamp("ms")]
    schema = pyarrow.schema([pyarrow.field(*column) for column in zip(COLUMNS, types)])
    context.register_csv("bids", path, schema=schema, has_header=False)
    sql = PASS if query == "pass" else TUMBLE.format(window="date_bin(INTERVAL '10 seconds', ts)")
    return f"DataFusion {datafusion.__version__}", lambda: context.sql(sql).collect()[0].column(0)[0].as_py()


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    peer, query, path, threads = sys.argv[1:]
    # Threads that an engine keeps beside those it was asked for must not help.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    prepare = {"duckdb": duckdb_query, "datafusion": datafusion_query}[peer]
    version, run = prepare(query, path, int(threads))
    cpu, begun = cpu_seconds(), time.monotonic()
    rows = run()
    seconds, cpu = time.monotonic() - begun, cpu_seconds() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_rss_bytes": peak, "rows_out": rows, "version": version}))


if __name__ == "__main__":
    main()
