#!/bin/bash
# Nodes that come to a running job, and that are taken out of it: a new one, one that was lost and returns, drain; who looks at it by
# attach; and nodes that are checked between two generations.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
machines=(node0 node1 node2 node3)
start_machines "${machines[@]}"
cat >rank.sh <<'END'
echo "rank $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, on $(hostname)"
trap 'echo saves; exit 0' TERM
until [ -e "$1" ]; do
    sleep 0.05
    [ "$RANK" != 1 ] || [ ! -e "$1.crash" ] || { rm "$1.crash" && kill -SEGV $$; }
done
END
. "$(dirname "$0")/elastic_nodes.sh"
call() { # NODE KEY COMMAND...: a person's program there
    local node=$1 key=$2
    shift 2
    (on "$node" env "AUTOLAUNCH_JOB_KEY=$key" "$AUTOLAUNCH" "$@") 2>&1
}
calls() { # CODE TEXT NODE COMMAND...
    local code=$1 text=$2 node=$3 got=0 said
    shift 3
    said=$(call "$node" "a key for this test" "$@") || got=$?
    [ "$got" = "$code" ] && grep -qF -- "$text" <<<"$said" || fail "$* on $node exits with $got, not $code with '$text': $said"
}
grow() { # NODE: its agent
    start_on "$1" grow 2:3 --rdzv-conf last_call_timeout=1 --max-restarts 3 resource_management.grow=now trainer.mpi=none
}

# Two of three begin, and the third joins at once: the ranks save first, and nothing counts as a restart.
for node in node0 node1; do grow "$node"; done
eventually "the beginning" has_begun grow 0 4
grow node2
eventually "a generation of three" has_begun grow 1 6
expect "ranks of three" "$(all_ranks 3)" "$(ranks_of grow 1 | sed 's/, on .*//')"
expect "ranks that saved" 4 "$(cat grow/generation-0/rank-*/stdout | grep -c '^saves$')"
contains "who has come" grow.node0.log "joined    node2 (10.78.0.13) · 2 ranks · takes part at once"
contains "its event" grow/events.jsonl '"event":"node_joined"'
grow node3
ended grow node3 68
contains "why it is refused" grow.node3.log "the job has all nodes that it may have: 3"

# Somebody looks at the console, and goes.
call node1 "a key for this test" attach "$work/grow" >attach.log &
watcher=$!
wrong=$(call node1 "another key of that length" attach "$work/grow") && fail "another key is let in"
grep -qF "the job has another key" <<<"$wrong" || fail "with another key: $wrong"

# A node that was lost returns, as a new one, and gets the ranks that it had.
cut_power node1
wait "$watcher"
goes_on grow 2 4 node1
ip link set node1 up
grow node1
eventually "the return of node1" has_begun grow 3 6
expect "where they are" "2 node0 2 node1 2 node2" "$(where_of grow 3)"
ranks_of grow 3 | grep -q "^rank 2 of 6, node 1 of 3, on node1$" || fail "node1 has other ranks: $(ranks_of grow 3)"

# What cannot be drained, and what can, and comes back.
calls 69 "node0 is the head's node" node2 drain node0 --job "$work/grow"
calls 68 "node9 is no node of this job" node2 drain node9 --job "$work/grow"
calls 0 "node2 is left: the job has 2 nodes and 4 ranks" node0 drain node2 --job "$work/grow"
ended grow node2 0
eventually "a generation without node2" has_begun grow 4 4
calls 69 "the job needs 2 nodes at least" node1 drain node1 --job "$work/grow"
contains "who was drained" grow.node0.log "left      node2 · drained"
grow node2
eventually "the return of node2" has_begun grow 5 6

