#!/bin/bash
# examples/gpt over checkpoints that cannot be used: a damaged one is passed over with a line, one that cannot be read stops
# it, and it starts anew only where that was asked for.
set -euo pipefail

gpt="$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpt-unusable-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

fail() {
    echo "FAILED: $*"
    cat "$work"/*.log
    exit 1
}
for i in $(seq 60); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >"$work/text"

# train CODE LOG MAX_STEPS [PASS_OVER]: in checkpoints/, one every 2 steps
train() {
    local code=0
    cat >"$work/config.json" <<END
{"model": {"layers": 1, "heads": 1, "width": 8, "context": 8},
 "dataloader": {"path": "$work/text", "global_batch": 2},
 "optimizer": {"lr": 0.01, "min_lr": 0.01},
 "step_scheduler": {"max_steps": $3, "warmup_steps": 0, "log_every": 1, "checkpoint_every": 2},
 "checkpoint": {"enabled": true, "checkpoint_dir": "$work/checkpoints", "pass_over_unusable": ${4:-false}},
 "trainer": {"config": {"sample_bytes": 0}}}
END
    "$gpt" --config "$work/config.json" >"$work/$2.log" 2>&1 || code=$?
    [ "$code" = "$1" ] || fail "$2: exit code $code, not $1"
}
says() { grep -qF -- "$2" "$work/$1.log" || fail "$1 does not say '$2'"; }
steps() { (cd "$work/checkpoints" && echo step-*); }
# The loss of the last step, to the last digit.
last_loss() { sed -n 's|^step .*  loss \([0-9.]*\) .*|\1|p' "$work/$1.log" | tail -1; }

train 0 undisturbed 6
shard=$(ls "$work"/checkpoints/step-00000006/*.safetensors | head -1)
rm -r "$work/checkpoints"

train 0 first 4
[ "$(steps)" = "step-00000002 step-00000004" ] || fail "what was saved: $(steps)"
echo "-- a flipped bit in the newest: the one before is loaded, with a line, and the end is the same"
newest="$work/checkpoints/step-00000004/$(basename "$shard")"
byte=$(od -An -tu1 -j5000 -N1 "$newest")
printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$newest" bs=1 seek=5000 conv=notrunc status=none
train 0 flipped 6
says flipped "note: passed over step-00000004: "
says flipped "does not hold what was saved: bytes 0 to "
says flipped "resumed from step 2, "
[ "$(last_loss flipped)" = "$(last_loss undisturbed)" ] || fail "another loss: $(last_loss flipped)"

echo "-- none that can be used: it does not start anew by itself, and nothing is deleted"
for file in "$work"/checkpoints/step-*/*.safetensors; do truncate -s -1 "$file"; done
before=$(steps)
train 1 none 8
says none "none of them can be used: step-00000006: "
says none "; step-00000004: "
says none "pass_over_unusable"
! grep -q '^step ' "$work/none.log" || fail "it trained"
[ "$(steps)" = "$before" ] || fail "they were $before and are $(steps)"

echo "-- under autolaunch it ends once, with the reason and 74, however many restarts are left"
code=0
"$AUTOLAUNCH" --nproc-per-node 2 --max-restarts 3 --log-dir "$work/run" "$gpt" --config "$work/config.json" >"$work/launched.log" 2>&1 </dev/null || code=$?
[ "$code" = 74 ] || fail "launched: exit code $code"
[ ! -e "$work/run/generation-1" ] || fail "a restart was tried"
says launched "none of them can be used: step-00000006: "
says launched "no restart: it would find the same checkpoints"

echo "-- a link to a disk that is not there is not nothing"
mv "$work/checkpoints/step-00000006" "$work/elsewhere"
ln -s /nowhere/step-00000006 "$work/checkpoints/step-00000006"
train 1 unread 8
says unread "step-00000006: cannot list "

echo "-- asked to, it starts anew beside them, and a restart goes on from what it saved"
train 0 anew 2 true
says anew "step 1/2 "
train 0 restarted 4 true
says restarted "resumed from step 2, "
says restarted "note: passed over step-00000006: cannot list "
[ -L "$work/checkpoints/step-00000006" ] || fail "what cannot be read was deleted"
echo "passed"
