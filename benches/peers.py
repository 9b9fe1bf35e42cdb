#!/usr/bin/env python3
"""Benchmarks side by side: Weld, DataFusion, DuckDB and Polars over the same Parquet files, one query after the other.

    benches/peers.py --data data/tpch-sf1 --threads 1,2
    benches/peers.py --suite clickbench --threads 2
    benches/peers.py --data data/sales --queries reports/ -q daily,top10
    benches/peers.py --suite tpch --storage weld --threads 2

A suite is one of the `weld` command's, which makes the data when it is absent; with --queries it is anybody's files, each
a table, and anybody's .sql files. For each query every engine runs in turn: a first run that is not counted, then the
median of the timed ones. DuckDB and Polars run in processes of their own that live as long as the number of threads; the
`weld` command measures Weld and DataFusion, and verifies them against each other. With --storage the files are loaded before:
DuckDB and Polars have them in tables and data frames of their own, DataFusion in tables of record batches, Weld in those (memory)
or in its own tables (weld). What an engine cannot run is a gap.
tpch/README.md says what is measured and how.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = {"tpch": 22, "tpcds": 99, "h2o": 15, "clickbench": 43}
PEERS = {"DuckDB": "duckdb==2.0.0", "Polars": "polars==2.1.0"}
# DuckDB gives its results as Arrow tables with it.
OTHERS = ["pyarrow==26.0.1"]


def numbers(text):
    """The numbers in `1,3-5`."""
    ranges = [part.strip().lower().removeprefix("q").split("-") for part in text.split(",")]
    return [n for r in ranges for n in range(int(r[0]), int(r[-1]) + 1)]


def queries_of_folder(folder):
    """The names of the .sql files, q2 before q10."""
    natural = lambda name: [(len(part), part) if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
    return sorted((path.stem for path in folder.glob("*.sql")), key=natural)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=SUITES, default="tpch")
    parser.add_argument("--data", type=Path, help="folder of the Parquet files [default: data/SUITE-sf1]")
    parser.add_argument("--scale-factor", "-s", type=float, default=1, help="the data's, made when it is absent")
    parser.add_argument("--queries", type=Path, help="folder of .sql files to run over --data instead of a suite")
    parser.add_argument("--only", "-q", help="numbers of a suite's queries, such as 1,6,12-15, or names of files [default: all]")
    parser.add_argument("--threads", "-t", type=numbers, default=[1, 2], help="such as 1,2")
    parser.add_argument("--iterations", "-i", type=int, default=5, help="timed runs of each query")
    parser.add_argument("--storage", choices=["parquet", "memory", "weld"], default="parquet", help="tables [default: parquet]")
    parser.add_argument("--weld", type=Path, default=ROOT / "target" / "release" / "weld", help="the weld binary")
    parser.add_argument("--venv", type=Path, default=ROOT / "target" / "peers", help="where the peers are installed")
    parser.add_argument("--json", type=Path, help="append one object a measurement to this file")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.queries and not args.data:
        parser.error("--queries needs --data")
    args.is_own = args.queries is not None
    args.data = args.data or ROOT / "data" / f"{args.suite}-sf{args.scale_factor:g}"
    args.queries = args.queries or ROOT / "queries" / args.suite
    if args.is_own:
        given = (args.only or "").split(",")
        args.names = [name.strip().removesuffix(".sql") for name in given if name] or queries_of_folder(args.queries)
    else:
        args.names = [f"q{n}" for n in (numbers(args.only) if args.only else range(1, SUITES[args.suite] + 1))]
    return args


def tables(data):
    """Each Parquet file by its name, and each folder of them."""
    files = {path.stem: path for path in data.glob("*.parquet") if path.is_file()}
    return files | {path.name: path / "*.parquet" for path in data.iterdir() if any(path.glob("*.parquet"))}


# --- A peer's process: a query's name on each line in, its times in milliseconds and its number of rows out. ---


def duckdb_runner(data, threads, is_loaded):
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    for table, path in tables(data).items():
        quoted = str(path).replace("'", "''")
        kind = "table" if is_loaded else "view"
        connection.execute(f"""create {kind} "{table}" as select * from read_parquet('{quoted}')""")
    return lambda sql: connection.sql(sql).to_arrow_table().num_rows


def polars_runner(data, threads, is_loaded):
    import polars

    assert polars.thread_pool_size() == threads
    read = polars.read_parquet if is_loaded else polars.scan_parquet
    context = polars.SQLContext({table: read(path) for table, path in tables(data).items()})
    return lambda sql: context.execute(sql).collect(engine="streaming").height


def worker(args):
    run = {"DuckDB": duckdb_runner, "Polars": polars_runner}[args.worker]
    run = run(args.data, args.threads[0], args.storage != "parquet")
    for line in sys.stdin:
        try:
            sql = (args.queries / f"{line.rstrip()}.sql").read_text()
            times = []
            for _ in range(args.iterations + 1):
                start = time.perf_counter()
                rows = run(sql)
                times.append((time.perf_counter() - start) * 1e3)
            answer = {"ms": times[1:], "rows": rows}
        # A query that a peer cannot run is a gap in the table. Polars panics with what is no Exception.
        except BaseException as error:
            answer = {"error": (str(error).splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), flush=True)


class Peer:
    def __init__(self, name, python, args, threads):
        command = [python, __file__, "--worker", name, "--data", args.data, "--queries", args.queries]
        command += ["--threads", threads, "--iterations", args.iterations, "--storage", args.storage]
        self.name, self.command = name, list(map(str, command))
        self.environment = os.environ | {"POLARS_MAX_THREADS": str(threads)}
        self.start()

    def start(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True, env=self.environment)

    def times(self, query, rows):
        """The times of a query, which should give so many rows."""
        answer = self.answer(query)
        if "error" in answer:
            print(f"{query}: {self.name}: {answer['error']}", file=sys.stderr)
        elif rows not in (None, answer["rows"]):
            print(f"{query}: {self.name}: {answer['rows']} rows, where Weld gives {rows}", file=sys.stderr)
        return answer.get("ms", [])

    def answer(self, query):
        try:
            print(query, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.start()
        return {"error": f"the process ended with {code}"}

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


# --- The measurement. ---


def install(folder):
    """A Python with the peers, installed from PyPI once."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS.values(), *OTHERS], check=True)
    return python


