#!/bin/bash
# Ranks that go on in their processes after another one was lost, by the backend of their collectives: NCCL's stay, on the
# fake GPUs, where the GPU is still theirs; MPI's are all started anew, and nobody is asked to do it.
. "$(dirname "$0")/lib.sh"
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/group_rank
kills=${RECOVERY_KILLS:-12}
flags=()

job() { # RUN_DIRECTORY RANKS RESTARTS ARGUMENT...
    "$AUTOLAUNCH" "${flags[@]}" --nproc-per-node "$2" --max-restarts "$3" --log-dir "$1" "$rank" "${@:4}" >"$1.log" 2>"$1.err.log" </dev/null
}
sums() { cat "$1"/generation-*/rank-*/stdout | sed -n 's/^summed \([0-9]*\) in \([0-9]*\) .*/\1 in \2/p' | sort | uniq -c | xargs; }
stayed() { # RUN_DIRECTORY
    grep '"event":"rank_started"' "$1/events.jsonl" | grep '"stayed":true' | sed 's/.*"rank":\([0-9]*\).*/\1/' | sort | xargs
}
left_behind() { pgrep -f "^$rank" -a | grep -F "$work" || true; }
# Of 40 steps on 3 ranks: ranks 0 and 2 are a group of two, rank 1 is alone.
good="1 5740 in 1 2 6560 in 1"

gpus_tried=0
for library in fake_gpu fake_gpu_218; do
    [ -e "$AUTOLAUNCH_BINARY_DIR/tests/$library/libnccl.so.2" ] || continue
    gpus_tried=1
    export LD_LIBRARY_PATH=$AUTOLAUNCH_BINARY_DIR/tests/$library
    job "one-$library" 3 1 40 nccl die=1:25
    expect "exit code of nccl after a kill, $library" 0 "$?"
    expect "ranks whose processes stayed, $library" "0 2" "$(stayed "one-$library")"
    expect "the sums, $library" "$good" "$(sums "one-$library")"

    # A GPU that a CUDA error has broken ends the process, not the job.
    job "broken-$library" 3 1 40 nccl die=1:25 broken=2:25
    expect "exit code with a broken GPU, $library" 0 "$?"
    expect "the one that stayed, $library" "0" "$(stayed "broken-$library")"
    expect "the sums, $library" "$good" "$(sums "broken-$library")"
done
if [ "$gpus_tried" = 1 ]; then
    # NCCL that does not let go of the GPU in its time.
    cat >holds.yaml <<END
trainer: {command: ["$rank", "40", nccl, "die=1:25", "holds=0:25"]}
resource_management: {ranks_per_node: 3}
restart: {max_restarts: 1, grace_period: 1s}
END
    "$AUTOLAUNCH" --log-dir holds -c holds.yaml >holds.log 2>holds.err.log </dev/null
    expect "exit code with an NCCL that holds the GPU" 0 "$?"
    expect "the one that stayed" "2" "$(stayed holds)"
    expect "the sums" "$good" "$(sums holds)"

    export LD_LIBRARY_PATH=$AUTOLAUNCH_BINARY_DIR/tests/fake_gpu
    job chaos 3 "$kills" 40 nccl chaos=60000
    expect "exit code after $kills kills" 0 "$?"
    expect "the sums after $kills kills" "1 5740 in $kills 2 6560 in $kills" "$(sums chaos)"
    in_place=$(stayed chaos | wc -w)
    [ "$in_place" -ge "$kills" ] || fail "only $in_place starts of ranks after $kills kills were in place"
    echo "nccl: $kills ends of a generation, $in_place ranks went on in their processes"
    unset LD_LIBRARY_PATH
else
    echo "not run: backend nccl, which is not in this build"
fi

# Its processes cannot lose one: all are started anew, and none of them waits for the others meanwhile.
if "$AUTOLAUNCH" --version | grep -q '^MPI  *in' && "$AUTOLAUNCH" --version | grep -q '^PMIX  *in'; then
    flags=(--mpi pmix)
    job mpi 3 1 40 mpi die=1:25
    expect "exit code of mpi after a kill" 0 "$?"
    expect "nobody stayed with mpi" "" "$(stayed mpi)"
    expect "the sums with mpi" "$good" "$(sums mpi)"
else
    echo "not run: MPI ranks, whose PMIx is not in this build"
fi
expect "processes left" "" "$(left_behind)"
