#!/bin/bash
# An unmodified PyTorch DDP script: two ranks join through env:// and the agent's store, one is killed, the job comes
# back, resumes from the script's own checkpoint and ends with the loss of an undisturbed run.
. "$(dirname "$0")/lib.sh"

python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' >/dev/null 2>&1 ||
    skip "no torch.distributed with gloo in $python"
export PYTHON_EXEC=$python OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
script=$AUTOLAUNCH_SOURCE_DIR/examples/torch_ddp/train.py

train() { # NAME EXTRA...: with torchrun's own flags
    local name=$1
    shift
    "$AUTOLAUNCH" --standalone --nproc_per_node=2 --max-restarts=2 --log-dir "$name" \
        "$script" --steps 1000 --checkpoint-every 20 --checkpoint "$work/$name.pt" "$@" \
        >"$name.out.log" 2>"$name.err.log" </dev/null
}
final_loss() { grep -h 'step 1000/1000' "$1"/generation-*/rank-0/stdout | sed 's/.*loss //'; }

train whole
expect "exit code of the undisturbed run" 0 "$?"
contains "both ranks" whole.out.log "rank 1 of 2 on cpu: from step 1"

train killed &
job=$!
eventually "two checkpoints" grep -qs 'step 40/1000' killed/generation-0/rank-0/stdout
kill -9 "$(sed -n 's/.*"event":"rank_started","rank":1,.*"pid":\([0-9]*\).*/\1/p' killed/events.jsonl)"
wait "$job"
expect "exit code of the run that lost a rank" 0 "$?"
contains "the failure is named" killed.err.log "rank 1"
grep -qE 'from step [2-9][0-9]*' killed/generation-1/rank-0/stdout || fail "it did not resume: $(cat killed/generation-1/rank-0/stdout)"
[ -n "$(final_loss whole)" ] || fail "no final loss"
expect "final loss after the restart" "$(final_loss whole)" "$(final_loss killed)"

# A checkpoint that is no checkpoint: the job ends once, with 74; asked to, it starts anew and keeps it.
echo garbage >torn.pt
train torn
expect "exit code over a checkpoint that cannot be read" 74 "$?"
contains "the reason" torn.err.log "cannot go on from $work/torn.pt"
contains "no restart" torn.err.log "no restart: it would find the same checkpoints"
[ -e torn/generation-1 ] && fail "a restart was tried"
train torn --pass-over-unusable --steps 20
expect "exit code of a run that starts anew" 0 "$?"
expect "what could not be read" garbage "$(cat torn.pt.unread-*)"
nothing_left
echo "passed"
