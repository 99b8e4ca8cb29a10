#!/bin/bash
# A scheduler that signals every process of a job at once, as Slurm does with ProctrackType=proctrack/linuxproc: ranks,
# agent, keeper and helpers. It is a stop as every other: trainers save, no restart is spent, nothing is a failure.
. "$(dirname "$0")/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
openmpi=$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_openmpi
mpich=$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_mpich

below() { # PID: it and all below it, the youngest first
    local child
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do below "$child"; done
    echo "$1"
}
launch() { # ARGUMENTS...: in the background, with its run directory `run`
    rm -rf run
    "$AUTOLAUNCH" --log-dir run --max-restarts 2 "$@" >out.log 2>&1 </dev/null &
    launcher=$!
}
# The ranks and helpers before agent and keeper: at once, or 50 ms earlier.
signal_all() { kill -s "$1" $(below $launcher); }
ranks_first() {
    local all
    read -ra all <<<"$(below $launcher | tr '\n' ' ')"
    kill -s "$1" "${all[@]:0:${#all[@]}-2}"
    sleep 0.05
    kill -s "$1" "${all[@]: -2}"
}
is_a_stop() { # WHAT CODE
    wait $launcher
    expect "$1: exit code" "$2" $?
    expect "$1: failures" "" "$(grep -E '"event":"(generation_failed|restart)' run/events.jsonl)"
    expect "$1: generations" "generation-0" "$(cd run && echo generation-*)"
    contains "$1: verdict" out.log "stopped by SIG"
}
steps() { grep -qs '"event":"step"' run/events.jsonl; }

# A signal that only a rank got is for that rank: it ends it, a little later. Looked at last.
"$AUTOLAUNCH" --log-dir alone --nproc-per-node 1 "$misbehave" train:0 >alone.log 2>&1 </dev/null &
alone=$!
eventually "steps of the rank alone" grep -qs '"event":"step"' alone/events.jsonl
kill -TERM $(ranks_left)

serve=none
[ ! -x "$openmpi" ] || serve=pmix # trainers that save when they are asked to, with autolaunch-pmixd beside them
for how in "signal_all TERM" "ranks_first TERM" "ranks_first HUP"; do
    launch --mpi $serve --nproc-per-node 2 "$misbehave" train:0
    eventually "steps" steps
    $how
    is_a_stop "$how" "$([ "${how#* }" = TERM ] && echo 75 || echo 129)"
    expect "$how: ranks that saved" 2 "$(grep -c '/checkpoints/last' run/events.jsonl)"
done

# What asks for something else ends nobody, either.
launch --mpi $serve --nproc-per-node 2 "$misbehave" train:0
eventually "steps" steps
signal_all USR1
signal_all USR2
eventually "a checkpoint of each rank" eval '[ "$(grep -c /checkpoints/asked run/events.jsonl)" -ge 2 ]'
signal_all TERM
is_a_stop "after USR1" 75

for program in "$openmpi" "$mpich"; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    for ending in sleep stop-on-term leave-on-term; do
        launch --nproc-per-node 2 "$program" $ending
        eventually "ranks of $name" eval '[ "$(grep -c "rank . of 2" out.log)" = 2 ]'
        sleep 0.3 # past the exchanges that follow
        signal_all TERM
        is_a_stop "$name, $ending" 143
        [ $ending != stop-on-term ] || expect "ranks that stopped by themselves" 2 "$(cat run/generation-0/rank-*/stdout | grep -c 'stopped by itself')"
    done
done
wait $alone
expect "a rank alone: exit code" 143 $?
contains "a rank alone: the failure" alone.log "was killed by SIGTERM"
nothing_left
echo "passed"
