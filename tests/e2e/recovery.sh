#!/bin/bash
# Ranks that go on in their processes after another one was lost: only the lost one is started anew, the bits at the end
# are those of a run that nobody disturbed, and who does not come along in time is started anew, too.
. "$(dirname "$0")/lib.sh"
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/memory_rank
kills=${RECOVERY_KILLS:-20}

job() { # RUN_DIRECTORY RANKS RESTARTS ARGUMENT...
    "$AUTOLAUNCH" --nproc-per-node "$2" --max-restarts "$3" --log-dir "$1" "$rank" "${@:4}" >"$1.log" 2>"$1.err.log" </dev/null
}
digests() { cat "$1"/generation-*/rank-*/stdout | grep '^digest' | sort; }
started() { grep '"event":"rank_started"' "$1/events.jsonl" | grep "\"generation\":$2,"; } # RUN_DIRECTORY GENERATION
stayed() { started "$@" | grep '"stayed":true' | sed 's/.*"rank":\([0-9]*\).*/\1/' | sort | tr '\n' ' '; }
left_behind() { pgrep -f "^$rank" -a | grep -F "$work" || true; }

job calm 3 0 40
expect "exit code of the undisturbed run" 0 "$?"
expect "digests of the undisturbed run" 3 "$(digests calm | wc -l)"

job one 3 1 40 in_place=1 die=1:25
expect "exit code after a kill" 0 "$?"
expect "ranks whose processes stayed" "0 2 " "$(stayed one 1)"
expect "the same bits" "$(digests calm)" "$(digests one)"
contains "where a rank that stayed goes on, in its own log" one/generation-0/rank-0/stdout 'from 24 memory {"step":24}'
contains "and the new one" one/generation-1/rank-1/stdout 'from 24 memory {"step":24}'
expect "processes of a rank that stayed" 1 "$(grep '"rank_started","rank":0,' one/events.jsonl | sed 's/.*"pid":\([0-9]*\).*/\1/' | sort -u | wc -l)"

job two 3 1 40 in_place=1 die=0:25,2:25
expect "exit code after two kills at once" 0 "$?"
expect "the one that stayed" "1 " "$(stayed two 1)"
expect "the same bits" "$(digests calm)" "$(digests two)"

# What came in on stdin begins anew for the rank that has it, and so does that rank.
echo words | "$AUTOLAUNCH" --nproc-per-node 3 --max-restarts 1 --log-dir input "$rank" 40 in_place=1 die=1:25 >input.log 2>input.err.log
expect "exit code with stdin" 0 "$?"
expect "the one that stayed" "2 " "$(stayed input 1)"
contains "why not the other" input.err.log "rank 0 is started anew, although it could go on: it has the job's stdin"

# Without Session::run() all are started anew, as ever.
job apart 3 1 40 die=1:25
expect "exit code without it" 0 "$?"
expect "nobody stayed" "" "$(stayed apart 1)"
expect "the same bits" "$(digests calm)" "$(digests apart)"

# One that computes for minutes does not leave in its time.
cat >stuck.yaml <<END
trainer: {command: ["$rank", "40", "in_place=1", "die=1:25", "stuck=2:25"]}
resource_management: {ranks_per_node: 3}
restart: {max_restarts: 1, grace_period: 1s}
END
"$AUTOLAUNCH" --log-dir stuck -c stuck.yaml >stuck.log 2>stuck.err.log </dev/null
expect "exit code with one that is stuck" 0 "$?"
expect "the one that left" "0 " "$(stayed stuck 1)"
expect "the same bits" "$(digests calm)" "$(digests stuck)"

# No restart is left: those who wait for the next generation are ended.
sed 's/, "stuck=2:25"//; s/max_restarts: 1/max_restarts: 0/' stuck.yaml >over.yaml
"$AUTOLAUNCH" --log-dir over -c over.yaml >over.log 2>over.err.log </dev/null
expect "exit code without restarts" 137 "$?"
expect "the survivor of a job that is over" "" "$(left_behind)"

