#!/bin/bash
# What people do who come from torchrun and mpirun: lines without a number for the node, ranges, shortened options, several
# programs, a launcher inside a rank, two jobs with one folder, SIGINT from a script.
. "$(dirname "$0")/lib.sh"
export AUTOLAUNCH_JOB_KEY="a key of thirty-two bytes, or so"
run() { timeout 60 "$AUTOLAUNCH" "$@" </dev/null; } # COMMAND LINE

# The same line on both "nodes": the one that comes first on the endpoint's machine is the head.
port=$((20000 + RANDOM % 12000))
meet=(--nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:$port --rdzv-id=job7)
for node in 1 2; do
    run -q "${meet[@]}" --log-dir meet --no-python bash -c 'echo "$RANK/$WORLD_SIZE $GROUP_RANK $TORCHELASTIC_RUN_ID"' \
        >meet.$node.log 2>&1 &
    agents[node]=$!
done
for node in 1 2; do wait "${agents[node]}" || fail "agent $node: $(cat meet.$node.log)"; done
expect "ranks of both agents" "0/4 0 job7,1/4 0 job7,2/4 1 job7,3/4 1 job7" \
    "$(cat meet/generation-0/rank-*/stdout | sort | paste -sd,)"

# A range: one job of as many as come in time, and not one each.
port=$((port + 1))
range=(--nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:$port --rdzv-conf=last_call_timeout=3)
for node in 1 2 3; do
    run -q "${range[@]}" --log-dir range bash -c 'echo "$RANK/$WORLD_SIZE"' >range.$node.log 2>&1 &
    agents[node]=$!
done
for node in 1 2 3; do wait "${agents[node]}" || fail "agent $node: $(cat range.$node.log)"; done
expect "ranks of the range" "0/3,1/3,2/3" "$(cat range/generation-0/rank-*/stdout | sort | paste -sd,)"

# Pods: nothing carries the key, and each says so at once, with the line to add.
(
    unset AUTOLAUNCH_JOB_KEY
    export AUTOLAUNCH_MUNGE_SOCKET=$work/none KUBERNETES_SERVICE_HOST=10.0.0.1 PET_NNODES=2 PET_NPROC_PER_NODE=1
    export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=pod-0:23456
    timeout 20 "$AUTOLAUNCH" true >pod.log 2>&1 </dev/null
    expect "exit code of a pod without a key" 77 "$?"
)
contains "the line to add" pod.log "env: [{name: AUTOLAUNCH_JOB_KEY, valueFrom: {secretKeyRef:"
unset AUTOLAUNCH_JOB_KEY

# A launcher inside a rank: a job of its own, and it says so.
cat >outer.sh <<SCRIPT
[ "\$RANK" = 1 ] || exit 0
exec "$AUTOLAUNCH" -n 2 --log-dir inner bash -c 'echo "\$RANK/\$WORLD_SIZE"'
SCRIPT
run -n 2 --log-dir outer bash outer.sh >outer.log 2>&1 || fail "nested: $(cat outer.log)"
contains "nested" outer.log "inside rank 1 of another autolaunch: this is a job of its own, on this node alone"
expect "ranks inside" "0/2,1/2" "$(cat inner/generation-0/rank-*/stdout | sort | paste -sd,)"

# Two jobs, one --log-dir.
run -q --log-dir both bash -c 'echo >first; while [ ! -e over ]; do sleep 0.05; done' >first.log 2>&1 &
first=$!
eventually "the first job" test -e first
run --log-dir both bash -c 'echo second' >second.log 2>&1 || fail "the second job: $(cat second.log)"
touch over
wait $first || fail "the first job: $(cat first.log)"
contains "the second's folder" second.log "another autolaunch is running in both: this one has the folder both/"
expect "its output" second "$(cat both/*/generation-0/rank-0/stdout)"

# SIGINT, where a shell without job control has started us in the background, and ignores it for us.
"$AUTOLAUNCH" -q --log-dir int bash -c 'echo >started; exec sleep 60' >int.log 2>&1 </dev/null &
agent=$!
eventually "the start" test -e started
kill -INT $agent
wait $agent
expect "exit code after SIGINT" 130 "$?"

# Programs, scripts and words.
run -q --log-dir mpmd -n 1 --role lead bash -c 'echo "a $RANK/$WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE"' : \
    -n 2 --role work bash -c 'echo "b $RANK/$WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE"' >mpmd.log 2>&1 ||
    fail "several programs: $(cat mpmd.log)"
expect "several programs" "a 0/3 lead 0/1,b 1/3 work 0/2,b 2/3 work 1/2" \
    "$(cat mpmd/generation-0/rank-*/stdout | sort | paste -sd,)"
echo 'import sys; print(sys.argv[1:])' >script
run -q --log-dir script-run script -- -n 3 >script.log 2>&1 || fail "a script without an ending: $(cat script.log)"
contains "its arguments" script.log "['-n', '3']"
run -q --log-dir template -n 2 --tee=3 --log-line-prefix-template='<${role_name}${local_rank}>' --redirect=0 \
    bash -c 'echo line' >template.log 2>&1
expect "the template" "<default0>line,<default1>line" "$(sort template.log | paste -sd,)"
run -q --log-dir mpirun -np 2 -x WORD=yes --bind-to none --oversubscribe bash -c 'echo "$RANK $WORD"' >np.log 2>&1
expect "-np and -x" "0 yes,1 yes" "$(cat mpirun/generation-0/rank-*/stdout | sort | paste -sd,)"
bash -c "source <('$AUTOLAUNCH' --print-completion bash) && complete -p autolaunch" >complete.log 2>&1 ||
    fail "completion: $(cat complete.log)"
bash -c "source <('$AUTOLAUNCH' --print-completion bash); COMP_WORDS=(autolaunch --virt) COMP_CWORD=1; _autolaunch;
    echo \"\${COMPREPLY[*]}\"" >complete.log 2>&1
expect "a completion" "--virtual-local-rank" "$(cat complete.log)"
echo "passed"
