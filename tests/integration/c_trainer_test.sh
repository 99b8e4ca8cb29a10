#!/bin/bash
# examples/c_wrapper: a trainer in C has the same losses on one rank and on two, and hears what an error says and hints.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
program="$AUTOLAUNCH_BINARY_DIR/examples/c_wrapper/c_trainer"

for ranks in 1 2; do
    run_ranks "$ranks" "$program" > "$work/$ranks" || fail "$ranks ranks"
    grep -q "^no such unit: no unit is named matrx; did you mean matrix?; the units are matrix$" "$work/$ranks" ||
        fail "the error is told as: $(grep "no such" "$work/$ranks")"
done
compare_losses "C on 2 ranks" 200 "$work/1" "$work/2"
awk '$2 == 1 {first = $4} $2 == 200 {exit !($4 < 0.05 * first)}' "$work/1" || fail "it does not learn"
