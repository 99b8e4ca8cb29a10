#!/bin/bash
# examples/gpt really trains: alone, on two ranks with the same losses, and across a stop with the same losses again.
set -euo pipefail

gpt="$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpt-train-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

fail() {
    echo "FAILED: $*"
    exit 1
}

# A text that is easy to learn and made here, so that the test needs no file of the system's.
for i in $(seq 400); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done > "$work/text"

# config FILE MAX_STEPS DIRECTORY [STRATEGY] [TRAINER_CONFIG]
config() {
    cat > "$1" <<END
{"model": {"layers": 1, "heads": 2, "width": 16, "context": 16},
 "dataloader": {"path": "$work/text", "global_batch": 6},
 "optimizer": {"lr": 0.01, "min_lr": 0.01},
 "step_scheduler": {"max_steps": $2, "warmup_steps": 2, "log_every": 1, "checkpoint_every": 10},
 "checkpoint": {"enabled": $([ -n "$3" ] && echo true || echo false), "checkpoint_dir": "$3"},
 "distributed": {"sharding_strategy": "${4:-full_shard}"},
 "trainer": {"config": {"sample_bytes": 40${5:+, $5}}}}
END
}

# run RANKS CONFIG: in the environment that torchrun gives each rank of one node. Fails when any rank does.
run() {
    local ranks=$1 configuration=$2 rank pids=() status=0
    if [ "$ranks" = 1 ]; then
        "$gpt" --config "$configuration"
        return
    fi
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks TORCHELASTIC_RUN_ID="$work-$configuration" \
            "$gpt" --config "$configuration" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || status=$?; done
    return "$status"
}

losses() { sed -n 's|^step \([0-9]*\)/.* loss \([0-9.]*\) .*|\1 \2|p' "$1"; }

# same_losses A B: each step of B is in A, and differs by less than 1e-3.
same_losses() {
    awk 'NR == FNR { loss[$1] = $2; next }
         !($1 in loss) { print "step " $1 " is not in the first run"; bad = 1; next }
         { difference = loss[$1] - $2; if (difference < 0) difference = -difference; count++ }
         difference >= 1e-3 { print "step " $1 ": " loss[$1] " and " $2; bad = 1 }
         END { exit bad || count == 0 }' <(losses "$1") <(losses "$2")
}

# as_planned FILE: what a rank uses is what was planned, in kB; the plan's padding of the optimizer's state, which the
# trainer does not count, is up to 5% of so small a model.
as_planned() {
    awk '/ memory planned / { planned = $(NF - 3) }
         /^step 40\// { for (i = 1; i < NF; ++i) if ($i == "memory") used = $(i + 1) }
         END { difference = used - planned; if (difference < 0) difference = -difference
               exit !(used > 0 && difference <= 0.05 * planned) }' "$1"
}

# same_result A B: evaluation, where ranks share the windows unequally, gave the same up to rounding; B has a sample.
same_result() {
    awk '/^validation loss/ { loss[++count] = $3 }
         END { difference = loss[1] - loss[2]; exit !(count == 2 && difference < 2e-3 && difference > -2e-3) }' "$1" "$2" &&
        [ "$(sed '1,/^a sample:/d' "$2" | wc -c)" -gt 40 ]
}

echo "-- one rank: the loss falls"
config "$work/alone.json" 40 ""
run 1 "$work/alone.json" > "$work/alone"
awk 'NR == 1 { first = $2 } { last = $2 } END { print "from " first " to " last; exit !(NR == 40 && last < 0.7 * first) }' \
    <(losses "$work/alone") || fail "the loss did not fall as it should"
grep -q '^validation loss' "$work/alone" || fail "no validation loss at the end"

for strategy in full_shard shard_grad_op shard_optimizer no_shard hybrid_shard; do
    echo "-- two ranks, $strategy: the losses of one"
    config "$work/$strategy.json" 40 "" "$strategy"
    run 2 "$work/$strategy.json" > "$work/$strategy"
    grep -q '^world size 2 ' "$work/$strategy" || fail "the two ranks did not find each other: $(cat "$work/$strategy")"
    same_losses "$work/alone" "$work/$strategy" || fail "other losses on two ranks"
    same_result "$work/alone" "$work/$strategy" || fail "another end on two ranks"
    as_planned "$work/$strategy" || fail "not the memory that was planned: $(grep memory "$work/$strategy")"
done

echo "-- two ranks that keep and send 16 bits: about the losses of one"
config "$work/bf16.json" 40 ""
sed -i 's/"sharding_strategy"/"mixed_precision": "bf16", "sharding_strategy"/' "$work/bf16.json"
run 2 "$work/bf16.json" > "$work/bf16"
awk 'NR == FNR { loss[$1] = $2; next } { worst = $2 - loss[$1]; if (worst < 0) worst = -worst; if (worst > most) most = worst }
     END { print "they differ by at most " most; exit !(FNR == 40 && most > 0 && most < 0.05) }' \
    <(losses "$work/alone") <(losses "$work/bf16") || fail "other losses in 16 bits"

