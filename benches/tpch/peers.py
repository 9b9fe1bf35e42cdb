#!/usr/bin/env python3
"""TPC-H or TPC-DS side by side: Weld, DataFusion, DuckDB and Polars over the same Parquet files, one query after the other.

    benches/tpch/peers.py --data data/tpch-sf1 --threads 1,2
    benches/tpch/peers.py --suite tpcds --threads 2

For each query every engine runs in turn: a first run that is not counted, then the median of the timed ones. DuckDB
and Polars run in processes of their own that live as long as the number of threads; `weld tpch run` measures Weld and
DataFusion, and verifies them against each other. README.md beside this file says what is measured and how.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUITES = {"tpch": "1-22", "tpcds": "1-99"}
PEERS = {"DuckDB": "duckdb==2.0.0", "Polars": "polars==2.1.0"}


def numbers(text):
    """The numbers in `1,3-5`."""
    ranges = [part.split("-") for part in text.split(",")]
    return [n for r in ranges for n in range(int(r[0]), int(r[-1]) + 1)]


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=SUITES, default="tpch")
    parser.add_argument("--data", type=Path, help="folder of the Parquet files [default: data/SUITE-sf1]")
    parser.add_argument("--scale-factor", "-s", type=float, default=1, help="the data's, made when it is absent")
    parser.add_argument("--queries", "-q", type=numbers, help="such as 1,6,12-15 [default: all]")
    parser.add_argument("--threads", "-t", type=numbers, default=[1, 2], help="such as 1,2")
    parser.add_argument("--iterations", "-i", type=int, default=5, help="timed runs of each query")
    parser.add_argument("--weld", type=Path, default=ROOT / "target" / "release" / "weld", help="the weld binary")
    parser.add_argument("--venv", type=Path, default=ROOT / "target" / "peers", help="where the peers are installed")
    parser.add_argument("--json", type=Path, help="append one object a measurement to this file")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.data = args.data or ROOT / "data" / f"{args.suite}-sf{args.scale_factor:g}"
    args.queries = args.queries or numbers(SUITES[args.suite])
    return args


def tables(data):
    return sorted(path.stem for path in data.glob("*.parquet"))


# --- A peer's process: a query's number on each line in, its times in milliseconds out. ---


def duckdb_runner(data, threads):
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    for table in tables(data):
        connection.execute(f"create view {table} as select * from read_parquet('{data / table}.parquet')")
    return lambda sql: connection.execute(sql).fetchall()


def polars_runner(data, threads):
    import polars

    assert polars.thread_pool_size() == threads
    context = polars.SQLContext({table: polars.scan_parquet(f"{data / table}.parquet") for table in tables(data)})
    return lambda sql: context.execute(sql).collect(engine="streaming")


def worker(args):
    run = {"DuckDB": duckdb_runner, "Polars": polars_runner}[args.worker](args.data, args.threads[0])
    for line in sys.stdin:
        sql = (ROOT / "queries" / args.suite / f"q{int(line)}.sql").read_text()
        try:
            times = []
            for _ in range(args.iterations + 1):
                start = time.perf_counter()
                run(sql)
                times.append((time.perf_counter() - start) * 1e3)
            print(json.dumps(times[1:]), flush=True)
        except Exception as error:  # A query that a peer cannot run is a gap in the table.
            print(json.dumps({"error": str(error).splitlines()[0]}), flush=True)


class Peer:
    def __init__(self, name, python, args, threads):
        command = [python, __file__, "--worker", name, "--suite", args.suite, "--data", args.data, "--threads", threads]
        command += ["--iterations", args.iterations]
        environment = os.environ | {"POLARS_MAX_THREADS": str(threads)}
        self.name = name
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def times(self, query):
        print(query, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, dict):
            print(f"q{query}: {self.name}: {answer['error']}", file=sys.stderr)
            return []
        return answer

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


# --- The measurement. ---


def install(folder):
    """A Python with the peers, installed from PyPI once."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS.values()], check=True)
    return python


def weld(args, query, threads):
    command = [args.weld, args.suite, "run", "--format", "json", "--data", args.data, "--queries", query]
    command += ["--scale-factor", args.scale_factor, "--partitions", threads, "--iterations", args.iterations]
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"q{query}: weld {args.suite} run failed: {result.stdout}")
    return json.loads(result.stdout)


def measure(args, python, threads):
    """One dictionary a query: engine to median time, or None."""
    peers = [Peer(name, python, args, threads) for name in PEERS]
    rows = []
    print(f"\n{threads} thread{'s' if threads > 1 else ''}, median of {args.iterations} runs, milliseconds")
    print(f"{'query':>7} {'Weld':>9} {'DataFusion':>11}" + "".join(f"{p.name:>9}" for p in peers) + "  DataFusion/Weld  best peer/Weld")
    for query in args.queries:
        report = weld(args, query, threads)
        times = {"Weld": report["weld_ms"], "DataFusion": report["datafusion_ms"]}
        times |= {peer.name: peer.times(query) for peer in peers}
        row = {name: statistics.median(ms) if ms else None for name, ms in times.items()}
        rows.append(row)
        print(line(f"q{query}", row), flush=True)
        if args.json:
            with args.json.open("a") as file:
                print(json.dumps({"query": query, "threads": threads, "times_ms": times}), file=file)
    for peer in peers:
        peer.stop()
    complete = [row for row in rows if None not in (row["Weld"], row["DataFusion"]) and any(row[name] for name in PEERS)]
    if complete:
        # An engine that cannot run a query has no mean.
        logs = lambda name: [math.log(row[name]) for row in complete if row[name]]
        mean = {n: math.exp(statistics.mean(logs(n))) if len(logs(n)) == len(complete) else None for n in complete[0]}
        print(line("geomean", mean, statistics.geometric_mean(best(row) / row["Weld"] for row in complete)))


def best(row):
    """The fastest of the other engines but DataFusion."""
    return min((row[name] for name in PEERS if row[name] is not None), default=math.nan)


def line(title, row, against_best=None):
    cell = lambda ms: "-" if ms is None else f"{ms:.1f}"
    against_best = against_best or best(row) / row["Weld"]
    peers = "".join(f"{cell(row[name]):>9}" for name in PEERS)
    ratios = f"{row['DataFusion'] / row['Weld']:>16.2f}x {against_best:>14.2f}x"
    return f"{title:>7} {cell(row['Weld']):>9} {cell(row['DataFusion']):>11}{peers}{ratios}"


def main():
    args = options()
    if args.worker:
        return worker(args)
    if not args.weld.exists():
        sys.exit(f"{args.weld} is missing: `make build` makes it, --weld names another")
    python = install(args.venv)
    weld(args, 6, 1)  # Makes the data when it is absent.
    for threads in args.threads:
        measure(args, python, threads)


if __name__ == "__main__":
    main()
