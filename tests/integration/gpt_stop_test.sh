#!/bin/bash
# examples/gpt under autolaunch: asked to stop, two ranks agree on a step, save and end; a later run goes on from there
# with the losses that it would have had.
set -euo pipefail

if [ ! -x "$AUTOLAUNCH" ]; then
    echo "skipped: there is no $AUTOLAUNCH"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/gpt-stop-XXXXXX")
trap 'kill "${launcher:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    tail -n 20 "$work"/*.out
    exit 1
}

for i in $(seq 400); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done > "$work/text"
cat > "$work/train.yaml" <<END
trainer:
  command: ["$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt"]
  config: {sample_bytes: 0}
resource_management: {nodes: 1, ranks_per_node: 2}
model: {layers: 1, heads: 2, width: 16, context: 16}
dataloader: {path: "$work/text", global_batch: 4}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: 10000000, warmup_steps: 2, log_every: 1, checkpoint_every: 10000000}
checkpoint: {enabled: true, checkpoint_dir: "$work/checkpoints"}
END

# train NAME [KEY=VALUE…]: its output goes to NAME.out
train() {
    local name=$1
    shift
    "$AUTOLAUNCH" --log-dir "$work/$name" -c "$work/train.yaml" "$@" > "$work/$name.out" 2>&1
}

losses() { sed -n 's|.*step \([0-9]*\)/.*  loss \([0-9.]*\)  grad.*|\1 \2|p' "$work/$1.out"; }

echo "-- asked to stop"
"$AUTOLAUNCH" --log-dir "$work/stopped" -c "$work/train.yaml" > "$work/stopped.out" 2>&1 &
launcher=$!
for _ in $(seq 600); do
    grep -q 'step 5/' "$work/stopped.out" 2>/dev/null && break
    kill -0 "$launcher" 2>/dev/null || fail "it ended by itself"
    sleep 0.1
done
kill -TERM "$launcher"
status=0
wait "$launcher" || status=$?
launcher=
step=$(sed -n 's/.*stopped at step \([0-9]*\) as asked.*/\1/p' "$work/stopped.out")
[ -n "$step" ] || fail "it did not stop by itself; exit status $status"
[ "$(ls -d "$work"/checkpoints/step-* | sed 's/.*step-0*//')" = "$step" ] || fail "no checkpoint of step $step"

echo "-- goes on from step $step"
train resumed "step_scheduler.max_steps=$((step + 10))" || fail "it did not go on"
grep -q "resumed from step $step," "$work/resumed.out" || fail "not resumed from step $step"
[ "$(losses resumed | head -1 | cut -d' ' -f1)" = $((step + 1)) ] || fail "it did not begin at step $((step + 1))"

echo "-- with the losses of a run that was not stopped"
train whole "step_scheduler.max_steps=$((step + 10))" "checkpoint.checkpoint_dir=$work/other" || fail "it failed"
losses whole | tail -10 > "$work/expected"
losses resumed > "$work/got"
cmp "$work/expected" "$work/got" || fail "other losses: $(paste "$work/expected" "$work/got")"

# Losses are printed in six digits: parameters and moments have all of theirs.
last=$(cd "$work/other" && ls -d step-* | sort | tail -1)
"$AUTOLAUNCH" ckpt diff "$work/checkpoints/$last" "$work/other/$last" > "$work/differences" 2>&1 ||
    fail "another state: $(cat "$work/differences")"
echo "passed"
