#!/bin/bash
# kill -9 of all that bears autolaunch's name, or has it in its command line (pkill -9 autolaunch, pkill -9 -f autolaunch),
# leaves nothing of the job: no rank, no child of a wrapper script, no daemon, no socket, no shared memory.
. "$(dirname "$0")/lib.sh"
openmpi=$AUTOLAUNCH_BINARY_DIR/tests/mpi_rank_openmpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# The processes of the job, by a variable that all but the guardian's own program inherit.
job_left() { grep -lzxF "JOB_MARK=$E2E_MARK" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
ranks_and_offspring() { for pid in $(job_left); do grep -qE 'autolaunch|guardian' "/proc/$pid/comm" || echo "$pid"; done 2>/dev/null; }
# All processes below the shell's job: nobody else's autolaunch is to die here.
below() {
    ps -e -o pid=,ppid= | awk -v root="$1" '{ parent[$1] = $2 }
        END { for (pid in parent) { at = pid; while (at in parent && at != root) at = parent[at]; if (at == root) print pid } }'
}
# called name|cmdline: those of them that pkill would find.
called() {
    local pid
    for pid in $(below "$job"); do
        case $1 in
            name) grep -q autolaunch "/proc/$pid/comm" ;;
            cmdline) tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q autolaunch ;;
        esac 2>/dev/null && echo "$pid"
    done
}
gone() { [ -z "$(job_left)" ]; }
nothing_in_shm() { [ -z "$(find /dev/shm -maxdepth 1 -name "$(basename "${sockets:-none}")*")" ]; }
no_sockets() { [ -z "$(ls "$XDG_RUNTIME_DIR")" ]; }
running() { [ "$(ranks_and_offspring | wc -l)" -ge "$1" ]; }

# killed WHAT PROCESSES PROGRAM...: once so many run
killed() {
    local what=$1 processes=$2 by
    shift 2
    for by in name cmdline; do
        rm -rf run
        JOB_MARK=$E2E_MARK "$AUTOLAUNCH" --nproc-per-node 2 --log-dir run "$@" >out.log 2>err.log </dev/null &
        job=$!
        eventually "$processes processes ($what)" running "$processes"
        sockets=$(ls -d "$XDG_RUNTIME_DIR"/autolaunch-*)
        mapfile -t found < <(called "$by")
        [ "${#found[@]}" -ge 2 ] || fail "$what: keeper and agent are not found by $by"
        kill -9 "${found[@]}"
        wait "$job" 2>/dev/null
        eventually "the end of all ($what, by $by)" gone
        eventually "the end of the folder of sockets ($what, by $by)" no_sockets
        eventually "the end of shared memory ($what, by $by)" nothing_in_shm
    done
}

cat >background.sh <<'EOS'
sleep 600 &
(setsid sleep 600 &)
wait
EOS
cat >workers.py <<'EOS'
import multiprocessing, time
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    for _ in range(2):
        multiprocessing.Process(target=time.sleep, args=(600,)).start()
    time.sleep(600)
EOS
killed "plain" 6 "$misbehave" daemon,stubborn-child,ignore-term,hang
killed "behind a shell" 4 sh -c 'sleep 600; true'
killed "behind a script with children" 6 sh background.sh
[ -z "$(command -v python3)" ] || killed "python with workers" 6 python3 workers.py
[ ! -x "$openmpi" ] || killed "MPI" 2 "$openmpi" sleep

# What could not be cleared away is removed by the next job, whenever it was left.
mkdir -m 700 "$XDG_RUNTIME_DIR/autolaunch-$(id -u)-dead01"
"$AUTOLAUNCH" --nproc-per-node 1 --log-dir run true >out.log 2>err.log </dev/null
expect "the next job" 0 "$?"
nothing_left
echo "passed"
