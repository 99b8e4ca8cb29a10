#!/bin/bash
# MPI programs without mpirun, on this machine: nothing to set, what is shown, how ends count, and two agents as two nodes.
. "$(dirname "$0")/lib.sh"
openmpi=$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_openmpi
mpich=$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_mpich
mpis=()
for program in "$openmpi" "$mpich"; do [ -x "$program" ] && mpis+=("$program"); done
[ ${#mpis[@]} -gt 0 ] || skip "neither Open MPI (with PMIx) nor MPICH is here"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
shared_memory() { find /dev/shm -maxdepth 1 \( -name 'vader*' -o -name 'mpich*' -o -name 'autolaunch*mpi*' \) | sort; }
shared_before=$(shared_memory)

for program in "${mpis[@]}"; do
    name=$(basename "$program")
    for ranks in 1 2 4; do
        MPI_EXPECT_SIZE=$ranks "$AUTOLAUNCH" --nproc-per-node $ranks "$program" ok >"$name-$ranks.log" 2>&1
        expect "$name, $ranks ranks" 0 $?
        contains "its ranks" "$name-$ranks.log" "rank 0 of $ranks, local 0 of $ranks"
    done
    for ending in "abort 42" "exit 1" "kill 137" "last-skips-init 1"; do
        "$AUTOLAUNCH" --nproc-per-node 3 "$program" ${ending% *} >ending.log 2>&1
        expect "$name ${ending% *}" "${ending#* }" $?
        [ "${ending% *}" != abort ] || contains "$name's abort" ending.log "called MPI_Abort with error code 42"
    done
    "$AUTOLAUNCH" --nproc-per-node 2 "$program" no-init >no-init.log 2>&1
    expect "$name that does not use MPI" 0 $?
    contains "the warning" no-init.log "was rank 0 of 1"
    "$AUTOLAUNCH" plan "$program" >plan.log
    grep -q "^  mpi  *pmi.*: the program needs libmpi" plan.log || fail "the plan does not say why: $(cat plan.log)"
    MPI_EXPECT_SIZE=2 "$AUTOLAUNCH" --mpi none --nproc-per-node 2 "$program" fast >none.log 2>&1
    [ $? -ne 0 ] || fail "$name found its peers although nobody served it"

    # A node each, by hand: the loopback is their network.
    export AUTOLAUNCH_JOB_KEY=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
    for node in 0 1; do
        MPI_EXPECT_SIZE=4 "$AUTOLAUNCH" --nnodes 2 --node-rank $node --nproc-per-node 2 --rdzv-endpoint 127.0.0.1 \
            --log-dir "$work/two-$name" "$program" ok >"$name-node$node.log" 2>&1 &
        agents[node]=$!
    done
    for node in 0 1; do
        wait "${agents[node]}"
        expect "$name on two nodes, node $node" 0 $?
    done
    unset AUTOLAUNCH_JOB_KEY
done
"$AUTOLAUNCH" --nproc-per-node 2 /bin/true
expect "no MPI" 0 $?
"$AUTOLAUNCH" plan -n 1 /bin/true | grep -q "^  mpi  *none: the program is linked with no MPI" || fail "true is no MPI program"
# What other tests have meanwhile goes with them.
left=$(comm -13 <(echo "$shared_before") <(shared_memory))
left_is_gone() { for file in $left; do [ ! -e "$file" ] || return 1; done; }
eventually "the end of the shared memory $left" left_is_gone
nothing_left
