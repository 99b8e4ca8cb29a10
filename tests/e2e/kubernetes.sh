#!/bin/bash
# Pods of what `autolaunch submit --to` prints: each kind of job trains as one, with names of DNS that come when their pods do, without
# root, with the cluster's secrets; a pod that dies is followed as the objects say, and returns with its index and another address;
# a pod that does not know how many there are is refused. kubelet.py is what surrounds them.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
if [ "${ROOM_HAS_USERS:-}" = yes ]; then
    for_all_users
    cp -r "$AUTOLAUNCH_BINARY_DIR/share" . && chmod -R a+rX share || fail "no Python module"
fi
start_machines node0 node1 node2
kubelet=(/usr/bin/python3 "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/kubelet.py")
ip addr add "$network.1/24" dev switch || fail "no place for the name server"
: >records
"${kubelet[@]}" dns "$network.1" "$work/records" 2>dns.log &
secrets='{"train-key/key": "what the cluster has", "hub/token": "token-of-the-hub", "db/password": "password-of-db"}'
declare -A pods

mkdir claim && cat >claim/train.py <<'END'
import os, socket, sys, time
import autolaunch
claim, rank = sys.argv[1], os.environ["RANK"]
step = int(open(f"{claim}/step").read()) if os.path.exists(f"{claim}/step") else 0
shown = [os.environ.get("HF_TOKEN", "none"), open(os.environ["DB_FILE"]).read() if "DB_FILE" in os.environ else "none"]
print(f"rank {rank} of {os.environ['WORLD_SIZE']} on {socket.gethostname()} in {os.environ['AUTOLAUNCH_GENERATION']}"
      f" from {'a checkpoint' if step else 'nothing'}, user {os.getuid()}, secrets {len(shown[0])} {len(shown[1])}", flush=True)
while True:
    step += 1
    time.sleep(0.05)
    if rank == "0":
        with open(f"{claim}/.step", "w") as file:
            file.write(str(step))
        os.rename(f"{claim}/.step", f"{claim}/step")
        autolaunch.report_checkpoint(step, f"{claim}/step")
    autolaunch.report_step(step)
    if os.path.exists(f"{claim}/over") or autolaunch.stop_requested():
        break
END
[ "${ROOM_HAS_USERS:-}" != yes ] || chown -R 1000:1000 claim

# render KIND NODES NAME [KEY=VALUE...]: NAME.yaml and its pods' folders
render() {
    local kind=$1 nodes=$2 name=$3
    shift 3
    cat >"$name.spec.yaml" <<END
trainer: {command: [/usr/bin/python3, "$work/claim/train.py", "$work/claim"], mpi: none}
resource_management: {ranks_per_node: 2, nodes: $nodes}
rendezvous: {timeout: 20s}
monitoring: {log_path: "$work/claim/runs"}
secrets: {HF_TOKEN: {file: ~/.hf_token}, DB: {command: [pass, db], as: file, ranks: 1}}
kubernetes:
  image: registry.example.org/train:1
  namespace: team
  name: $name
  job_key: train-key/key
  secrets: {HF_TOKEN: hub/token, DB: db/password}
  volumes: [{mount: "$work/claim", claim: claim}]
  autolaunch_path: $AUTOLAUNCH
END
    "$AUTOLAUNCH" submit -c "$name.spec.yaml" --to "$kind" "$@" >"$name.yaml" 2>"$name.notes.log" || fail "no manifest: $(cat "$name.notes.log")"
    "${kubelet[@]}" pods "$name.yaml" "$secrets" "$work/$name" || fail "no pods of $name"
}
# start_pod NAME N [ADDRESS]: writes NAME.N.log, as long as it runs
start_pod() {
    local name=$1 pod=$2 address=$network.${3:-$((11 + $2))}
    nsenter -t "${holder_of[node$pod]}" -n sh -c "ip addr flush dev eth0 && ip addr add $address/24 dev eth0" || fail "no address"
    sed -i "/^$(name_of "$name" "$pod") /d" records
    echo "$(name_of "$name" "$pod") $address" >>records
    as_pod "$name" "$pod" "$address" >>"$name.$pod.log" 2>&1 </dev/null &
    pods[$name.$pod]=$!
}
name_of() { "${kubelet[@]}" name "$work/$1/$2"; }
as_pod() {
    on "node$2" unshare --pid --fork --mount-proc --mount --uts --kill-child=KILL "${kubelet[@]}" run "$work/$1/$2" "$3" "$network.1"
}
child_of() { tr -d ' ' <"/proc/$1/task/$1/children"; }
kill_pod() { # NAME N: all of it, at once
    kill -9 "$(child_of "$(child_of "${pods[$1.$2]}")")" || fail "pod $2 of $1 does not run"
    wait "${pods[$1.$2]}" && fail "pod $2 of $1 ended well" # its code, 137, unshare does not hand on
    sed -i "/^$(name_of "$1" "$2") /d" records
}
ended() { # NAME N CODE
    local code=0
    wait "${pods[$1.$2]}" || code=$?
    expect "exit code of pod $2 of $1" "$3" "$code"
}
ranks_of() { cat "$1".?.log | grep -o "rank [0-9] of .* in $2 .*" | sort; }
has_ranks() { [ "$(ranks_of "$1" "$2" | wc -l)" = "$3" ]; }
user=$([ "${ROOM_HAS_USERS:-}" = yes ] && echo 1000 || echo 0)

