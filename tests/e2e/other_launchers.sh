#!/bin/bash
# A C++ trainer on the library starts under every launcher: autolaunch, alone, mpirun, and torchrun's environment.
. "$(dirname "$0")/lib.sh"

hello=$AUTOLAUNCH_BINARY_DIR/examples/hello/hello
[ -x "$hello" ] || skip "examples are not built"

expect "alone" "rank 0 of 1, local rank 0 on node 0: the ranks add up to 0" "$(env -i "$hello")"

"$AUTOLAUNCH" -q --nproc-per-node 3 --log-dir run "$hello" >out.log 2>err.log </dev/null
expect "exit code under autolaunch" 0 "$?"
expect "ranks under autolaunch" 3 "$(grep -c 'of 3, .* the ranks add up to 3$' out.log)"

# What torchrun sets when rank 0 serves the store itself.
port=$((20000 + RANDOM % 20000))
for rank in 0 1; do
    env -i PATH="$PATH" RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 \
        TORCHELASTIC_MAX_RESTARTS=0 "$hello" >torchrun.$rank.log 2>&1 &
    ranks[$rank]=$!
done
for rank in 0 1; do
    wait "${ranks[$rank]}"
    expect "exit code of torchrun's rank $rank" 0 "$?"
    contains "torchrun's rank $rank" torchrun.$rank.log "rank $rank of 2, local rank $rank on node 0: the ranks add up to 1"
done

if command -v mpirun >/dev/null && "$AUTOLAUNCH" --version | grep -q '^MPI  *in'; then
    timeout 60 mpirun --allow-run-as-root --oversubscribe -n 2 "$hello" >mpi.log 2>&1 </dev/null
    expect "exit code under mpirun" 0 "$?"
    expect "ranks under mpirun" 2 "$(grep -c 'of 2, .* the ranks add up to 1$' mpi.log)"
else
    echo "mpirun: not tried (no mpirun, or a build without MPI)"
fi
echo "passed"
