# What the tests on Slurm share. Source it, start_cluster, define functions test_…, and end with run_tests.
test_file=$(readlink -f "$0")
cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cluster.sh
. "${cluster%/slurm/*}/lib.sh"

export CLUSTER_STATE=$work/cluster CLUSTER_OWNER=$$ CLUSTER_SHARE=$work:$AUTOLAUNCH_SOURCE_DIR:$AUTOLAUNCH_BINARY_DIR
export PATH=${AUTOLAUNCH%/*}:$AUTOLAUNCH_BINARY_DIR/examples/hello:$AUTOLAUNCH_BINARY_DIR/examples/gpt:$PATH
unset XDG_RUNTIME_DIR "${!SLURM_@}"
trap '"$cluster" down 2>/dev/null; cleanup' EXIT

# start_cluster N: or say why not, and count as skipped
start_cluster() {
    local why
    why=$("$cluster" check 2>&1) || skip "no Slurm cluster here: ${why#cluster.sh: }"
    cluster_nodes=$1
    "$cluster" up "$1" || fail "the cluster did not start"
}
# on HOST COMMAND...: SIGINT works there, as in a terminal; 200 s are for what hangs
on() { "$cluster" on "$1" timeout -k 5 200 env --default-signal=INT,QUIT "${@:2}" </dev/null; }
login() { on head "$@"; } # where one types srun and sbatch
all_hosts() { # COMMAND...: on each of them, the head last
    local host
    for host in $(seq -f node%g "$cluster_nodes") head; do "$cluster" on "$host" "$@"; done
}

# spec RANKS_PER_NODE PROGRAM ARGUMENT...: writes train.yaml
spec() {
    local command
    command=$(printf '"%s", ' "${@:2}")
    printf 'trainer:\n  command: [%s]\nresource_management:\n  ranks_per_node: %s\n' "${command%, }" "$1" >train.yaml
}
# one_line SRUN'S OPTIONS -- AUTOLAUNCH'S: srun autolaunch -c train.yaml, in the run directory `run`; sets `code`
one_line() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    login srun "${options[@]}" autolaunch --log-dir run -c train.yaml "${@:2}" >out.log 2>err.log
    code=$?
}
# fact RANK NAME [GENERATION]: a variable of that rank, which ran `facts`
fact() { sed -n "s/^env $2=//p" "run/generation-${3:-0}/rank-$1/stdout"; }
ranks_that_met() { cat "$1"/generation-0/rank-*/stdout | grep -c 'all here'; } # RUN_DIRECTORY
# submit OPTIONS... <SCRIPT: sbatch; sets `job`, and its output goes to batch.log
submit() {
    { echo '#!/bin/bash'; cat; } >batch.sh
    job=$(login sbatch --parsable -o "$PWD/batch.log" "$@" batch.sh) || fail "sbatch failed"
}
batch() { # the same, and waits for the job's end
    submit "$@"
    eventually "the end of job $job" job_ended "$job"
}
job_field() { login scontrol show job -o "$1" | grep -o " $2=[^ ]*" | cut -d= -f2 | sort -u; } # JOB FIELD
job_ended() { [[ $(job_field "$1" JobState) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
kill_on() { # HOST SIGNAL PROGRAM: the oldest of that name there
    "$cluster" on "$1" pkill -o "-$2" -x "$3" || fail "no $3 on $1"
}
events() { grep -h "\"event\":\"$1\"" run/events*.jsonl 2>/dev/null; } # of all nodes
started() { [ "$(events rank_started | wc -l)" -ge "$1" ]; }             # so many ranks
no_jobs() { [ -z "$(login squeue -h)" ]; }
none_left() {
    left=$(no_jobs || login squeue && "$cluster" left)
    left+=$(find "$work" -name '.key*' -printf 'key file %p\n')
    [ -z "$left" ]
}
# Neither processes nor sockets, shared memory or temporary files on any node, nor the job's key in its folder. Slurm
# takes a moment to end a step after srun has. Each look enters all hosts, which takes longer than the pause.
nothing_left() {
    local until=$((SECONDS + 60))
    until none_left; do
        [ $SECONDS -lt $until ] || fail "left behind: $left"
        sleep 0.1
    done
}
# Scratch on each node's own disk: its /tmp, for /var/tmp is one for all nodes here. Jobs leave there what the next one
# finds, which nothing_left would name.
scratch=/tmp/scratch
drop_scratch() { all_hosts rm -rf $scratch; }

# All functions test_… of the file, in order, each in a folder and a subshell of its own, and nothing_left after each.
# One that fails does not keep the others from being run.
run_tests() {
    local name failed=() began
    for name in $(sed -n 's/^test_\([a-z0-9_]*\)() {.*/\1/p' "$test_file"); do
        began=$SECONDS
        echo "-- ${name//_/ }"
        if (mkdir "$work/$name" && cd "$work/$name" && work=$PWD && "test_$name" && nothing_left); then
            echo "   passed in $((SECONDS - began)) s"
        else
            failed+=("$name")
            "$cluster" logs >&2
            "$cluster" down
            "$cluster" up "$cluster_nodes" || fail "the cluster did not start again"
        fi
    done
    [ ${#failed[@]} -eq 0 ] || fail "${failed[*]}"
    echo "passed"
}
