#!/bin/bash
# Asked to stop, ranks know how long they have: they save, and leave before they are killed, though the second place for
# their checkpoints, which they would wait for a minute, never answers.
. "$(dirname "$0")/lib.sh"
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/tier_rank

cat >train.yaml <<END
trainer: {command: ["$rank", "$work/near", "$work/far", "1000000"]}
resource_management: {ranks_per_node: 2}
restart: {grace_period: 8s}
END
"$AUTOLAUNCH" --log-dir run -c train.yaml >out.log 2>err.log </dev/null &
launcher=$!
eventually "five steps" eval 'grep -qs "\"step\":5," run/events.jsonl'
until [ -f far ]; do # from here on nothing can be drained; a drain may make the directory again meanwhile
    rm -rf far
    { : >far; } 2>/dev/null
done
began=$SECONDS
kill -TERM "$launcher"
wait "$launcher"
[ $((SECONDS - began)) -ge 5 ] || fail "the last checkpoint was not waited for: $((SECONDS - began)) s"
[ $((SECONDS - began)) -le 10 ] || fail "it took $((SECONDS - began)) s"
for i in 0 1; do
    left=$(sed -n 's/^stopped at .*, \(.*\) s left$/\1/p' "run/generation-0/rank-$i/stdout")
    awk -v left="${left:-0}" 'BEGIN {exit !(left > 5 && left <= 8)}' || fail "rank $i says '$left' s are left of 8"
    contains "rank $i's end" "run/generation-0/rank-$i/stdout" digest
done
grep -q '"event":"rank_signalled"' run/events.jsonl && fail "ranks were signalled: $(grep rank_signalled run/events.jsonl)"
step=$(sed -n 's/^stopped at \([0-9]*\),.*/\1/p' run/generation-0/rank-0/stdout)
expect "the last checkpoint" "$(printf 'step-%08d' "$step")" "$(ls near | grep '^step' | tail -n 1)"
nothing_left
echo "passed"