# Two nodes, which meet in the store alone: a rank of each is lost.
meeting=$AUTOLAUNCH_BINARY_DIR/tests/integration/meeting_rank
node() { # NODE
    "$AUTOLAUNCH" --nnodes 2 --node-rank "$1" --nproc-per-node 2 --max-restarts 1 --rdzv-endpoint 127.0.0.1 \
        --rdzv-id "$E2E_MARK" --log-dir "nodes" "$meeting" 200 0:80 3:80 >"node$1.log" 2>"node$1.err.log" </dev/null
}
node 1 &
other=$!
node 0
expect "exit code of the head's node" 0 "$?"
wait "$other"
expect "exit code of the other node" 0 "$?"
expect "all meet in the next generation" "4" "$(cat nodes/generation-*/rank-*/stdout | grep -c '^met in 1 ')"
expect "those that stayed, by node" "1 2 " \
    "$(cat nodes/events*.jsonl | grep '"stayed":true' | sed 's/.*"rank":\([0-9]*\).*/\1/' | sort | tr '\n' ' ')"

# A whole trainer: the losses of all its steps.
if [ -x "$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt" ]; then
    for ((i = 0; i < 400; i++)); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
    gpt() { # RUN_DIRECTORY FAIL
        cat >gpt.yaml <<END
trainer:
  command: ["$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt"]
  config: {device: cpu, sample_bytes: 0 $2}
resource_management: {ranks_per_node: 2}
model: {layers: 1, heads: 2, width: 16, context: 16}
dataloader: {path: "$work/text", global_batch: 6}
step_scheduler: {max_steps: 30, log_every: 1, copy_every: 1, checkpoint_every: 10}
checkpoint: {enabled: true}
restart: {max_restarts: 1}
END
        "$AUTOLAUNCH" --log-dir "$1" -c gpt.yaml >"$1.log" 2>"$1.err.log" </dev/null
    }
    losses() { cat "$1"/generation-*/rank-0/stdout | grep -oE '^(step [0-9]+/30  loss [0-9.]+|validation loss [0-9.]+)' | sort -u; }
    gpt gpt_calm ""
    expect "exit code of gpt" 0 "$?"
    gpt gpt_killed ", fail: {rank: 1, step: 13, signal: SIGKILL}"
    expect "exit code of gpt with a kill" 0 "$?"
    expect "the rank of gpt that stayed" "0 " "$(stayed gpt_killed 1)"
    expect "losses of gpt" 31 "$(losses gpt_calm | wc -l)"
    expect "the same losses" "$(losses gpt_calm)" "$(losses gpt_killed)"
    contains "where gpt goes on" gpt_killed/generation-0/rank-0/stdout "resumed from step 12, memory"
fi

# Killed at random: in collectives, in the optimizer, in copies, in saves, in recovery, two at once.
job chaos 3 "$kills" 3 in_place=1 chaos=60000 disk="$work/disk"
expect "exit code after $kills kills" 0 "$?"
from=$(cat chaos/generation-*/rank-*/stdout | sed -n 's/^from \([0-9]*\).*/\1/p' | sort -n | tail -n 1)
job chaos_calm 3 0 $((from + 3)) every=1000000
expect "the same bits after $kills kills" "$(digests chaos_calm)" "$(digests chaos)"
all=$(grep -c '"event":"rank_started"' chaos/events.jsonl)
in_place=$(grep -c '"stayed":true' chaos/events.jsonl)
[ "$in_place" -ge "$kills" ] || fail "only $in_place of $all starts of ranks were in place"
expect "processes left" "" "$(left_behind)"
expect "shared memory left behind" "" "$(ls /dev/shm | grep -i autolaunch-memory)"
echo "passed: $kills ends of a generation, $in_place of $((all - 3)) ranks went on in their processes, the last from step $from"
