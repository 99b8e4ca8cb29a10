#!/bin/bash
# A job of replicas of two nodes each loses a node: ranks of the other replicas go on in their processes, as the ranks that they are
# now, and so do those of the broken replica that another node completes.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
machines=(node0 node1 node2 node3)
start_machines "${machines[@]}"
echo "exec $AUTOLAUNCH_BINARY_DIR/tests/integration/meeting_rank \"\$1\"" >rank.sh
. "$(dirname "$0")/elastic_nodes.sh"
sed -i 's/.*command.*/&\nresource_management: {nodes: {min: 2, max: 4, group: 2}}/' spec.yaml
met_by=number

meets() { cat "$1"/generation-*/rank-*/stdout 2>/dev/null | sed -n "s/^meets in $2 //p" | sort -k3n; } # JOB GENERATION: PID as RANK of …
all_meet() { [ "$(meets "$1" "$2" | wc -l)" = "$3" ]; }
ranks() { meets "$1" "$2" | sed 's/^[0-9]* as //'; }
stay() { # JOB GENERATION: PID of each rank of the generation before that goes on, as its new number
    join <(meets "$1" $(($2 - 1)) | sed 's/ as \([0-9]*\) .*/ \1/' | sort) <(meets "$1" "$2" | sed 's/ as \([0-9]*\) .*/ \1/' | sort) |
        sort -k2n | awk '{print $2 ">" $3}' | xargs
}
kill_agent() { # NODE JOB
    local process killed=
    for process in $(processes_on "$1" "--rdzv-id $2"); do
        [ "$(cat "/proc/$process/comm")" = autolaunch ] && kill -9 "$process" && killed=$process
    done
    [ -n "$killed" ] || fail "no agent on $1"
}
world() { # RANKS: two a node
    local rank
    for ((rank = 0; rank < $1; rank++)); do echo "$rank of $1, node $((rank / 2)) of $(($1 / 2))"; done
}

# A node of the second replica: the first one goes on as it is, and the other node of the second waits.
start job 2:4
eventually "all of it" all_meet job 0 8
expect "ranks at first" "$(world 8)" "$(ranks job 0)"
kill_agent node3 job
eventually "the first replica" all_meet job 1 4
expect "its ranks" "$(world 4)" "$(ranks job 1)"
expect "who stayed" "0>0 1>1 2>2 3>3" "$(stay job 1)"
expect "what runs on the rest of the other" "" "$(processes_on node2 meeting_rank)"
# Then one of the first: the node that waited completes it.
kill_agent node1 job
eventually "the completed replica" all_meet job 2 4
expect "its ranks" "$(world 4)" "$(ranks job 2)"
expect "who stayed" "0>0 1>1" "$(stay job 2)"
touch job.over
for node in node0 node2; do ended job "$node" 0; done

# A node of the head's replica: a node of the other one completes it. Its ranks go on as others, its fellow's end.
start other 2:4
eventually "all of it" all_meet other 0 8
kill_agent node1 other
eventually "the replica that is left" all_meet other 1 4
expect "its ranks" "$(world 4)" "$(ranks other 1)"
[[ $(stay other 1) =~ ^0\>0\ 1\>1\ (4\>2\ 5\>3|6\>2\ 7\>3)$ ]] || fail "who stayed: $(stay other 1)"
expect "the event" 4 "$(cat other/events*.jsonl | grep '"event":"rank_started"' | grep -c '"stayed":true')"
expect "logs of those that stayed" 1 "$(grep -l '^meets in 1 .* as 2 of 4' other/generation-0/rank-[46]/stdout | wc -l)"
touch other.over
for node in node0 node2 node3; do ended other "$node" 0; done
for node in "${machines[@]}"; do expect "what is left on $node" "" "$(processes_on "$node")"; done
echo "passed"
