#!/usr/bin/env bash
# Random SQL on stock DataFusion and on Weld for MINUTES, from seed FIRST_SEED on (a new one unless it is given). Prints what
# differs, made small, and ends with code 1 if something did.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?usage: fuzz/sql.sh MINUTES [FIRST_SEED]}
first=${2:-$(date +%s)000}
echo "from seed $first"
WELD_SQL_MINUTES=$minutes WELD_SQL_SEEDS=$first..$((first + 1)) \
    cargo test --locked -p weld-datafusion --test random random_queries -- --nocapture
