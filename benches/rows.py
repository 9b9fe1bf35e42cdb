#!/usr/bin/env python3
"""The work of plans in rows: Weld, DataFusion and DuckDB over the same Parquet files, whatever the machine is busy with.

    benches/rows.py --suite tpcds
    benches/rows.py --suite tpch -q 2,20 --json rows.json
    benches/rows.py --suite tpcds --set weld.key_filters=false --before rows.json
    benches/rows.py --suite tpcds --without-statistics        # how stable plans are: the same files without min and max

For each query and engine three counts, by EXPLAIN ANALYZE:

    out    rows that joins and aggregates give
    built  rows in hash tables: build sides of joins, and groups
    in     rows that probe, and rows that are grouped

A partial and a final aggregate are one: the rows that enter the first, the groups that leave the second. Compiled pipelines
count no rows between their operators, so Weld's plan runs on DataFusion's operators here, with Weld's scan, and in one
partition: exchanges begin to read before the filters by the keys of joins are known. What is compared with the other engines
is the sum of the three. With --before only queries are shown whose counts have changed.
"""

import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import peers

UNITS = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9}
NOT_COMPILED = [f"weld.{operator}=false" for operator in ("filter", "projection", "aggregate", "join", "window", "sort")]


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=("tpch", "tpcds"), default="tpch")
    parser.add_argument("--data", type=Path, help="folder of the Parquet files [default: data/SUITE-sf1]")
    parser.add_argument("--only", "-q", help="numbers of queries, such as 1,6,12-15 [default: all]")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of Weld's run")
    parser.add_argument("--without-statistics", action="store_true", help="over copies of the files that have none")
    parser.add_argument("--engines", default="Weld,DataFusion,DuckDB", help="those to run, Weld first")
    parser.add_argument("--weld", type=Path, default=peers.ROOT / "target" / "release" / "weld", help="the weld binary")
    parser.add_argument("--venv", type=Path, default=peers.ROOT / "target" / "peers", help="where DuckDB is installed")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--before", type=Path, help="compare with such a file; engines that do not run are taken from it")
    args = parser.parse_args()
    args.data = args.data or peers.ROOT / "data" / f"{args.suite}-sf1"
    args.engines = args.engines.split(",")
    args.is_own, args.scale_factor = False, 1
    numbers = peers.numbers(args.only) if args.only else range(1, peers.SUITES[args.suite] + 1)
    args.queries = [f"q{number}" for number in numbers]
    return args


class Rows:
    """What joins and aggregates give, build and take."""

    def __init__(self):
        self.out = self.built = self.taken = 0

    def join(self, built, probed, out):
        self.built, self.taken, self.out = self.built + built, self.taken + probed, self.out + out

    def aggregate(self, taken, groups):
        self.built, self.taken, self.out = self.built + groups, self.taken + taken, self.out + groups

    def counts(self):
        return [round(self.out), round(self.built), round(self.taken)]


# --- DataFusion's plan as text: an operator a line, indented. ---


def operators(plan):
    """(name, line, rows or None, children) of the topmost operators."""
    above = [(-1, (None, None, None, []))]
    for line in filter(str.strip, plan.splitlines()):
        depth = len(line) - len(line.lstrip())
        rows = re.search(r"\boutput_rows=([\d.]+) ?([KMB]?)\b", line)
        operator = (line.split()[0].rstrip(":,"), line, rows and float(rows[1]) * UNITS[rows[2]], [])
        while above[-1][0] >= depth:
            above.pop()
        above[-1][1][3].append(operator)
        above.append((depth, operator))
    return above[0][1][3]


def rows_of(operator):
    """Of an operator that counts none, those of its input."""
    _, _, rows, children = operator
    return rows if rows is not None else rows_of(children[0]) if children else 0


def count_datafusion(operator, rows):
    name, line, _, children = operator
    for child in children:
        count_datafusion(child, rows)
    if name.endswith("JoinExec"):
        rows.join(rows_of(children[0]), rows_of(children[1]), rows_of(operator))
    elif name == "AggregateExec" and "mode=Partial" in line:
        rows.taken += rows_of(children[0])
    elif name == "AggregateExec":
        taken = 0 if "mode=Final" in line else rows_of(children[0])
        rows.aggregate(taken, rows_of(operator))