echo "-- two ranks in 16 bits with a loss scale, a sample at a time, evaluating in between: about the losses of one"
config "$work/f16.json" 40 ""
sed -i 's/"sharding_strategy"/"mixed_precision": "f16", "sharding_strategy"/; s/"global_batch"/"micro_batch": 1, "global_batch"/
        s/"log_every"/"evaluate_every": 15, "log_every"/' "$work/f16.json"
run 2 "$work/f16.json" > "$work/f16"
[ "$(grep -c '^step [0-9]*: validation loss' "$work/f16")" = 2 ] || fail "it did not evaluate twice in between"
awk 'NR == FNR { loss[$1] = $2; next } { worst = $2 - loss[$1]; if (worst < 0) worst = -worst; if (worst > most) most = worst }
     END { print "they differ by at most " most; exit !(FNR == 40 && most > 0 && most < 0.05) }' \
    <(losses "$work/alone") <(losses "$work/f16") || fail "other losses in f16"

echo "-- four ranks share six samples unevenly: the losses of one"
config "$work/four.json" 12 ""
run 4 "$work/four.json" > "$work/four"
same_losses "$work/alone" "$work/four" || fail "other losses on four ranks"

echo "-- a rank that dies leaves a checkpoint; one rank goes on where two had stopped, with the same losses"
config "$work/dying.json" 40 "$work/checkpoints" full_shard '"fail": {"rank": 1, "step": 25, "signal": "SIGKILL"}'
if run 2 "$work/dying.json" > "$work/dying" 2>&1; then fail "the job outlived its rank"; fi
grep -q '^step 24/' "$work/dying" || fail "it died before its step: $(cat "$work/dying")"
config "$work/resumed.json" 40 "$work/checkpoints"
run 1 "$work/resumed.json" > "$work/resumed"
# The save of step 20 may have been under way; that of step 10 was over, since one waits for the one before.
from=$(sed -n 's/^resumed from step \([12]0\),.*/\1/p' "$work/resumed")
[ -n "$from" ] || fail "not resumed from step 10 or 20: $(cat "$work/resumed")"
[ "$(losses "$work/resumed" | wc -l)" = $((40 - from)) ] || fail "resumed from step $from it has $((40 - from)) steps to go"
same_losses "$work/alone" "$work/resumed" || fail "other losses after the restart"

echo "-- the same ranks go on with the same bits"
config "$work/half.json" 12 "$work/halves"
config "$work/rest.json" 40 "$work/halves"
config "$work/through.json" 40 "$work/through_checkpoints"
run 2 "$work/half.json" > "$work/half"
run 2 "$work/rest.json" > "$work/rest"
run 2 "$work/through.json" > "$work/through"
grep -q '^resumed from step 12,' "$work/rest" || fail "not resumed from step 12: $(cat "$work/rest")"
cmp <(losses "$work/rest") <(losses "$work/through" | tail -28) || fail "other losses after step 12"

echo "-- auto takes the CPU where there is no GPU and says so; cpu asks nobody"
if ! [ -e /dev/nvidia0 ]; then
    grep -q '^trainer.config.device is auto: the CPU, for ' "$work/alone" || fail "the device is not said: $(cat "$work/alone")"
fi
config "$work/cpu.json" 1 "" full_shard '"device": "cpu"'
run 1 "$work/cpu.json" > "$work/cpu"
if grep -q 'device is auto' "$work/cpu"; then fail "cpu was asked for"; fi

echo "-- a finished run is finished"
run 1 "$work/resumed.json" > "$work/again"
[ "$(losses "$work/again" | wc -l)" = 0 ] || fail "it trained beyond its end"

echo "-- a preset by name, from the command line and from the configuration"
echo "{\"dataloader\": {\"path\": \"$work/text\"}, \"step_scheduler\": {\"max_steps\": 1}, \"trainer\": {\"config\": {\"sample_bytes\": 0}}}" > "$work/preset.json"
"$gpt" --preset tiny --config "$work/preset.json" > "$work/preset"
grep -q '^model 136960 parameters: 2 layers' "$work/preset" || fail "not the preset: $(cat "$work/preset")"
if "$gpt" --preset huge > "$work/preset" 2>&1; then fail "a preset that is none was taken"; fi
grep -q 'tiny, small, gpt2-124m, not huge' "$work/preset" || fail "the message does not name them: $(cat "$work/preset")"

echo "-- a wrong key is named"
echo '{"model": {"layer": 1}}' > "$work/wrong.json"
if run 1 "$work/wrong.json" > "$work/wrong" 2>&1; then fail "a wrong key was taken"; fi
grep -q 'model.layer is not known' "$work/wrong" || fail "the message does not name the key: $(cat "$work/wrong")"
echo "passed"
