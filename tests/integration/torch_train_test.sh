#!/bin/bash
# examples/torch_cpp: the character model through libtorch has the losses of the plain C++ program, on one rank, on two and
# on four; and a run of two ranks goes on, on one, from its checkpoint.
set -euo pipefail

examples="$AUTOLAUNCH_BINARY_DIR/examples"
work=$(mktemp -d "${TMPDIR:-/tmp}/torch-train-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# run RANKS [ARGUMENTS]: in the environment that torchrun gives each rank of one node. Fails when any rank does.
run() {
    local ranks=$1 rank pids=() status=0
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks TORCHELASTIC_RUN_ID="$work-$ranks-$1" \
            "$examples/torch_cpp/torch_train" "$@" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || status=$?; done
    return "$status"
}

# compare NAME FIRST LAST: the steps of $work/NAME beside those of char_single. Losses are some 4, in f32: 1e-4 is what sums
# in another order come to after 60 steps.
compare() {
    sed -n "$2,$3p" "$work/single" | paste - "$work/$1" | awk -v name="$1" -v steps=$(($3 - $2 + 1)) '
        $2 != $6 {print name ": step " $2 " beside " $6; exit 1}
        {d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d}
        END {printf "%s: %d steps, largest difference of losses %.6f\n", name, NR, most; exit !(NR == steps && most < 1e-4)}' ||
        fail "$1 has other losses"
}

"$examples/char_model/char_single" > "$work/single"
for ranks in 1 2 4; do
    run $ranks 60 "$work/checkpoints-$ranks" > "$work/ranks-$ranks" || fail "torch_train on $ranks ranks"
    compare ranks-$ranks 1 60
done
run 2 30 "$work/checkpoints" > "$work/half" || fail "torch_train with checkpoints"
compare half 1 30
run 1 60 "$work/checkpoints" > "$work/rest" || fail "torch_train from a checkpoint"
compare rest 31 60

# The newest damaged inside: the one before is taken, with a line. All cut short: an error, or anew where that was asked for.
run 1 70 "$work/checkpoints-1" > /dev/null || fail "torch_train to step 70"
newest=$(ls -d "$work"/checkpoints-1/step-* | tail -1)
for shard in "$newest"/*.safetensors; do printf x | dd of="$shard" bs=1 seek=5000 conv=notrunc status=none; done
run 1 71 "$work/checkpoints-1" > "$work/passed" || fail "torch_train over a damaged checkpoint"
grep -q "^note: passed over step-00000070: .*does not hold what was saved" "$work/passed" || fail "no line: $(cat "$work/passed")"
grep -q "^step 61 " "$work/passed" || fail "it did not go on from step 60: $(cat "$work/passed")"
for shard in "$work"/checkpoints-1/step-*/*.safetensors; do truncate -s -1 "$shard"; done
run 1 5 "$work/checkpoints-1" > "$work/none" 2>&1 && fail "torch_train went on from nothing"
grep -q "none of them can be used" "$work/none" || fail "no reason: $(cat "$work/none")"
run 1 --pass-over-unusable 5 "$work/checkpoints-1" > "$work/anew" || fail "torch_train anew"
compare anew 1 5
