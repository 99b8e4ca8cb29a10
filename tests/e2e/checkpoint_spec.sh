#!/bin/bash
# What the spec's section `checkpoint` says reaches a C++ trainer whose code says something else: when it saves, what stays, the second
# place, and where a job begins that has nothing of its own.
. "$(dirname "$0")/lib.sh"
gpt=$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt
[ -x "$gpt" ] || skip "examples/gpt is not built"
export OMP_NUM_THREADS=1
for i in $(seq 60); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
job() { # MAX_STEPS LINE-BELOW-CHECKPOINT...
    cat <<END
trainer: {command: [$gpt], config: {sample_bytes: 0}, workdir: $work}
monitoring: {log_path: $work/runs}
resource_management: {ranks_per_node: 2}
model: {layers: 1, heads: 1, width: 8, context: 8}
dataloader: {path: text, global_batch: 2}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: $1, warmup_steps: 0, log_every: 1, checkpoint_every: 5}
checkpoint:
END
    printf '  %s\n' "${@:2}"
}
steps_in() { (cd "$1" 2>/dev/null && ls -d step-*[0-9] 2>/dev/null) | sed 's/step-0*//' | tr '\n' ' '; }

job 9 'checkpoint_dir: here/' 'every: 2' 'keep: 1' 'keep_every: 4' 'drain: there' 'drain_keep: 3' 'drain_wait: 1m' >job.yaml
"$AUTOLAUNCH" plan -c job.yaml >plan.log 2>err.log || fail "plan: $(cat err.log)"
for line in "saved    every 2 steps .*$work/here" "kept     the newest 1, those of every 4 steps" "drained  $work/there"; do
    grep -q "$line" plan.log || fail "the plan has no '$line': $(grep -A4 'checkpoints of' plan.log)"
done
says 0 'done' "$AUTOLAUNCH" -c job.yaml
# The trainer says 5 for itself; the last step is saved because it is the last.
expect "what stays" "4 8 9 " "$(steps_in here)"
there=$(steps_in there) # 6 may have gone here before its turn came
[[ $there =~ ^4\ (6\ )?8\ 9\ $ ]] || fail "what stays in the second place: '$there'"

# Several places, each with its own pace: the one at 5 and at the end, the other at 4, 8 and the end. What is damaged or lost is read from the next one.
job 9 'checkpoint_dir: many' 'every: 1' 'keep: 3' 'drain_wait: 1m' \
    'tiers: [{place: near, every: 4, keep: 4}, {place: far, every: 1h, keep: 9, bandwidth: 1GB}]' >many.yaml
"$AUTOLAUNCH" plan -c many.yaml >plan.log 2>err.log || fail "plan: $(cat err.log)"
for line in "drained  $work/near  every 4 steps, the newest 4" "drained  $work/far   every 3600 s, the newest 9, at most 1000 MB/s"; do
    grep -q "$line" plan.log || fail "the plan has no '$line': $(grep -A5 'checkpoints of' plan.log)"
done
says 0 'done' "$AUTOLAUNCH" -c many.yaml
[[ $(steps_in near) =~ ^([0-9]+\ )?[0-9]+\ 9\ $ ]] || fail "what stays in the first of several places: '$(steps_in near)'"
[[ $(steps_in far) =~ ^[0-9]+\ 9\ $ ]] || fail "what stays in the second of several places: '$(steps_in far)'"
rm -rf many near/step-00000009
says 0 "resumed from step 9, $work/far/step-00000009" "$AUTOLAUNCH" -c many.yaml step_scheduler.max_steps=10
# The next plan knows how long that took, and says where it does not.
"$AUTOLAUNCH" plan -c many.yaml >plan.log 2>err.log || fail "plan: $(cat err.log)"
for line in 'a save of .* stalls training for about .* (measured by step 10 of ' "the copy to $work/near takes about .* (measured by step 10 of "; do
    grep -q "$line" plan.log || fail "the plan has no '$line': $(grep -A5 'checkpoints take' plan.log)"
