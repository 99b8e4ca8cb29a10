#!/bin/bash
# A job that may lose nodes (--nnodes MIN:MAX) goes on with those that are left: ranks get new numbers, and none of a lost node
# lives when they begin. Spares take the place of lost nodes.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
machines=(node0 node1 node2 node3)
start_machines "${machines[@]}"

# A rank says who it is, and works until the job is over. It saves for as long as it may when it is asked to stop.
cat >rank.sh <<'END'
echo "rank $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, on $(hostname)"
trap 'echo saves; sleep 1; exit 0' TERM
until [ -e "$1" ]; do sleep 0.05; done
END
. "$(dirname "$0")/elastic_nodes.sh"

start job 2:4
eventually "all of it" has_begun job 0 8
# Its agent is killed, and its kernel lives: that is known at once.
for process in $(processes_on node3 --rdzv-id); do
    [ "$(cat "/proc/$process/comm")" = autolaunch ] && kill -9 "$process" && killed=$process
done
[ -n "${killed:-}" ] || fail "no agent on node3"
goes_on job 1 6 node3
expect "ranks after the first loss" "$(all_ranks 3)" "$(ranks_of job 1 | sed 's/, on .*//')"
expect "where they are" "2 node0 2 node1 2 node2" "$(where_of job 1)"
# It is cut off, and its ranks live on until its agent has found out.
cut_off node1
goes_on job 2 4 node1
expect "ranks after the second loss" "$(all_ranks 2)" "$(ranks_of job 2 | sed 's/, on .*//')"
expect "where they are then" "2 node0 2 node2" "$(where_of job 2)"
touch job.over
ended job node0 0
ended job node2 0
ended job node1 68
for lost in node3 node1; do contains "who was lost" job.node0.log "✗ $lost was lost"; done
grep -Eq "^  go on     2 nodes · 4 ranks · without node[13], node[13]$" job.node0.log || fail "without whom it goes on: $(cat job.node0.log)"
contains "the event" job/events.jsonl '"event":"world_changed","nodes":2,"world_size":4,"without":['
ip link set node1 up

# One more than it may lose. Its nodes have numbers, as in a list of hosts.
met_by=number start less 3:4
eventually "all of it" has_begun less 0 8
cut_power node2
goes_on less 1 6 node2
cut_power node1
ended less node0 68
ended less node3 68
contains "why it ends" less.node0.log "✗ node1 was lost"
for node in "${machines[@]}"; do ip link set "$node" up; done

# A spare is of the job and has no ranks, until another is lost. Its own end is no more than a line.
start spare 2 --spare-nodes 2
eventually "all of it" has_begun spare 0 4
idle=$(for node in "${machines[@]}"; do [ -n "$(processes_on "$node" '^bash rank')" ] || echo "$node"; done)
expect "spares" 2 "$(wc -w <<<"$idle")"
read -r first_spare second_spare <<<"$(xargs <<<"$idle")"
expect "world at first" "$(all_ranks 2)" "$(ranks_of spare 0 | sed 's/, on .*//')"
cut_power "$first_spare"
eventually "the spare's end" grep -q "the spare $first_spare was lost" spare.node0.log
lost=$(ranks_of spare 0 | sed 's/.*, on //' | sort -u | grep -v '^node0$')
cut_power "$lost"
goes_on spare 1 4 "$lost"
expect "world with the spare" "$(all_ranks 2)" "$(ranks_of spare 1 | sed 's/, on .*//')"
expect "where it is" "$(printf '2 %s\n' node0 "$second_spare" | xargs)" "$(where_of spare 1)"
touch spare.over
ended spare node0 0
ended spare "$second_spare" 0
contains "who stands in" spare.node0.log "$second_spare instead"
for node in "${machines[@]}"; do ip link set "$node" up; done

# A node whose disk fails twice is left out, and what it did is kept for the job's requeues.
cat >rank.sh <<'END'
echo "rank $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, on $(hostname)"
[ "$RANK" != 2 ] || [ -s "$1.bad" ] || hostname >"$1.bad"
[ "$RANK" != 2 ] || [ "$(hostname)" != "$(cat "$1.bad")" ] || { echo "OSError: [Errno 28] No space left on device" >&2; exit 1; }
until [ -e "$1" ]; do sleep 0.05; done
END
start unfit 2 --spare-nodes 2 'restart.on={storage: {budget: 5, delay: 0s}}'
eventually "the third try" has_begun unfit 2 4
bad=$(cat unfit.over.bad)
contains "who is left out" unfit.node0.log "$bad is left out for the rest of the job: 2 generations ended there: storage, storage"
[[ $(where_of unfit 2) != *"$bad"* ]] || fail "$bad takes part: $(where_of unfit 2)"
contains "what is kept of it" unfit/restarts.json "\"node\": \"$bad\""
touch unfit.over
for node in "${machines[@]}"; do ended unfit "$node" 0; done
for node in "${machines[@]}"; do expect "what is left on $node" "" "$(processes_on "$node")"; done
echo "passed"
