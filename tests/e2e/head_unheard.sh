#!/bin/bash
# A node whose cable is out for almost rendezvous.lost_after: its lease is over, since that counts from what the head had answered, and
# it ends its ranks; the head, which counts from what it heard last, does not miss it. The others would wait forever for ranks
# that are gone, so the node says so, and the next generation begins with all nodes.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
machines=(node0 node1 node2)
start_machines "${machines[@]}"
. "$(dirname "$0")/elastic_nodes.sh"
# TCP sends again 0.2, 0.6, 1.4 and 3 s after the cable was pulled: the last of these is the first that comes through, after the
# lease's end and before the silence is too long.
sed -i 's/4s/3400ms/' spec.yaml

# A rank that waits for others that are gone does not end by itself, as with collectives that hang.
cat >rank.sh <<'END'
echo "rank $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, on $(hostname)"
exec 9<> <(:)
until [ -e "$1" ]; do read -rt 0.1 <&9; done
exit 0
END

# Neither clock knows of the other, so that it may be missed on either side: then once more.
ended_generation() { grep -qs '"event":"generation_ended"' "$1/events.jsonl"; }
for try in 1 2 3 4 5 6; do
    start "cut$try" 2:3
    eventually "all of it" has_begun "cut$try" 0 6
    cut_off node2
    sleep 2.5
    ip link set node2 up
    for ((i = 0; i < 20; i++)); do ended_generation "cut$try" && break || sleep 0.1; done
    grep -qs '"event":"generation_ended".*"cause":"network"' "cut$try/events.jsonl" && break
    echo "try $try: $(grep -hs "killed\|was lost" "cut$try".node*.log | head -n 1)"
    touch "cut$try.over"
    wait "${agent_of[node0]}" "${agent_of[node1]}" "${agent_of[node2]}"
done
job=cut$try
contains "what the node says" "$job/events.jsonl" "node2: this node's ranks are killed: no head that a majority follows was heard of for rendezvous.lost_after"
contains "why it ends" "$job/events.jsonl" '"what":"node2 was cut off from the head for too long"'
eventually "generation 1 with all nodes" has_begun "$job" 1 6
touch "$job.over"
for node in "${machines[@]}"; do ended "$job" "$node" 0; done
contains "on the screen" "$job.node0.log" "node2: this node's ranks are killed"
nothing_left
count_failures