def datafusion(args, query, engine, settings):
    sql = (peers.ROOT / "queries" / args.suite / f"{query}.sql").read_text().rstrip().rstrip(";")
    statements = "".join(f"SET {setting.replace('=', ' = ', 1)};" for setting in settings)
    command = [args.weld, "sql", args.data, "--engine", engine, "--partitions", 1, "--format", "csv"]
    command += ["--no-cache", "-c", f"{statements} EXPLAIN ANALYZE {sql}"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if result.returncode:
        print(f"{query}: {result.stderr.strip()}", file=sys.stderr)
        return None
    rows = Rows()
    csv.field_size_limit(sys.maxsize)
    for line in csv.reader(io.StringIO(result.stdout)):
        if line and line[0] == "Plan with Metrics":
            for operator in operators(line[1]):
                count_datafusion(operator, rows)
    return rows.counts()


# --- DuckDB's plan as JSON. The first input of its joins probes, the second is built. ---


def given_by(node):
    """Rows of an operator; a table expression is made by its first child and read in its last."""
    return given_by(node["children"][-1]) if node["type"] == "CTE" else node["intermediate_rows"]


def count_duckdb(node, rows):
    children = node.get("children", [])
    for child in children:
        count_duckdb(child, rows)
    if node["type"].endswith(("_JOIN", "_PRODUCT")) and len(children) == 2:
        rows.join(given_by(children[1]), given_by(children[0]), given_by(node))
    elif node["type"].endswith(("_GROUP_BY", "_AGGREGATE")):
        rows.aggregate(given_by(children[0]), given_by(node))


def duckdb_counter(args):
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    for table, path in peers.tables(args.data).items():
        quoted = str(path).replace("'", "''")
        connection.execute(f"""create view "{table}" as select * from read_parquet('{quoted}')""")

    def count(query):
        sql = (peers.ROOT / "queries" / args.suite / f"{query}.sql").read_text()
        try:
            plan = connection.execute(f"explain (analyze, format json) {sql}").fetchall()[0][1]
        except duckdb.Error as error:
            print(f"{query}: {str(error).splitlines()[0]}", file=sys.stderr)
            return None
        rows = Rows()
        for node in json.loads(plan)["operator"]:
            count_duckdb(node, rows)
        return rows.counts()

    return count


# --- The table. ---


def short(count):
    for unit, size in (("M", 1e6), ("K", 1e3)):
        if count >= size:
            return f"{count / size:.3g}{unit}" if count < 1e3 * size else f"{count / size:.0f}{unit}"
    return f"{count:.0f}"


def line(query, of, before):
    triple = lambda counts: "/".join(map(short, counts)) if counts else "-"
    ratio = lambda a, b: f"{sum(a) / max(sum(b), 1):.2f}x" if a and b else "-"
    weld, stock, duckdb = (of.get(engine) for engine in ("Weld", "DataFusion", "DuckDB"))
    last = f" {triple(before):>20} {ratio(weld, before):>9}" if before else ""
    cells = f"{triple(weld):>20} {triple(stock):>20} {triple(duckdb):>20} {ratio(weld, stock):>9} {ratio(weld, duckdb):>9}"
    return f"{query:>5} {cells}{last}"


def without_statistics(data, copies):
    """The folder `copies` with the files of `data`, their values and row groups, but no statistics: made once."""
    import pyarrow.parquet as parquet

    copies.mkdir(parents=True, exist_ok=True)
    for path in data.glob("*.parquet"):
        if (copies / path.name).exists():
            continue
        file, part = parquet.ParquetFile(path), copies / f"{path.name}.part"
        with parquet.ParquetWriter(part, file.schema_arrow, write_statistics=False, store_decimal_as_integer=True) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group), row_group_size=file.metadata.row_group(group).num_rows)
        part.rename(copies / path.name)
    return copies


def main():
    args = options()
    if Path(sys.prefix).resolve() != args.venv.resolve():
        python = peers.install(args.venv)
        os.execv(python, [python, *sys.argv])
    if not args.data.exists():
        peers.weld(args, args.queries[0], 1, 1)  # Makes the data.
    if args.without_statistics:
        args.data = without_statistics(args.data, args.venv / f"{args.data.name}-without-statistics")
    before = json.loads(args.before.read_text()) if args.before else {}
    counters = {
        "Weld": lambda query: datafusion(args, query, "weld", NOT_COMPILED + args.set),
        "DataFusion": lambda query: datafusion(args, query, "datafusion", []),
    }
    if "DuckDB" in args.engines:
        counters["DuckDB"] = duckdb_counter(args)
    print("rows out/built/in of joins and aggregates")
    last = f" {'before':>20} {'W/before':>9}" if before else ""
    print(f"{'':>5} {'Weld':>20} {'DataFusion':>20} {'DuckDB':>20} {'W/DF':>9} {'W/DuckDB':>9}{last}")
    counts = {}
    for query in args.queries:
        known = before.get(query, {})
        counts[query] = of = known | {engine: counters[engine](query) for engine in args.engines}
        if not before or of.get("Weld") != known.get("Weld"):
            print(line(query, of, known.get("Weld")), flush=True)
        if args.json:
            args.json.write_text(json.dumps(counts, indent=0))
    both = [of for of in counts.values() if of.get("Weld") and of.get("DuckDB")]
    more = sum(sum(of["Weld"]) > 2 * sum(of["DuckDB"]) for of in both)
    print(f"{more} of {len(both)} queries take more than twice DuckDB's rows")


if __name__ == "__main__":
    main()
