#!/bin/bash
# A job that may lose nodes may lose its head: the others agree on another one, which goes on with the next generation, and a head that
# comes back from a pause or a cut cable finds that out, ends its ranks and writes nothing more. PAUSE=60 for a longer one.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
machines=(node0 node1 node2 node3)
start_machines "${machines[@]}"
. "$(dirname "$0")/elastic_nodes.sh"
sed -i 's/4s/2s/' spec.yaml
pause=${PAUSE:-6}

# A rank says who it is, and writes down ten times a second that it works.
cat >rank.sh <<'END'
echo "rank $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, on $(hostname)"
exec 9<> <(:)
until [ -e "$1" ]; do
    echo "$AUTOLAUNCH_GENERATION $EPOCHREALTIME $(</proc/sys/kernel/hostname)" >>"$1.beats"
    read -rt 0.1 <&9
done
exit 0
END

agent_on() { # MACHINE: the agent alone
    local process
    for process in $(processes_on "$1" --rdzv-id); do
        [ "$(cat "/proc/$process/comm")" = autolaunch ] && echo "$process"
    done
}
kill_head() { # JOB MACHINE
    date +%s.%N >"$1.killed"
    agent_on "$2" | xargs -r kill -9
}
head_of() { python3 - "$1/events.jsonl" "$2" <<'END'
import json, sys
heads = [e["node"] for e in map(json.loads, open(sys.argv[1])) if e["event"] == "head_changed" and e["generation"] == int(sys.argv[2])]
print(" ".join(heads))
END
}
# took JOB GENERATION: from the head's death until a rank of the generation works
took() { awk -v g="$2" -v from="$(cat "$1.killed")" '$1 == g && (!t || $2 < t) { t = $2 } END { printf "%.2f", t - from }' "$1.over.beats"; }
# apart JOB [MACHINE UNTIL]: no rank works when one of a later generation does, but on the machine, until then
apart() {
    python3 - "$1.over.beats" "${2:-}" "${3:-0}" <<'END' || fail "generations of $1 overlap"
import sys
first, last = {}, {}
for line in open(sys.argv[1]):
    generation, at, where = line.split()
    generation, at = int(generation), float(at)
    first[generation] = min(first.get(generation, at), at)
    if where != sys.argv[2] or at > float(sys.argv[3]):
        last[generation] = max(last.get(generation, at), at)
for generation in sorted(first):
    for later in first:
        if later > generation and last.get(generation, 0) > first[later]:
            sys.exit(f"generation {generation} works {last[generation] - first[later]:.3f} s into {later}")
END
}

# Killed three times in a row: of four nodes three are left, then two, which have the run directory as witness, then one.
start killed 1:4
eventually "all of it" has_begun killed 0 8
lost=() left=("${machines[@]}") head=node0
for generation in 1 2 3; do
    kill_head killed "$head"
    lost+=("$head")
    left=($(printf '%s\n' "${left[@]}" | grep -vx "$head"))
    goes_on killed "$generation" $((8 - 2 * generation)) "$head"
    head=$(head_of killed $((generation - 1))) # the first of those that are left, but where it is slow to stand
    [[ " ${left[*]} " == *" $head "* ]] || fail "the head after loss $generation is '$head', of ${left[*]}"
    echo "killed: $(took killed "$generation") s until generation $generation works, head $head"
done
touch killed.over
ended killed "$head" 0
for node in "${lost[@]}"; do ended killed "$node" 68; done
apart killed
python3 -c 'import json; [json.loads(line) for line in open("killed/events.jsonl")]' || fail "events.jsonl has a line that is none"
contains "the end" killed/exit.json '"exit_code": 0'
contains "who is head" killed/head.json "\"hostname\": \"$head\""
expect "files of votes that are left, also of those that were killed" "" "$(find killed -maxdepth 1 -name '.voter-*' -o -maxdepth 1 -name '.witness-*')"

# It is cut off, and comes back when another one is head.
start cut 2:4
eventually "all of it" has_begun cut 0 8
date +%s.%N >cut.killed
cut_off node0
goes_on cut 1 6 node0
echo "cut off: $(took cut 1) s until generation 1 works"
ip link set node0 up
ended cut node0 68
contains "what it says" cut.node0.log "is not the job's head any more"
# Another node is cut off, and its agent stopped before it finds out: its keeper counts from when the head was heard.
cut_off node3
sleep 1.5
agent_on node3 | xargs -r kill -STOP
goes_on cut 2 4 node3
ended cut node3 68
ip link set node3 up
touch cut.over
for node in node1 node2; do ended cut "$node" 0; done
apart cut

# The whole machine stands still, and goes on where it was.
start paused 2:4
eventually "all of it" has_begun paused 0 8
date +%s.%N >paused.killed
stopped=$(processes_on node0)
kill -STOP $stopped
eventually "generation 1 of paused" has_begun paused 1 6
echo "paused: $(took paused 1) s until generation 1 works"
# Who asks the job finds the head that it has now, from another machine, too.
(on node2 env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" drain node3 --job paused) >drain.out 2>&1 || fail "drain: $(cat drain.out)"
contains "what is said of it" drain.out "node3 is left: the job has 2 nodes and 4 ranks"
eventually "generation 2 of paused" has_begun paused 2 4
sleep "$pause"
lines=$(wc -l <paused/events.jsonl)
kill -CONT $stopped
back=$EPOCHREALTIME
ended paused node0 68
contains "what it says" paused.node0.log "is not the job's head any more"
expect "what is left on node0" "" "$(processes_on node0)"
sed -n "$((lines + 1)),\$p" paused/events.jsonl | grep '"generation":0' && fail "the old head has gone on with events.jsonl"
touch paused.over
for node in node1 node2 node3; do ended paused "$node" 0; done
apart paused node0 "$(awk -v t="$back" 'BEGIN { print t + 0.5 }')"
# A node that comes finds the head where it is now: by head.json, for nobody answers any more where all others have met. So does one
# on the first head's own node.
start moved 2:4 resource_management.grow=now
eventually "all of it" has_begun moved 0 8
kill_head moved node0
goes_on moved 1 6 node0
ended moved node0 68
start_on node0 moved 2:4 resource_management.grow=now
eventually "generation 2 of moved" has_begun moved 2 8
contains "who is head" moved/head.json '"hostname": "node1"'
expect "where it runs" "2 node0 2 node1 2 node2 2 node3" "$(where_of moved 2)"
on node2 env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" attach moved >attach.out 2>&1 </dev/null &
watcher=$!
eventually "the watcher" grep -q . attach.out
on node3 env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" drain node3 --job moved >drain.out 2>&1 || fail "drain: $(cat drain.out)"
ended moved node3 0
start_on node3 moved 2:4 resource_management.grow=now
eventually "generation 4 of moved" has_begun moved 4 8
touch moved.over
for node in "${machines[@]}"; do ended moved "$node" 0; done
wait "$watcher" || fail "exit code $? of attach"
contains "what a watcher sees" attach.out "go on     4 nodes"
contains "how attach ends" attach.out "the job has ended: succeeded"
apart moved

# More than half are lost at once: nobody can know whether the others go on, and who is left says what to do.
start halved 1:4
eventually "all of it" has_begun halved 0 8
for node in node1 node2 node3; do agent_on "$node" | xargs -r kill -9; done
ended halved node0 68
contains "why" halved.node0.log "no head was found that a majority follows"
contains "what to do" halved.node0.log "start the job again: more than half of its nodes are lost"

for node in "${machines[@]}"; do expect "what is left on $node" "" "$(processes_on "$node")"; done
echo "passed"
