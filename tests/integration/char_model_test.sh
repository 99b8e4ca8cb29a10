#!/bin/bash
# examples/char_model: the port to ShardedModel, and data parallel by hand, have the losses of the plain program that they
# come from, on one rank and on two.
set -euo pipefail

programs="$AUTOLAUNCH_BINARY_DIR/examples/char_model"
work=$(mktemp -d "${TMPDIR:-/tmp}/char-model-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# run RANKS PROGRAM: in the environment that torchrun gives each rank of one node. Fails when any rank does.
run() {
    local ranks=$1 program=$2 rank pids=() status=0
    if [ "$ranks" = 1 ]; then
        "$programs/$program"
        return
    fi
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks TORCHELASTIC_RUN_ID="$work-$program" \
            "$programs/$program" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || status=$?; done
    return "$status"
}

"$programs/char_single" > "$work/single"
[ "$(wc -l < "$work/single")" = 60 ] || fail "char_single printed $(wc -l < "$work/single") lines"
first=$(awk 'NR == 1 {print $4}' "$work/single")
last=$(awk 'END {print $4}' "$work/single")
awk -v first="$first" -v last="$last" 'BEGIN {exit !(last < 0.7 * first)}' || fail "it does not learn: $first to $last"

for program in char_sharded char_data_parallel; do
    for ranks in 1 2; do
        run "$ranks" "$program" > "$work/$program-$ranks" || fail "$program on $ranks ranks"
        paste "$work/single" "$work/$program-$ranks" | awk -v name="$program on $ranks ranks" '
            $2 != $6 {print name ": step " $2 " beside " $6; exit 1}
            {d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d}
            END {printf "%s: %d steps, largest difference of losses %.6f\n", name, NR, most; exit !(NR == 60 && most < 1e-4)}' ||
            fail "$program on $ranks ranks has other losses"
    done
done
