#!/bin/bash
# MPI behind what is linked with none: wrappers, shells, python. One job, not N; what cannot be one says so; what only loads
# MPI, or starts an mpirun of its own, is left alone.
. "$(dirname "$0")/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpis=()
for mpi in openmpi mpich; do
    [ -x "$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_$mpi" ] && mpis+=("$mpi")
done
[ ${#mpis[@]} -gt 0 ] || skip "neither Open MPI (with PMIx) nor MPICH is here"
python=${PYTHON:-/usr/bin/python3}

al() { # NAME EXPECTED_CODE ARGUMENTS...: leaves its output in NAME.log
    local name=$1 expected=$2 code=0
    shift 2
    timeout 60 "$AUTOLAUNCH" --log-dir "$work/run-$name" "$@" >"$name.log" 2>&1 </dev/null || code=$?
    expect "exit code of $name: $*" "$expected" "$code"
}
is_one_job() { # NAME COMMAND...: of two ranks, all of which see two
    local name=$1
    shift
    [[ " $* " == *" : "* ]] && set -- -n 1 "$@" || set -- -n 2 "$@"
    MPI_EXPECT_SIZE=2 al "$name" 0 "$@"
    contains "$name" "$name.log" "rank 0 of 2"
    contains "$name" "$name.log" "rank 1 of 2"
    ! grep -q warning "$name.log" || fail "$name: $(cat "$name.log")"
}

cat >wrap.sh <<'EOF'
#!/bin/sh
ulimit -c 0
"$@"
EOF
chmod +x wrap.sh
cat >start.py <<'EOF'
import subprocess, sys
sys.exit(subprocess.run(sys.argv[1:]).returncode)
EOF
cat >load.py <<'EOF'
import ctypes, sys, time
ctypes.CDLL(sys.argv[1])
time.sleep(1.3)
EOF

for mpi in "${mpis[@]}"; do
    program=$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_$mpi
    is_one_job "env-$mpi" env A=1 "$program" ok
    is_one_job "nice-$mpi" nice timeout 50 "$program" ok
    is_one_job "shell-$mpi" sh -c "$program ok; exit \$?"
    is_one_job "wrap-$mpi" ./wrap.sh "$program" ok
    is_one_job "python-$mpi" "$python" start.py "$program" ok
    ! command -v numactl >/dev/null || is_one_job "numactl-$mpi" numactl -l "$program" ok
    # A user namespace, as containers' entry points make one. UCX, which MPICH has, cannot share memory over two.
    [ $mpi = mpich ] || ! unshare -Ur true 2>/dev/null || is_one_job "unshare-$mpi" unshare -Ur "$program" ok
    is_one_job "programs-$mpi" sh -c "$program ok; exit \$?" : -n 1 "$program" ok
    al "abort-$mpi" 42 -n 2 sh -c "$program abort; exit \$?"
    contains "the abort" "abort-$mpi.log" "called MPI_Abort with error code 42"

    # Two programs as one rank: side by side the second one is turned away, one after the other both run.
    al "twice-$mpi" 0 -n 2 sh -c "$program stop-on-term >first-$mpi.\$RANK & first=\$!
        for i in \$(seq 600); do grep -q 'rank . of 2' first-$mpi.\$RANK && break; sleep 0.05; done
        timeout 30 $program ok; code=\$?; echo second \$((code != 0 && code != 124)); touch done-$mpi.\$RANK
        for i in \$(seq 600); do [ -e done-$mpi.0 ] && [ -e done-$mpi.1 ] && break; sleep 0.05; done
        kill -TERM \$first; wait \$first; echo first \$?"
    expect "second processes that were turned away" 2 "$(cat "run-twice-$mpi"/generation-0/rank-*/stdout | grep -cx 'second 1')"
    expect "first processes" 2 "$(cat "run-twice-$mpi"/generation-0/rank-*/stdout | grep -cx 'first 0')"
    expect "jobs of two" 2 "$(cat first-$mpi.* | grep -c 'rank . of 2')"
    contains "why" "twice-$mpi.log" "a second process"
    al "after-$mpi" 0 -n 2 sh -c "$program ok && $program ok"

    # Two nodes, by hand.
    export AUTOLAUNCH_JOB_KEY=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
    for node in 0 1; do
        MPI_EXPECT_SIZE=4 timeout 60 "$AUTOLAUNCH" --nnodes 2 --node-rank $node --nproc-per-node 2 --rdzv-endpoint 127.0.0.1 \
            --log-dir "$work/two-$mpi" sh -c "$program ok" >"two-$mpi-$node.log" 2>&1 </dev/null &
        agents[node]=$!
    done
    for node in 0 1; do
        wait "${agents[node]}"
        expect "$mpi behind a shell on two nodes, node $node" 0 $?
    done
    unset AUTOLAUNCH_JOB_KEY

    # Each rank alone: an error, unless it is meant.
    al "clean-$mpi" 76 -n 2 env -i PATH="$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$program" sleep
    contains "what is wrong" "clean-$mpi.log" "each is rank 0 of 1"
    contains "the remedy" "clean-$mpi.log" "--mpi none"
    al "alone-$mpi" 0 -n 2 --mpi none sh -c "env -i PATH=\"\$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 $program fast && sleep 0.7"

    # One that is over in a tenth of a second is seen as a rule; here in one of five runs at least.
    # MPICH's segments are there for a few milliseconds: too short to be sure of.
    [ $mpi = mpich ] || for try in 1 2 3 4 5; do
        code=0
        timeout 60 "$AUTOLAUNCH" --log-dir "$work/run-short-$mpi-$try" -n 2 env -i PATH="$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 \
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$program" fast >"short-$mpi.log" 2>&1 </dev/null || code=$?
        [ $code -ne 76 ] || break
    done
    [ $mpi = mpich ] || expect "exit code of short jobs of one rank each" 76 $code

    # Left behind in MPI_Init by ranks that have ended: named, and gone with whatever helped them.
    al "left-$mpi" 0 -n 2 setsid "$program" sleep
    contains "what was left" "left-$mpi.log" "left running"
    ! grep -q "still there" "left-$mpi.log" || fail "left in MPI_Init: $(cat "left-$mpi.log")"

    # Loaded and not initialised: no matter; without its variables: a warning.
    library=$(ldd "$program" | awk '/libmpi(ch)?\.so/{print $3}')
    al "load-$mpi" 0 -n 2 "$python" load.py "$library"
    ! grep -q warning "load-$mpi.log" || fail "a loaded library: $(cat "load-$mpi.log")"
    al "stray-$mpi" 0 -n 2 env -i "$python" load.py "$library"
    contains "a stray" "stray-$mpi.log" "has loaded MPI without being told who it is"
done

# A launcher within a rank has ranks of its own.
! command -v mpirun.openmpi >/dev/null || [[ " ${mpis[*]} " != *" openmpi "* ]] || {
    al nested-openmpi 0 -n 2 sh -c "MPI_EXPECT_SIZE=3 RANK= mpirun.openmpi --oversubscribe -n 3 \
        sh -c 'unset RANK LOCAL_WORLD_SIZE; exec $AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_openmpi ok; sleep 1'"
    contains "mpirun within a rank" nested-openmpi.log "rank 2 of 3"
}
! command -v mpiexec.mpich >/dev/null || [[ " ${mpis[*]} " != *" mpich "* ]] || {
    al nested-mpich 0 -n 2 sh -c "MPI_EXPECT_SIZE=3 mpiexec.mpich -n 3 \
        sh -c 'unset RANK LOCAL_WORLD_SIZE; exec $AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_mpich ok'"
    contains "mpiexec within a rank" nested-mpich.log "rank 2 of 3"
}

"$AUTOLAUNCH" plan -n 64 sh -c true >plan.log || fail "plan"
grep -q "^  mpi  *offered: the program is linked with no MPI; " plan.log || fail "the plan: $(cat plan.log)"
[ "$(nproc)" -ge 64 ] || for setting in OMPI_MCA_mpi_yield_when_idle I_MPI_WAIT_MODE; do
    grep -q "^  $setting  *1  .*64 ranks on $(nproc) CPUs\?: an MPI rank that waits lets others compute" plan.log ||
        fail "the plan has no $setting: $(cat plan.log)"
    env "$setting=0" "$AUTOLAUNCH" plan -n 64 sh -c true | grep -q "^  $setting  *0  .*kept from your environment" ||
        fail "$setting of the user's"
done
nothing_left
