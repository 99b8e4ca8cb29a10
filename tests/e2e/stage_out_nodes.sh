#!/bin/bash
# What the ranks of several nodes write on their nodes' own disks goes to one folder (storage.stage_out). Each node is a set of
# namespaces with a scratch of its own; the target is where all of them see it.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
cat >train.yaml <<END
trainer: {command: [/bin/sh, -c, "true"], mpi: none}
storage: {scratch: /tmp/scratch, stage_out: [{from: res, to: $work/results}]}
rendezvous: {lost_after: 3s}
restart: {grace_period: 1s}
monitoring: {resource_tracking: false}
END
nodes=(one two three)
start_machines "${nodes[@]}"
# job NAME COMMAND: a job of three nodes; codes[] has what they ended with. MEANWHILE: a command while it runs.
job() {
    local i agents=()
    rm -rf run
    for i in 0 1 2; do
        on "${nodes[i]}" "$AUTOLAUNCH" run --nnodes 3 --node-rank $i --nproc-per-node 2 --rdzv-endpoint one --rdzv-id "out-$1" \
            --log-dir run -c train.yaml ${MORE:-} -- /bin/sh -c "$2" >"$1.$i.log" 2>&1 </dev/null &
        agents+=($!)
    done
    [ -z "${MEANWHILE:-}" ] || $MEANWHILE
    codes=()
    for i in 0 1 2; do
        local code=0
        wait "${agents[i]}" || code=$?
        codes+=($code)
    done
}
left_on() { (on "$1" sh -c 'ls /tmp/scratch/autolaunch-0/out 2>/dev/null') | xargs; }

job flat 'echo $RANK >$AUTOLAUNCH_OUT_RES/r$RANK; echo same >$AUTOLAUNCH_OUT_RES/same'
expect "codes of the first job" "0 0 0" "${codes[*]}"
expect "what came" "0 1 2 3 4 5 same" "$(cat results/* | xargs)"
for node in "${nodes[@]}"; do
    expect "what stays on $node" "" "$(left_on "$node")"
    contains "the line of $node" flat.0.log "copied    res of $node: "
done

# One name, two contents: both are named, nobody's is lost.
job clash 'echo $NODE_RANK >$AUTOLAUNCH_OUT_RES/log'
expect "codes of the second job" "73 73 73" "${codes[*]}"
grep -Eq "log was written by (one|two|three) and by " clash.0.log || fail "the two are not named: $(cat clash.0.log)"
stays=0
for node in "${nodes[@]}"; do
    folder=$(left_on "$node")
    [ -z "$folder" ] && continue
    stays=$((stays + 1))
    contains "what stays on $node" clash.0.log "left      on $node: res (2 B in 1 file) stays in /tmp/scratch/autolaunch-0/out/$folder"
    (on "$node" "$AUTOLAUNCH" stage-out --scratch /tmp/scratch --layout node "$folder") >finish.log 2>&1 || fail "finishing on $node: $(cat finish.log)"
done
expect "nodes whose file stayed" 2 $stays
expect "all three of them" "0 1 2" "$(cat results/log results/*/log | sort | xargs)"

# A node is lost: it is said by name, what the others have comes, and its own is finished there.
kill_agents_on() {
    local pid
    for pid in $(pgrep -x autolaunch); do
        [ "$(readlink "/proc/$pid/ns/uts")" = "$(readlink "/proc/${holder_of[$1]}/ns/uts")" ] && kill -9 "$pid"
    done
}
lose_two() {
    eventually "ranks of two" test -e began.2
    eventually "ranks of three" test -e began.4
    kill_agents_on two
}
MEANWHILE=lose_two job lost 'echo $RANK >$AUTOLAUNCH_OUT_RES/kept$RANK; touch began.$RANK; exec sleep 60'
expect "the code of the head" 68 "${codes[0]}"
expect "what came of the others" "0 1 4 5" "$(cat results/kept* | xargs)"
contains "the node that was lost" lost.0.log "left      on two: what its ranks have written stays in"
folder=$(left_on two)
[ -n "$folder" ] || fail "nothing is left on two"
(on two "$AUTOLAUNCH" stage-out --scratch /tmp/scratch) >finish.log 2>&1 || fail "finishing on two: $(cat finish.log)"
expect "all of it" "0 1 2 3 4 5" "$(cat results/kept* | xargs)"
for node in "${nodes[@]}"; do expect "what stays on $node" "" "$(left_on "$node")"; done

# The head is lost, and the job goes on: the next one asks those that are left, and names what is not.
agents=()
for node in "${nodes[@]}"; do
    on "$node" env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" run --nnodes 1:3 --rdzv-backend c10d --rdzv-endpoint one:23456 \
        --rdzv-id out-head -n 2 --log-dir head -c train.yaml -- /bin/sh -c 'echo $(hostname) >>$AUTOLAUNCH_OUT_RES/h.$(hostname).$LOCAL_RANK
        touch head.$AUTOLAUNCH_GENERATION.$RANK; until [ -e over ]; do sleep 0.05; done' >"head.$node.log" 2>&1 </dev/null &
    agents+=($!)
done
for rank in 0 2 4; do eventually "rank $rank" test -e head.0.$rank; done
kill_agents_on one
for rank in 0 2; do eventually "rank $rank of the next generation" test -e head.1.$rank; done
touch over
codes=()
for agent in "${agents[@]}"; do
    code=0
    wait "$agent" || code=$?
    codes+=($code)
done
expect "codes of a job that lost its head" "68 68 68" "${codes[*]}"
expect "what came" "three three three three two two two two" "$(cat results/h.* | sort | xargs)"
grep -hq "left      on one: what its ranks have written stays in" head.two.log head.three.log || fail "the lost head's part is not named: $(cat head.*.log)"
(on one "$AUTOLAUNCH" stage-out --scratch /tmp/scratch) >finish.log 2>&1 || fail "finishing on one: $(cat finish.log)"
expect "what came then" "one one three three three three two two two two" "$(cat results/h.* | sort | xargs)"
