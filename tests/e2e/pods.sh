#!/bin/bash
# Two pods of a PyTorchJob, as Kubeflow starts them: no shared folder, no MUNGE, the same line in both, autolaunch as PID 1.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
start_machines train-worker-0 train-worker-1
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
echo "passed"