# One job of three pods, whatever made it. Pod 0's name comes last: until then the others look for it.
touch claim/over
for kind in kubernetes jobset volcano; do
    rm -f claim/step
    render "$kind" 3 "$kind"
    start_pod "$kind" 2
    start_pod "$kind" 1
    sleep 0.7
    start_pod "$kind" 0
    for pod in 0 1 2; do ended "$kind" "$pod" 0; done
    middle=$([ "$kind" = kubernetes ] || echo -worker)
    [ "$kind" != jobset ] || middle=-worker-0
    for rank in 0 1 2 3 4 5; do
        echo "rank $rank of 6 on $kind$middle-$((rank / 2)) in 0, user $user, secrets 16 $([ $rank = 1 ] && echo 14 || echo 4)"
    done >expected
    expect "ranks of $kind" "$(cat expected)" "$(ranks_of "$kind" 0 | sed "s/ from [a-z ]*//")"
    contains "the head of $kind" "$kind.0.log" "3 nodes x 2 ranks"
    grep "is not that of" "$kind.0.log" && fail "the pods of $kind are said to differ"
    grep -q "token-of-the-hub\|password-of-db\|what the cluster has" "$kind.yaml" && fail "a secret is in the objects of $kind"
done

# A job that needs both pods: one is killed. The other ends with 75, which counts for nothing, and both come back and go on.
rm claim/over claim/step
render kubernetes 2 whole
for pod in 0 1; do start_pod whole "$pod"; done
eventually "a checkpoint" eval '[ "$(cat claim/step 2>/dev/null || echo 0)" -ge 5 ]'
kill_pod whole 1
ended whole 0 75
expect "what follows from 137" Count "$("${kubelet[@]}" after whole.yaml 137)"
expect "what follows from 75" Ignore "$("${kubelet[@]}" after whole.yaml 75)"
expect "what follows from a program's end" FailJob "$("${kubelet[@]}" after whole.yaml 1)"
rm whole.?.log # a rank that starts late may find the first run's own checkpoint
for pod in 0 1; do start_pod whole "$pod" $((31 + pod)); done
eventually "ranks that go on" eval '[ "$(ranks_of whole 0 | grep -c "from a checkpoint")" = 4 ]'
touch claim/over
for pod in 0 1; do ended whole "$pod" 0; done

# Its pods are asked to go, as by a preemption: they save, end with 75, and the Job makes them anew.
rm claim/over claim/step
for pod in 0 1; do start_pod whole "$pod"; done
eventually "another checkpoint" eval '[ "$(cat claim/step 2>/dev/null || echo 0)" -ge 5 ]'
for pod in 0 1; do kill -TERM "$(child_of "$(child_of "${pods[whole.$pod]}")")"; done
for pod in 0 1; do ended whole "$pod" 75; done
touch claim/over

# One that may lose a pod: it goes on, and takes the pod back that comes with the same index and another address.
rm claim/over claim/step
render jobset '{min: 2, max: 3}' grows resource_management.grow=now
for pod in 0 1 2; do start_pod grows "$pod"; done
eventually "three pods" has_ranks grows 0 6
eventually "a checkpoint" test -e claim/step
kill_pod grows 2
eventually "two pods" has_ranks grows 1 4
start_pod grows 2 43
eventually "three pods again" has_ranks grows 2 6
expect "the ranks of the pod that returned" "rank 4 of 6 on grows-worker-0-2,rank 5 of 6 on grows-worker-0-2" \
    "$(ranks_of grows 2 | sed -n '5,6s/ in .*//p' | paste -sd,)"
touch claim/over
for pod in 0 1 2; do ended grows "$pod" 0; done

# TrainJob's variables: PET_* beside the index of the Job that it makes.
mkdir trainjob && cp -r jobset/* trainjob/
for pod in 0 1 2; do
    /usr/bin/python3 - "trainjob/$pod/pod.json" "$pod" <<'END'
import json, sys
pod = json.load(open(sys.argv[1]))
pod["environment"].update(PET_NNODES="3", PET_NPROC_PER_NODE="2", PET_NODE_RANK=sys.argv[2], PET_MASTER_ADDR="jobset-worker-0-0.jobset", PET_MASTER_PORT="29500")
spec = pod["command"].index("-c")
pod["command"][spec + 2:] = ["--", "/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE on $(hostname) in 0 of TrainJob"]
json.dump(pod, open(sys.argv[1], "w"))
END
    start_pod trainjob "$pod"
done
for pod in 0 1 2; do ended trainjob "$pod" 0; done
expect "ranks of TrainJob" 6 "$(ranks_of trainjob 0 | grep -c 'of 6')"

# Pods that do not know how many there are train nothing.
printf 'trainer: {command: [/bin/true]}\n' >lone.yaml
alone() { # TEXT VARIABLE=VALUE...
    local text=$1
    shift
    says 65 "$text" env -i PATH="$PATH" HOME="$work" KUBERNETES_SERVICE_HOST=10.96.0.1 "$@" "$AUTOLAUNCH" --log-dir lone -c lone.yaml
    says 65 "$text" env -i PATH="$PATH" HOME="$work" KUBERNETES_SERVICE_HOST=10.96.0.1 "$@" "$AUTOLAUNCH" plan -c lone.yaml
}
alone "this looks like one of an indexed Job of Kubernetes, by JOB_COMPLETION_INDEX=1" JOB_COMPLETION_INDEX=1
alone "this looks like one of a job of Volcano, by VC_TASK_INDEX=0" VC_TASK_INDEX=0
alone "this looks like one of a job of Volcano, by VC_*_HOSTS=a.j,b.j" VC_WORKER_HOSTS=a.j,b.j
alone "node rank 1 of 1 nodes" PET_NODE_RANK=1 PET_MASTER_ADDR=train-0
alone "nothing says how many nodes there are" PET_NODE_RANK=0 PET_MASTER_ADDR=train-0
alone "this looks like one of a job whose operator numbers" RANK=1 MASTER_ADDR=train-0
count_failures
