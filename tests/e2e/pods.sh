#!/bin/bash
# Pods as Kubeflow's PyTorchJob starts them, and an indexed Job: no shared folder, no MUNGE, the same line in all, autolaunch as
# PID 1.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
start_machines train-worker-0 train-worker-1 train-worker-2
key="AUTOLAUNCH_JOB_KEY=what a Secret holds, as a variable"
rank=("$AUTOLAUNCH" /usr/bin/python3 "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/store_client.py")

# start_pods CASE VARIABLE=VALUE...: both, with these variables, in which @ is the pod's index; writes CASE.POD.log
start_pods() {
    local case=$1 pod
    shift
    for pod in 0 1; do
        as_container "train-worker-$pod" env -i PATH="$PATH" HOME=/root KUBERNETES_SERVICE_HOST=10.96.0.1 \
            PET_NPROC_PER_NODE=2 PYTHONUNBUFFERED=1 "${@//@/$pod}" "${rank[@]}" >"$work/$case.$pod.log" 2>&1 </dev/null &
        pods[$case.$pod]=$!
    done
}
declare -A pods
elastic=(PET_NNODES=2 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=train-worker-0:23456 PET_MAX_RESTARTS=0)
ended() { # CASE CODE: both exit with it
    local pod code
    for pod in 0 1; do
        code=0
        wait "${pods[$1.$pod]}" || code=$?
        expect "exit code of pod $pod, $1" "$2" "$code"
    done
}
# met CASE NODE-OF-POD-0 NODE-OF-POD-1: one job of four ranks
met() {
    ended "$1" 0
    expect "ranks, $1" \
        "rank 0 of 4 on node $2, train-worker-$2: 4 met,rank 1 of 4 on node $2, train-worker-$2: 4 met,rank 2 of 4 on node $3, train-worker-$3: 4 met,rank 3 of 4 on node $3, train-worker-$3: 4 met" \
        "$(grep -ho 'rank [0-9] of .* met$' "$1".?.log | sort -u | paste -sd,)"
}

# An indexed Job of three pods that may lose one. Pod 2's node loses its power, and the Job's controller makes the pod anew, with
# the same index: nobody takes it for the one that was lost.
printf "trainer: {command: [x]}\nrendezvous: {lost_after: 4s, timeout: 5s}\n" >spec.yaml
for pod in 0 1 2; do # the kubelet's line, and what the headless Service resolves
    echo "$network.$((11 + pod)) train-worker-$pod.workers.default.svc.cluster.local train-worker-$pod" >>hosts
done
indexed_pod() { # POD LOG
    as_container "train-worker-$1" env -i PATH="$PATH" HOME=/root KUBERNETES_SERVICE_HOST=10.96.0.1 "JOB_COMPLETION_INDEX=$1" "$key" \
        "$AUTOLAUNCH" --nnodes 2:3 -n 2 --log-dir indexed -c "$work/spec.yaml" -- bash -c 'echo "rank $RANK of $WORLD_SIZE on $(hostname) in $AUTOLAUNCH_GENERATION"
            until [ -e "$0" ]; do sleep 0.1; done' "$work/indexed.over" >"$work/indexed.$2.log" 2>&1 </dev/null &
    pods[indexed.$2]=$!
}
ranks_of_indexed() { grep -ho "rank [0-9] of .* in $1" indexed.[0-9].log | sort; }
has_ranks() { [ "$(ranks_of_indexed "$1" | wc -l)" = "$2" ]; }
kill_pod() { # POD: and its node
    local process space
    ip link set "train-worker-$1" down
    space=$(readlink "/proc/${holder_of[train-worker-$1]}/ns/uts")
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/uts" 2>/dev/null)" != "$space" ] || [ "${process#/proc/}" = "${holder_of[train-worker-$1]}" ] ||
            kill -9 "${process#/proc/}" 2>/dev/null
    done
    ip link set "train-worker-$1" up
}
for pod in 0 1 2; do indexed_pod "$pod" "$pod"; done

# Those that wait for a deadline wait while the others run.
start_pods "other keys" "${elastic[@]}" PET_RDZV_ID=keys PET_RDZV_CONF=timeout=8 "$key @"
start_pods range "${elastic[@]}" PET_RDZV_ID=range PET_NNODES=1:4 PET_RDZV_CONF=last_call_timeout=5 "$key"

start_pods elastic "${elastic[@]}" PET_RDZV_ID=elastic "$key"
met elastic 0 1
# The form with a master, which numbers the pods; WORLD_SIZE and RANK are the operator's, too.
start_pods master PET_NNODES=2 PET_NODE_RANK=@ PET_MASTER_ADDR=train-worker-0 PET_MASTER_PORT=23457 \
    MASTER_ADDR=train-worker-0 MASTER_PORT=23457 WORLD_SIZE=4 RANK=@ "$key"
met master 0 1

start_pods "no key" "${elastic[@]}" PET_RDZV_CONF=timeout=300
ended "no key" 77 # within 60 s, so not at that deadline
for pod in 0 1; do
    contains "the line to add, pod $pod" "no key.$pod.log" "env: [{name: AUTOLAUNCH_JOB_KEY, valueFrom: {secretKeyRef:"
done
met range 0 1
ended "other keys" 77
for pod in 0 1; do contains "the reason, pod $pod" "other keys.$pod.log" "another key"; done

eventually "the Job's ranks" has_ranks 0 6
kill_pod 2
eventually "ranks without pod 2" has_ranks 1 4
expect "who is left" "rank 0 of 4 on train-worker-0 in 1,rank 1 of 4 on train-worker-0 in 1,rank 2 of 4 on train-worker-1 in 1,rank 3 of 4 on train-worker-1 in 1" \
    "$(ranks_of_indexed 1 | paste -sd,)"
indexed_pod 2 returned
sleep 1
touch indexed.over
for pod in 0 1; do
    code=0
    wait "${pods[indexed.$pod]}" || code=$?
    expect "exit code of pod $pod of the Job" 0 "$code"
done
wait "${pods[indexed.returned]}" && code=0 || code=$?
[[ $code =~ ^(0|68)$ ]] || fail "the pod that came back ended with $code: $(cat indexed.returned.log)"
grep "in 0" indexed.returned.log && fail "the pod that came back ran ranks of a generation that is over"
echo "passed"
