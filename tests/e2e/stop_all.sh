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
launch() { # ARGUMENTS...: until run/ready says that the ranks are there
    rm -rf run
    "$AUTOLAUNCH" --log-dir run --max-restarts 2 "$@" >out.log 2>&1 </dev/null &
    launcher=$!
}
# signal_all SIGNAL: leaves first, at once. ranks_first SIGNAL: the agent hears of it 50 ms later.
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
    expect "$1: generations" "generation-0" "$(ls run | grep generation)"
    contains "$1: verdict" out.log "stopped by SIG"
}
steps() { [ "$(grep -l '"event":"step"' run/events.jsonl 2>/dev/null | wc -l)" = 1 ]; }

serve=none
[ ! -x "$openmpi" ] || serve=pmix # trainers that save when they are asked to, with autolaunch-pmixd beside them
for how in signal_all ranks_first; do
    for signal in TERM INT; do
        launch --mpi $serve --nproc-per-node 2 "$misbehave" train:0
        eventually "steps" steps
        $how $signal
        is_a_stop "$how $signal" "$([ $signal = TERM ] && echo 75 || echo 130)"
        expect "$how $signal: ranks that saved" 2 "$(grep -c '/checkpoints/last' run/events.jsonl)"
    done
done

# What asks for something else ends nobody, either.
launch --mpi $serve --nproc-per-node 2 "$misbehave" train:0
eventually "steps" steps
signal_all USR1
signal_all USR2
eventually "a checkpoint of each rank" eval '[ "$(grep -c /checkpoints/asked run/events.jsonl)" -ge 2 ]'
signal_all TERM
is_a_stop "after USR1" 75

# A signal that only the rank got is for the rank: it ends it, a little later.
launch --max-restarts 0 --nproc-per-node 1 "$misbehave" train:0
eventually "steps" steps
kill -TERM $(ranks_left)
wait $launcher
expect "a rank alone: exit code" 143 $?
contains "a rank alone: the failure" out.log "was killed by SIGTERM"

for program in "$openmpi" "$mpich"; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    for ending in sleep stop-on-term leave-on-term; do
        launch --nproc-per-node 2 "$program" $ending
        eventually "ranks of $name" eval '[ "$(grep -c "rank . of 2" out.log)" = 2 ]'
        sleep 0.3 # past the exchanges that follow
        signal_all TERM
        is_a_stop "$name, $ending" 143
        [ $ending != stop-on-term ] || expect "ranks that stopped by themselves" 2 "$(grep -c 'stopped by itself' out.log)"
    done
done
nothing_left
echo "passed"
