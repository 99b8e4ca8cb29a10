#!/bin/bash
# A PyTorch script that stands still: the rank that holds the others up is named first, with what it does and where, and those that
# wait for gradients within backward are told of as waiting. Nothing of it is known to the script but its steps.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' >/dev/null 2>&1 ||
    skip "no torch.distributed with gloo in $python"
export PYTHON_EXEC=$python OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
printf 'trainer: {command: [x]}\nrestart: {hang_after: 6s}\n' >spec.yaml

declare -A job
for mode in reads locks mismatch loader; do
    mkfifo "$mode.pipe"
    "$AUTOLAUNCH" -n 3 -c spec.yaml --log-dir "$mode" -- "$python" "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/standstill_torch.py" "$mode" \
        "$work/$mode.pipe" >"$mode.out.log" 2>"$mode.log" </dev/null &
    job[$mode]=$!
done
where="in main (standstill_torch.py:"
declare -A says=(
    [reads]="rank 1 (pid [0-9]*) opens a file, in read (standstill_torch.py:"
    [locks]="rank 1 (pid [0-9]*) waits for a lock or another thread, in stand (standstill_torch.py:"
    [mismatch]="rank 1 waits in broadcast, called in stand (standstill_torch.py:"
    [loader]="rank 1 (pid [0-9]*) waits for its child [^ ]* (pid [0-9]*), which opens a file, $where"
)
for mode in "${!job[@]}"; do
    wait "${job[$mode]}"
    expect "exit code of $mode" 124 $?
    grep -q "^✗ ${says[$mode]}" "$mode.log" || fail "rank 1 of $mode is not named: $(cat "$mode.log")"
    grep -q "ranks 0,2 wait in backward, called $where" "$mode.log" || fail "the others of $mode are not told of: $(cat "$mode.log")"
    # From the last step until all of it was said: three usual ones and 2 s, and what a busy machine adds.
    echo "$mode: $(sed -n 's/^the job stands still: //p' "$mode.log" | head -1)"
done
