# make tpch   sets up, builds, and runs the 22 TPC-H queries with and without Weld, comparing every answer
# make test   sets up, builds, and runs every check and test
# make rows   counts the rows that plans take, with and without Weld and by DuckDB, over the 99 TPC-DS queries
# make mutants   changes the optimizer in one place at a time and lists the changes that no test notices; takes hours
# make sqllogictest   runs DataFusion's own test suite with and without Weld, comparing every record
#
# TPCH_ARGS goes to `weld tpch run`:  make tpch TPCH_ARGS="--scale-factor 10 --storage memory"
# (`weld tpch run --help` lists the options). So do SQLLOGICTEST_ARGS to `weld-sqllogictest`, ROWS_ARGS to benches/rows.py
# and MUTANTS_ARGS to `cargo mutants`:  make mutants MUTANTS_ARGS="-p weld-core -F opt/facts.rs"

SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
TPCH_ARGS ?=
SQLLOGICTEST_ARGS ?=
ROWS_ARGS ?= --suite tpcds
MUTANTS_ARGS ?=

.PHONY: help setup build tpch rows test mutants sqllogictest

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

setup:
	@scripts/setup.sh

build: setup
	cargo build --release --locked -p weld-cli

tpch: build
	$(TARGET)/release/weld tpch run $(TPCH_ARGS)

rows: build
	benches/rows.py --weld $(TARGET)/release/weld $(ROWS_ARGS)

test: setup
	@scripts/test.sh

# Needs `cargo install --locked cargo-mutants`; .cargo/mutants.toml says what is changed and by which tests that is judged.
mutants: setup
	cargo mutants $(MUTANTS_ARGS)

sqllogictest: setup
	cargo run --locked -p weld-sqllogictest -- $(SQLLOGICTEST_ARGS)
