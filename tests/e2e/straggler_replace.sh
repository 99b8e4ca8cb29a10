#!/bin/bash
# restart.straggler: replace. A node whose rank the others wait for is left out once that has lasted, and a spare takes its place;
# never the head's, and never for what the rank itself is slow in.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
ranks="$AUTOLAUNCH_BINARY_DIR/tests/integration/flight_rank"
[ -x "$ranks" ] || fail "flight_rank is not built"
machines=(node0 node1 node2 node3)
start_machines "${machines[@]}"
printf 'trainer: {command: [x]}\nmonitoring: {interval_seconds: 1}\nrestart: {straggler: replace}\n' >spec.yaml
touch go.slow
declare -A agent_of
for node in "${machines[@]}"; do
    on "$node" env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" --nnodes 3 --spare-nodes 1 --rdzv-backend c10d \
        --rdzv-endpoint node0:23456 --rdzv-id job -n 1 --log-dir job -c "$work/spec.yaml" -- \
        "$ranks" pace "$work/go" >"$node.log" 2>&1 </dev/null &
    agent_of[$node]=$!
done
is_somewhere() { grep -qs "^on " "job/generation-$1/rank-$2/stdout"; }
node_of() { # GENERATION RANK
    eventually "rank $2 of generation $1" is_somewhere "$1" "$2"
    sed -n 's/^on //p' "job/generation-$1/rank-$2/stdout"
}
slow() { printf '%s\n' "$@" >go.slow; }

first=$(node_of 0 1)
[ -n "$first" ] && [ "$first" != node0 ] || fail "rank 1 is on '$first'"
expect "the head's rank" node0 "$(node_of 0 0)"
slow node0
eventually "the head's node stays" grep -q "rank 0 stays on node0, although rank 0 is busy for .*: that is the head's own node, which must stay" node0.log
slow "$first"
eventually "the node of rank 1 is replaced" grep -q "rank 1 on $first is replaced (restart for straggler, 1 of 3 in 6 h): rank 1 is busy for " node0.log
eventually "the others go on" grep -Eq "go on     3 nodes · 3 ranks · without $first · node[0-9] instead" node0.log
contains "why it is left out" node0.log "$first is left out for the rest of the job: the others waited for its ranks (restart.straggler: replace)"
contains "the event" job/events.jsonl '"next":"restart","cause":"straggler"'
expect "ranks that saved when they were asked to stop" 3 "$(cat job/generation-0/rank-*/stdout | grep -c '^saved step ')"
second=$(node_of 1 1)
[ "$second" != "$first" ] || fail "rank 1 is on $first again"
slow "$first" "$second"
eventually "what is slow on two nodes is the rank's own work" \
    grep -q "rank 1 stays on $second, although .*: it was slow on $first, too, so it is its own work, and no node's fault" node0.log
sleep 4 # more windows: it was said
expect "lines of it" 1 "$(grep -c "rank 1 stays on" node0.log)"
expect "generations" 2 "$(ls -d job/generation-* | wc -l)"
touch go
for node in "${machines[@]}"; do
    code=0
    wait "${agent_of[$node]}" || code=$?
    expect "exit code of $node" 0 "$code"
done

# Where no node may go, that is said at once.
"$AUTOLAUNCH" -n 2 -c spec.yaml --log-dir one -- true >one.log 2>&1 || fail "a job of one node: $(cat one.log)"
contains "why nothing is replaced" one.log "restart.straggler: replace replaces no node: every node is needed"
echo "passed"