done
"$AUTOLAUNCH" plan -c many.yaml 'checkpoint.tiers=[{place: elsewhere}]' | grep -qx "  the copy to $work/elsewhere: not measured yet" || fail "a place that was never measured"
# The spec's places are those of ckpt, too.
"$AUTOLAUNCH" ckpt ls -c many.yaml >ls.log 2>err.log || fail "ckpt ls: $(cat err.log)"
for place in many near far; do grep -qx "$work/$place" ls.log || fail "ckpt ls lists no $place: $(cat ls.log)"; done
says 0 "$work/many/step-00000010" "$AUTOLAUNCH" ckpt show -c many.yaml
says 0 "passed over $work/gone: it is not there" "$AUTOLAUNCH" ckpt verify -c many.yaml checkpoint.checkpoint_dir=gone
says 66 "is not there, nor another place of the spec" "$AUTOLAUNCH" ckpt ls -c many.yaml checkpoint.checkpoint_dir=gone 'checkpoint.tiers=[{place: gone2}]'
says 64 "--config does not go with ckpt prune" "$AUTOLAUNCH" ckpt prune -c many.yaml --keep 1
# What has no time to be copied is named.
says 0 "warning: rank 0: checkpoint: left behind: $work/slow lacks step 9, 8" "$AUTOLAUNCH" -c many.yaml step_scheduler.max_steps=9 \
    checkpoint.checkpoint_dir=late checkpoint.drain_wait=100ms 'checkpoint.tiers=[{place: slow, bandwidth: 1000}]'

# Another job begins with it: the newest, or the one that is named; once it has its own, those count.
job 11 'checkpoint_dir: other' 'restore_from: there' >from.yaml
says 0 'resumed from step 9' "$AUTOLAUNCH" -c from.yaml
says 0 'resumed from step 11' "$AUTOLAUNCH" -c from.yaml step_scheduler.max_steps=12
job 11 'checkpoint_dir: third' 'restore_from: there/step-00000008/' >named.yaml
says 0 'resumed from step 8' "$AUTOLAUNCH" -c named.yaml
expect "nothing is written where it began" "$there" "$(steps_in there)"
# The second place alone is enough to go on.
rm -rf here
says 0 'resumed from step 9' "$AUTOLAUNCH" -c job.yaml step_scheduler.max_steps=10

# What is asked for and is not there is no new beginning.
job 11 'checkpoint_dir: fourth' 'restore_from: nowhere' >nowhere.yaml
says 74 "restore_from: there is no complete checkpoint in it: $work/nowhere" "$AUTOLAUNCH" -c nowhere.yaml
job 11 'checkpoint_dir: fourth' 'restore_from: there/step-00000007' >nowhere.yaml
says 74 "there is no complete checkpoint of step 7" "$AUTOLAUNCH" -c nowhere.yaml
[ ! -e fourth ] || [ -z "$(steps_in fourth)" ] || fail "it trained anew: $(steps_in fourth)"

# A Checkpointer of another directory is not meant, and that is said.
says 0 "warning: rank 0: checkpoint: the spec's settings are for /nowhere/here, and not for what is saved to" \
    "$AUTOLAUNCH" -c from.yaml checkpoint.restore_from= checkpoint.checkpoint_dir=fifth "trainer.env.AUTOLAUNCH_CHECKPOINT='{\"directory\":\"/nowhere/here\",\"keep\":1}'"

# Who saves without the library is told what nobody does.
job 4 'checkpoint_dir: a' 'drain: b' 'keep_best: 1' >python.yaml
says 0 'checkpoint.drain, checkpoint.keep_best: the library does it, and the program is one of Python' \
    "$AUTOLAUNCH" plan -c python.yaml 'trainer.command=[python3, train.py]'

# A file system that spreads nothing is named.
says 0 "warning: rank 0: checkpoint: stripe has no effect on plain: it is neither on Lustre nor on BeeGFS" \
    "$AUTOLAUNCH" -c from.yaml checkpoint.restore_from= checkpoint.checkpoint_dir=plain 'checkpoint.stripe={count: 4}' step_scheduler.max_steps=2

# Mistakes have their places.
job 4 'checkpoint_dir: a' 'drain: ./a/' >wrong.yaml
says 65 'wrong.yaml:10:10: checkpoint.drain: is checkpoint_dir itself' "$AUTOLAUNCH" validate wrong.yaml
job 4 'checkpoint_dir: a' 'node_local: true' >wrong.yaml
says 65 'checkpoint.node_local: a node that is lost takes its files along' "$AUTOLAUNCH" validate wrong.yaml
job 4 'checkpoint_dir: a' 'every: soon' >wrong.yaml
says 65 'checkpoint.every: expected steps (500), a time (10m, 1h) or optimal' "$AUTOLAUNCH" validate wrong.yaml
job 4 'checkpoint_dir: a' 'drain: gs://bucket' >wrong.yaml
says 65 'checkpoint.drain: expected a directory or s3://BUCKET/PREFIX' "$AUTOLAUNCH" validate wrong.yaml
nothing_left
count_failures
