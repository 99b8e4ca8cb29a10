#!/bin/bash
# restart.straggler: replace, and while the ranks save for it the node is lost without which the slow one cannot go: it stays,
# a line says so, and the job goes on. So it is, for then, where more nodes are left.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
ranks="$AUTOLAUNCH_BINARY_DIR/tests/integration/flight_rank"
[ -x "$ranks" ] || fail "flight_rank is not built"
machines=(node0 node1 node2)
start_machines "${machines[@]}"
printf 'trainer: {command: [x], mpi: none}\nmonitoring: {interval_seconds: 1}\nrestart: {straggler: replace, grace_period: 60s}\n' >spec.yaml
declare -A agent_of
launch() { # JOB PORT OPTION...: an agent on each machine
    local node
    touch "$1.go.slow" "$1.go.hold"
    for node in "${machines[@]}"; do
        on "$node" env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" "${@:3}" --rdzv-backend c10d \
            --rdzv-endpoint "node0:$2" --rdzv-id "$1" -n 1 --log-dir "$1" -c "$work/spec.yaml" -- \
            "$ranks" pace "$work/$1.go" >"$1-$node.log" 2>&1 </dev/null &
        agent_of[$1-$node]=$!
    done
}
is_somewhere() { grep -qs "^on " "$1/generation-$2/rank-$3/stdout"; }
node_of() { # JOB GENERATION RANK
    eventually "rank $3 of generation $2 of $1" is_somewhere "$1" "$2" "$3"
    sed -n 's/^on //p' "$1/generation-$2/rank-$3/stdout"
}
says() { grep -qsF -- "$2" "$1-node0.log"; }
begins_to_replace() { # JOB: the node of rank 1 is slow; which one is left is printed
    local slow
    slow=$(node_of "$1" 0 1)
    [ "$slow" != node0 ] || fail "rank 1 is on the head's node"
    echo "$slow" >"$1.go.slow"
    [ "$slow" = node1 ] && echo node2 || echo node1
}
kill_agent() { # JOB NODE: the agent, not the namespace's nsenter or its keeper
    local pid
    for pid in $(pgrep -f "rdzv-id $1 "); do
        [ "$(tr '\0' '\n' <"/proc/$pid/cmdline" | head -n 1)" = "$AUTOLAUNCH" ] || continue
        [ "$(nsenter -t "$pid" -u hostname 2>/dev/null)" = "$2" ] && kill -KILL "$pid"
    done
}
ends() { # JOB NODE...: well, on these
    touch "$1.go"
    local node code
    for node in "${@:2}"; do
        code=0
        wait "${agent_of[$1-$node]}" || code=$?
        expect "exit code of $1 on $node" 0 "$code"
    done
}

launch spare 23456 --nnodes 2 --spare-nodes 1
launch member 23457 --nnodes 2:3
launch enough 23458 --nnodes 1:3
spare=$(begins_to_replace spare)
member=$(begins_to_replace member)
enough=$(begins_to_replace enough)
for job in spare member enough; do
    slow=$(cat "$job.go.slow")
    eventually "the node of rank 1 of $job is to be replaced" says "$job" "rank 1 on $slow is replaced"
    kill_agent "$job" "${!job}"
    # A node that took part is told of when the generation is over.
    [ "$job" != spare ] || eventually "the loss of the spare" says "$job" "the spare ${!job} was lost"
    [ "$job" = spare ] || sleep 1
    rm "$job.go.hold"
    eventually "the slow node of $job stays" grep -Eqs "$slow is not left out( yet: $enough was lost meanwhile|: )" "$job-node0.log"
    expect "where rank 1 of $job goes on" "$slow" "$(node_of "$job" 1 1)"
done
eventually "the others of member" says member "go on     2 nodes · 2 ranks · without $member"
says enough "$(cat enough.go.slow) is not left out yet: " || fail "not said: why the slow node of enough stays"
grep -q "is left out for the rest" ./*-node0.log && fail "a node was left out"
for job in spare member enough; do ends "$job" node0 "$(cat "$job.go.slow")"; done
echo passed
