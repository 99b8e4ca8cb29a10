#!/bin/bash
# examples/char_model: the port to ShardedModel, and data parallel by hand, have the losses of the plain program that they
# come from, on one rank and on two.
set -euo pipefail

programs="$AUTOLAUNCH_BINARY_DIR/examples/char_model"
. "$(dirname "$0")/lib.sh"

"$programs/char_single" > "$work/single"
[ "$(wc -l < "$work/single")" = 60 ] || fail "char_single printed $(wc -l < "$work/single") lines"
first=$(awk 'NR == 1 {print $4}' "$work/single")
last=$(awk 'END {print $4}' "$work/single")
awk -v first="$first" -v last="$last" 'BEGIN {exit !(last < 0.7 * first)}' || fail "it does not learn: $first to $last"

for program in char_sharded char_data_parallel; do
    for ranks in 1 2; do
        run_ranks "$ranks" "$programs/$program" > "$work/$program-$ranks" || fail "$program on $ranks ranks"
        compare_losses "$program on $ranks ranks" 60 "$work/single" "$work/$program-$ranks"
    done
done