# After a crash they send each other data. A node whose links are far slower than the others' is left out, and taken back by whoever
# has mended it.
generation=6 restarts=2
slow() { tc qdisc "$1" dev node1 root tbf rate 50mbit burst 32k latency 400ms && (on node1 tc qdisc "$1" dev eth0 root tbf rate 50mbit burst 32k latency 400ms); }
if slow add 2>tc.log; then
    touch grow.over.crash
    eventually "the generation after slow links" has_begun grow 6 4
    grep -Eq "node1 is left out for the rest of the job: .*node0 sends to node1 with [0-9.]+ MiB/s, others with [0-9]+, and node1 sends to node2 with " grow.node0.log ||
        fail "nobody names the slow links: $(cat grow.node0.log)"
    slow del
    contains "what is kept for requeues" grow/restarts.json '"node": "node1"'
    calls 68 "node2 is not left out of this job" node0 drain node2 --take-back --job "$work/grow"
    calls 0 "node1 is taken back: it waits as a spare" node0 drain node1 --take-back --job "$work/grow"
    eventually "a generation with it" has_begun grow 7 6
    generation=8 restarts=3
else
    echo "not run: a slow link, for this kernel has no tbf: $(cat tc.log)"
fi

# They look for each other, too: one that another does not reach is left out, though the head reaches both.
call node1 "a key for this test" attach "$work/grow" >attach.log &
watcher=$!
eventually "the watcher" grep -q . attach.log
(on node1 ip route add unreachable 10.78.0.13)
touch grow.over.crash
eventually "the next generation" has_begun grow $generation 4
contains "who did not reach whom" grow.node0.log "node2 is left out for the rest of the job: the check between generations: node1 does not reach node2; neither is proved faulty, and it came later"
eventually "the watcher's copy" grep -q "node1 does not reach node2" attach.log
contains "what is kept for requeues" grow/restarts.json '"node": "node2"'
touch grow.over
for node in node0 node1 node2; do ended grow "$node" 0; done
code=0
wait "$watcher" || code=$?
expect "exit code of attach" 0 "$code"
contains "how attach ends" attach.log "the job has ended: succeeded"
grep '"event":"job_ended"' grow/events.jsonl | grep -q "\"restarts\":$restarts" || fail "restarts: $(grep job_ended grow/events.jsonl)"

# A node that the checks before the start find unfit is left out, where the others are enough.
(on node3 touch /tmp/no-folder)
for node in node0 node1 node3; do
    start_on "$node" fit 2:3 rendezvous.preflight=true checkpoint.enabled=true checkpoint.checkpoint_dir=/tmp/no-folder
done
eventually "the beginning" has_begun fit 0 4
contains "who is left out" fit.node0.log "node3 is left out for the rest of the job: storage: "
expect "where they are" "2 node0 2 node1" "$(where_of fit 0)"
touch fit.over
for node in node0 node1 node3; do ended fit "$node" 0; done

# Its next start, as after a requeue, remembers that, until the node is taken back.
rm fit.over
fit_again() { for node in node0 node1 node3; do start_on "$node" fit 2:3; done; }
fit_again
eventually "the next start" has_begun fit 1 4
grep -q "node3 is left out for the rest of the job: storage: .*to take it back: autolaunch drain node3 --take-back" fit.node0.log ||
    fail "it does not say so: $(cat fit.node0.log)"
touch fit.over
for node in node0 node1 node3; do ended fit "$node" 0; done
rm fit.over
calls 0 "node3 may be of the job again" node0 drain node3 --take-back --job "$work/fit"
fit_again
eventually "the start with all" has_begun fit 2 6
touch fit.over
for node in node0 node1 node3; do ended fit "$node" 0; done

# A job of one node has no key: its user is let in on its machine.
(on node3 "$AUTOLAUNCH" -n 1 --log-dir alone -- bash -c 'until [ -e alone.over ]; do echo working; sleep 0.2; done') >alone.log 2>&1 </dev/null &
alone=$!
eventually "a job of one node" grep -qs working alone.log
(on node3 "$AUTOLAUNCH" attach "$work/alone") >attach.log 2>&1 &
watcher=$!
eventually "its console" grep -q working attach.log
calls 69 "node3 is the head's node" node3 drain node3 --job "$work/alone"
touch alone.over
wait "$alone" || fail "the job of one node: $(cat alone.log)"
wait "$watcher" || fail "attach: $(cat attach.log)"
for node in "${machines[@]}"; do expect "what is left on $node" "" "$(processes_on "$node")"; done
echo "passed"
