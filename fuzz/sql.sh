#!/usr/bin/env bash
# Random SQL on stock DataFusion and on Weld for MINUTES, from seed FIRST_SEED on (a new one unless it is given), in JOBS
# processes (one a processor), each a million seeds after the other. Prints what differs, made small, and ends with code 1 if
# something did.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?usage: fuzz/sql.sh MINUTES [FIRST_SEED] [JOBS]}
first=${2:-$(date +%s)000}
jobs=${3:-$(nproc)}
# Optimised, with Weld's own assertions; other crates as for the weld command, so that they are built once for both.
test=(cargo test --release --locked -p weld-cli -p weld-datafusion --test random)
for crate in arrow codegen core datafusion parquet plans runtime sort table window; do
    test+=(--config "profile.release.package.weld-$crate.debug-assertions=true")
done
"${test[@]}" --no-run
pids=()
for ((job = 0; job < jobs; job++)); do
    from=$((first + job * 1000000))
    echo "from seed $from"
    WELD_SQL_MINUTES=$minutes WELD_SQL_SEEDS=$from..$((from + 1)) "${test[@]}" random_queries -- --nocapture &
    pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do
    wait "$pid" || failed=1
done
exit $failed
