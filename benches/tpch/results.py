#!/usr/bin/env python3
"""Measures Weld against stock DataFusion and writes the table into the README.

    make build && benches/tpch/results.py

Runs `weld tpch run` over Parquet and in memory and replaces what stands between the two markers in README.md. It fails,
and writes nothing, when an answer differs. The machine should have nothing else to do.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weld", type=Path, default=ROOT / "target" / "release" / "weld", help="the weld binary")
    parser.add_argument("--data", type=Path, help="folder of the Parquet files")
    parser.add_argument("--scale-factor", "-s", default="1")
    parser.add_argument("--partitions", "-p", default="2")
    parser.add_argument("--iterations", "-i", default="5")
    return parser.parse_args()


def run(args, storage, *more):
    """One object a query."""
    command = [args.weld, "tpch", "run", "--format", "json", "--storage", storage]
    command += ["--scale-factor", args.scale_factor, "--partitions", args.partitions, "--iterations", args.iterations]
    command += ["--data", args.data] if args.data else []
    command += more
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"weld tpch run failed:\n{result.stdout}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def row(title, cells):
    return "| " + " | ".join([title, *cells]) + " |"


def times(report):
    datafusion, weld = statistics.median(report["datafusion_ms"]), statistics.median(report["weld_ms"])
    return datafusion, weld, datafusion / weld


def table(parquet, memory, first):
    head = ["query"]
    for title in ("Parquet", "memory", "first run"):
        head += [f"{title}: DataFusion", "Weld", "ratio"]
    head += ["compiled", "compile"]
    lines = [row(head[0], head[1:]), row("---", ["--:"] * (len(head) - 1))]
    for left, *others in zip(parquet, memory, first):
        cells = []
        for datafusion, weld, ratio in map(times, (left, *others)):
            cells += [f"{datafusion:.1f}", f"{weld:.1f}", f"{ratio:.2f}x"]
        cells += [f"{left['operators_compiled']}/{left['operators_total']}", f"{left['compile_ms']:.0f}"]
        lines.append(row(f"Q{left['query']}", cells))
    cells = []
    for reports in (parquet, memory, first):
        means = [statistics.geometric_mean(column) for column in zip(*map(times, reports))]
        cells += [f"{means[0]:.1f}", f"{means[1]:.1f}", f"**{means[2]:.2f}x**"]
    return lines + [row("geometric mean", cells + ["", ""])]


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    args = options()
    parquet, memory, first = run(args, "parquet"), run(args, "memory"), run(args, "parquet", "--cold")
    verified = sum(report["verified"] for report in parquet + memory)
    text = [
        "## Results",
        "",
        f"TPC-H, scale factor {args.scale_factor}, against stock DataFusion 55.2: milliseconds from SQL text to the last row,",
        f"medians of {args.iterations} alternating runs after a first one, {args.partitions} partitions and threads, both "
        "engines in one process with",
        f"one allocator. {verified} of {len(parquet + memory)} runs of a query on both engines gave the same answers. "
        "*first run*: over Parquet,",
        "each run the first of a process of its own. *compiled*: how many of the plan's operators ran as native code in the last",
        "warm run over Parquet, the others on DataFusion's operators over Weld's scan and plans, where compiling was not expected to",
        "pay; *compile*: the time that was spent on that code, a sum over threads, in milliseconds.",
        f"Machine: {os.cpu_count()} x {processor()}. Command: `make build && benches/tpch/results.py`.",
        "",
        *table(parquet, memory, first),
    ]
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(before + BEGIN + "\n" + "\n".join(text) + "\n" + END + after)


if __name__ == "__main__":
    main()
