#!/usr/bin/env bash
# Every check of the repository, cheapest first: formatting, lints, all tests. Arguments go to `cargo test`.
# Ends with one line that sums the test binaries up: "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== cargo fmt"
cargo fmt --all -- --check

echo "== cargo clippy"
cargo clippy --workspace --all-targets --locked -- -D warnings

echo "== cargo test"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# One build of DataFusion for all, with what weld-sqllogictest switches on: the features that hosts have by default, Avro and
# Spark's functions. `make build` has fewer, without `recursive_protection` among others.
cargo test --workspace --locked --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?

awk '/^test result:/ {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
            if ($i == "ignored;") skipped += $(i - 1)
        }
    }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
exit "$status"
