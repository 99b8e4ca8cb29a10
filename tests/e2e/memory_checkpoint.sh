#!/bin/bash
# Copies of training state in memory: a rank that is killed comes back from them, to the same bits as undisturbed; one
# that is killed at random points, 100 times, never comes back from half a copy; nothing is left, and nothing on a disk.
. "$(dirname "$0")/lib.sh"
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/memory_rank

job() { # RUN_DIRECTORY RANKS RESTARTS ARGUMENT...
    "$AUTOLAUNCH" --nproc-per-node "$2" --max-restarts "$3" --log-dir "$1" "$rank" "${@:4}" >"$1.log" 2>"$1.err.log" </dev/null
}
digests() { cat "$1"/generation-*/rank-*/stdout | grep '^digest' | sort; }
came_from() { grep -h '^from' "$1/generation-$2"/rank-*/stdout | sort -u; }

job calm 2 0 40
expect "exit code of the undisturbed run" 0 "$?"
expect "digests of the undisturbed run" 2 "$(digests calm | wc -l)"
expect "the undisturbed run's start" "from 0 nothing " "$(came_from calm 0)"

# Rank 1 dies in the step after the copy of step 24.
job killed 2 1 40 die=1:25
expect "exit code after the kill" 0 "$?"
expect "where it came back from" 'from 24 memory {"step":24}' "$(came_from killed 1)"
expect "the same bits" "$(digests calm)" "$(digests killed)"
contains "the restart is announced with its step" killed.err.log "from the checkpoint of step 24"
contains "where copies are kept is told" killed/events.jsonl "by the node's agent; none on another node"
[ -e no-checkpoints ] && fail "something was written to the disk"

# A copy each 7 steps, a checkpoint on disk each 10: the newer one is taken, whichever it is.
job memory_is_newer 2 1 40 every=7 disk="$work/disk1" die=0:30
expect "from the newer copy in memory" 'from 28 memory {"step":28}' "$(came_from memory_is_newer 1)"
expect "the same bits" "$(digests calm)" "$(digests memory_is_newer)"
job disk_is_newer 2 1 40 every=7 disk="$work/disk2" die=0:21
expect "of the same or an older step the disk is not asked" 'from 20 disk {"step":20}' "$(came_from disk_is_newer 1)"
expect "the same bits" "$(digests calm)" "$(digests disk_is_newer)"

# The memory of the agent is written over: what is damaged is not used, nor said to be there.
job damaged 2 1 40 hold="$work/go" disk="$work/disk3" &
damaged=$!
eventually "five steps" eval 'grep -q "\"step\":5," damaged/events.jsonl 2>/dev/null'
sleep 0.3
agent=$(ps -o ppid= -p "$(sed -n 's/.*"event":"rank_started","rank":0,.*"pid":\([0-9]*\).*/\1/p' damaged/events.jsonl)" | tr -d ' ')
files=$(find "/proc/$agent/fd" -lname '*autolaunch-memory*' 2>/dev/null)
expect "slots of two ranks" 4 "$(echo "$files" | wc -w)"
# A byte in the middle of rank 0's or 1's data, in every slot.
for file in $files; do
    printf 'X' | dd of="$file" bs=1 seek=200000 conv=notrunc status=none || fail "cannot write to $file"
done
kill -9 "$(sed -n 's/.*"event":"rank_started","rank":1,.*"pid":\([0-9]*\).*/\1/p' damaged/events.jsonl)"
touch go
wait "$damaged"
expect "exit code after damage" 0 "$?"
expect "damaged copies are not taken" "from 0 nothing " "$(came_from damaged 1)"
contains "damage is told" damaged/events.jsonl "is damaged and not used"
expect "the same bits" "$(digests calm)" "$(digests damaged)"

# A limit that is too low is an error with its remedy, on every rank.
cat >train.yaml <<END
trainer: {command: ["$rank", "3"]}
resource_management: {ranks_per_node: 2}
checkpoint: {memory_limit: 1MB}
END
"$AUTOLAUNCH" --log-dir limited -c train.yaml >limited.log 2>limited.err.log </dev/null
expect "exit code with a low limit" 1 "$?"
grep -h "allows 1.0 MB" limited/generation-0/rank-*/stderr | grep -q "asked for .* for copies of its state, but .* holds" ||
    fail "the limit is not named: $(cat limited/generation-0/rank-*/stderr)"
grep -qh "set checkpoint.memory_limit higher" limited/generation-0/rank-*/stderr || fail "no remedy for the limit"

# Without an agent: the process's own memory.
(unset AUTOLAUNCH_SOCKET && "$rank" 5 >alone.log 2>alone.err.log)
expect "exit code without an agent" 0 "$?"
contains "it trains without an agent" alone.log "digest"

# Killed at random points of restores and copies, 100 times; the last attempt trains 3 steps more. It never goes back
# behind an earlier start, and ends with the bits of a run that nobody disturbed.
job chaos 2 100 3 chaos=300000 floats=1000000 copies=5
expect "exit code after 100 kills" 0 "$?"
expect "attempts" 101 "$(ls -d chaos/generation-*/rank-0 | wc -l)"
starts() { for ((i = 0; i <= 100; i++)); do sed -n 's/^from \([0-9]*\).*/\1/p' "chaos/generation-$i/rank-0/stdout"; done; }
starts | sort -n -c || fail "a restart went back behind an earlier one: $(starts | tr '\n' ' ')"
from=$(starts | tail -n 1)
[ "$from" -ge 2 ] || fail "too few copies came to be whole between the kills: $(starts | tr '\n' ' ')"
job chaos_calm 2 0 $((from + 3)) floats=1000000 every=1000000
expect "the same bits after 100 kills" "$(digests chaos_calm)" "$(digests chaos)"
torn=$(grep -l 1 copying-* | wc -l)
[ "$torn" -ge 10 ] || fail "only $torn ranks were killed in a copy"
echo "100 kills, $torn ranks of them or with them in a copy, $(starts | wc -l) starts, the last from step $from"
nothing_left
expect "shared memory left behind" "" "$(ls /dev/shm | grep -i autolaunch-memory)"
echo "passed"
