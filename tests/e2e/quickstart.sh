#!/bin/bash
# The quick start, short: trains, saves, prints a sample; trains again, loses a rank half-way to kill -9, and recovers
# from a checkpoint to the same loss.
. "$(dirname "$0")/lib.sh"

cd "$AUTOLAUNCH_SOURCE_DIR" || fail "no source folder"
export AUTOLAUNCH_QUICKSTART_RUNS=$work/runs
scripts/quickstart.sh --build "$AUTOLAUNCH_BINARY_DIR" step_scheduler.max_steps=60 step_scheduler.warmup_steps=5 \
    checkpoint.every_steps=10 >"$work/out.log" 2>"$work/err.log" </dev/null
expect "exit code" 0 "$?"
contains "a sample is printed" "$work/out.log" "a sample:"
contains "the rank that was killed is named" "$work/err.log" "was killed by SIGKILL"
contains "it goes on from a checkpoint" "$work/err.log" "restart 1 of 3 from the checkpoint of step"
contains "the losses are compared" "$work/out.log" "loss of the last step:"

# The model learned: the loss it ends with is well below the first one.
loss_at() { grep -h "\"rank\":0,\"step\":$1,.*\"loss\"" "$work"/runs/*-whole/events.jsonl | sed 's/.*"loss":\([0-9.]*\).*/\1/'; }
awk -v first="$(loss_at 1)" -v last="$(loss_at 60)" 'BEGIN { exit !(first > 5 && last < 3) }' ||
    fail "the loss went from $(loss_at 1) to $(loss_at 60)"
nothing_left
echo "passed"