def weld(args, query, threads, iterations):
    """The report of `weld`; of a query that cannot be run or whose answers differ, one without times."""
    if args.is_own:
        command = [args.weld, "bench", args.data, "--queries", args.queries]
    else:
        command = [args.weld, args.suite, "run", "--data", args.data, "--scale-factor", args.scale_factor]
    command += ["--format", "json", f"-q={query}", "--partitions", threads, "--iterations", iterations]
    command += ["--storage", args.storage]
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if not result.stdout:
        sys.exit(f"{query}: the weld command failed")
    report = json.loads(result.stdout)
    if "error" in report:
        print(f"{query}: {report['error']}", file=sys.stderr)
        report |= {"weld_ms": [], "datafusion_ms": [], "rows": None}
    return report


def measure(args, python, threads):
    """One dictionary a query: engine to median time, or None."""
    peers = [Peer(name, python, args, threads) for name in PEERS]
    rows = []
    width = max(map(len, [*args.names, "geomean"]))
    print(f"\n{threads} thread{'s' if threads > 1 else ''}, median of {args.iterations} runs, milliseconds")
    names = "".join(f"{peer.name:>9}" for peer in peers)
    print(f"{'query':>{width}} {'Weld':>9} {'DataFusion':>11}{names}  DataFusion/Weld  best peer/Weld")
    for query in args.names:
        report = weld(args, query, threads, args.iterations)
        times = {"Weld": report["weld_ms"], "DataFusion": report["datafusion_ms"]}
        times |= {peer.name: peer.times(query, report["rows"]) for peer in peers}
        row = {name: statistics.median(ms) if ms else None for name, ms in times.items()}
        rows.append(row)
        print(line(query, row, width), flush=True)
        if args.json:
            with args.json.open("a") as file:
                suite = str(args.queries) if args.is_own else args.suite
                measured = {"suite": suite, "query": report["query"], "threads": threads, "times_ms": times}
                print(json.dumps(measured), file=file)
    for peer in peers:
        peer.stop()
    complete = [row for row in rows if None not in (row["Weld"], row["DataFusion"]) and any(row[name] for name in PEERS)]
    if complete:
        # An engine that cannot run a query has no mean.
        logs = lambda name: [math.log(row[name]) for row in complete if row[name]]
        mean = {n: math.exp(statistics.mean(logs(n))) if len(logs(n)) == len(complete) else None for n in complete[0]}
        print(line("geomean", mean, width, statistics.geometric_mean(best(row) / row["Weld"] for row in complete)))


def best(row):
    """The fastest of the other engines but DataFusion."""
    return min((row[name] for name in PEERS if row[name] is not None), default=math.nan)


def line(title, row, width, against_best=None):
    cell = lambda ms: "-" if ms is None else f"{ms:.1f}"
    ratio = lambda times: "-" if times is None or math.isnan(times) else f"{times:.2f}x"
    over_weld = lambda ms: None if None in (ms, row["Weld"]) else ms / row["Weld"]
    against_best = against_best or over_weld(best(row))
    peers = "".join(f"{cell(row[name]):>9}" for name in PEERS)
    ratios = f"{ratio(over_weld(row['DataFusion'])):>17} {ratio(against_best):>15}"
    return f"{title:>{width}} {cell(row['Weld']):>9} {cell(row['DataFusion']):>11}{peers}{ratios}"


def main():
    args = options()
    if args.worker:
        return worker(args)
    if not args.names:
        sys.exit(f"{args.queries}: no .sql file in this folder")
    if not args.weld.exists():
        sys.exit(f"{args.weld} is missing: `make build` makes it, --weld names another")
    python = install(args.venv)
    weld(args, args.names[0], 1, 1)  # Makes the data of a suite when it is absent.
    for threads in args.threads:
        measure(args, python, threads)


if __name__ == "__main__":
    main()
