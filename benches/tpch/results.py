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


def run(args, storage):
    """One object a query."""
    command = [args.weld, "tpch", "run", "--format", "json", "--storage", storage]
    command += ["--scale-factor", args.scale_factor, "--partitions", args.partitions, "--iterations", args.iterations]
    command += ["--data", args.data] if args.data else []
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"weld tpch run failed:\n{result.stdout}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def row(title, cells):
    return "| " + " | ".join([title, *cells]) + " |"


def times(report):
    datafusion, weld = statistics.median(report["datafusion_ms"]), statistics.median(report["weld_ms"])
    return datafusion, weld, datafusion / weld


def table(parquet, memory):
    head = ["query", "Parquet: DataFusion", "Weld", "ratio", "memory: DataFusion", "Weld", "ratio", "compiled", "compile"]
    lines = [row(head[0], head[1:]), row("---", ["--:"] * (len(head) - 1))]
    for left, right in zip(parquet, memory):
        cells = []
        for datafusion, weld, ratio in (times(left), times(right)):
            cells += [f"{datafusion:.1f}", f"{weld:.1f}", f"{ratio:.2f}x"]
        cells += [f"{left['operators_compiled']}/{left['operators_total']}", f"{left['compile_ms']:.0f}"]
        lines.append(row(f"Q{left['query']}", cells))
    cells = []
    for reports in (parquet, memory):
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
    parquet, memory = run(args, "parquet"), run(args, "memory")
    verified = sum(report["verified"] for report in parquet + memory)
    text = [
        "## Results",
        "",
        f"TPC-H, scale factor {args.scale_factor}, against stock DataFusion 55.2: milliseconds from SQL text to the last row,",
        f"medians of {args.iterations} alternating runs after a first one, {args.partitions} partitions and threads, both "
        "engines in one process with",
        f"one allocator. {verified} of {len(parquet + memory)} runs of a query on both engines gave the same answers. "
        "*compile* is the time that the first run",
        "spent compiling, over Parquet; *compiled* how many of the plan's operators run as native code.",
        f"Machine: {os.cpu_count()} x {processor()}. Command: `make build && benches/tpch/results.py`.",
        "",
        *table(parquet, memory),
    ]
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(before + BEGIN + "\n" + "\n".join(text) + "\n" + END + after)


if __name__ == "__main__":
    main()
