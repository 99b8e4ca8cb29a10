#!/bin/bash
# The scripts of `autolaunch render slurm` as a real Slurm's Prolog, Epilog and HealthCheckProgram: dcgm-exporter's files say
# whose each GPU is while the job runs, a killed job's metrics are gone after it, and a node that is not fit gets no job.
. "$(dirname "$0")/lib.sh"
chmod 755 "$work"
textfiles=$work/textfiles
mkdir "$textfiles"
"$AUTOLAUNCH" render slurm --output "$work/scripts" --textfile-dir "$textfiles" >out.log 2>&1 || fail "render: exit code $?"
# The node's fitness is a file's here; everything else is autolaunch's own.
cat >autolaunch-here <<END
#!/bin/sh
if [ "\$1" = doctor ] && [ -e "$work/unfit-\$(hostname)" ]; then
    echo "[node_problem] gpus: a GPU is lost"
    exit 78
fi
exec "$AUTOLAUNCH" "\$@"
END
chmod 755 autolaunch-here
sed -i "s|^autolaunch=.*|autolaunch=$work/autolaunch-here|" scripts/*.sh
export CLUSTER_GPUS=4 CLUSTER_CONF=$(sed "s|/etc/slurm/|$work/scripts/|" scripts/slurm.conf.lines)
start_cluster 2

mapping() { "$cluster" on "$1" sh -c 'cd /run/autolaunch/gpu-jobs && grep -H . [0-9]* | paste -sd" "' 2>/dev/null; } # NODE
mapping_is() { [ "$(mapping "$1")" = "$2" ]; }
running() { [ "$(job_field "$1" JobState)" = RUNNING ]; }
state_of() { login sinfo -hN -n "$1" -o %T; }
state_is() { [ "$(state_of "$1")" = "$2" ]; }

test_gpus_of_jobs_are_told() {
    local first second
    submit -N1 -w node1 --gpus=2 <<<'sleep 300'
    first=$job
    submit -N2 --gpus-per-node=1 <<<'sleep 300'
    second=$job
    eventually "the first job" running "$first"
    eventually "the second job" running "$second"
    eventually "the files on node1" mapping_is node1 "0:$first 1:$first 2:$second"
    eventually "the files on node2" mapping_is node2 "0:$second"
    expect "names that dcgm-exporter may take" "" "$("$cluster" on node1 ls /run/autolaunch/gpu-jobs | grep -vE '^[0-9]+(\.[0-9]+)?$')"
    login scancel "$first"
    eventually "the end of the first" mapping_is node1 "2:$second"
    login scancel "$second"
    eventually "the end of the second" mapping_is node1 ""
    eventually "the end of the second on node2" mapping_is node2 ""
    expect "nodes" "idle idle" "$(login sinfo -hN -o %T | paste -sd' ')"
}
test_what_a_killed_job_left_goes() {
    touch "$textfiles/other.prom"
    batch -N1 -w node1 <<END
touch $textfiles/autolaunch_\${SLURM_JOB_ID}_0.prom $textfiles/autolaunch_\${SLURM_JOB_ID}0_0.prom
END
    only_others() { [ "$(cd "$textfiles" && echo *)" = "autolaunch_${job}0_0.prom other.prom" ]; }
    eventually "the end of its metrics, and of no other job's" only_others
}
test_unfit_node_gets_no_job() {
    touch "$work/../unfit-node2"
    submit -N1 -w node2 <<<'true'
    eventually "the node's drain" state_is node2 drained
    job_ended "$job" && fail "the job ran on a node that is not fit"
    rm "$work/../unfit-node2"
    login scontrol update nodename=node2 state=resume
    login scontrol release "$job" 2>/dev/null
    login scontrol update jobid="$job" starttime=now 2>/dev/null
    eventually "the job, once the node is fit" job_ended "$job"
    expect "how it ended" COMPLETED "$(job_field "$job" JobState)"
}
test_health_check_has_nothing_to_say_of_a_fit_node() {
    "$cluster" on node1 env -i sh "$work/../scripts/autolaunch-health.sh" >out.log 2>&1 || fail "exit code $?"
    expect "what it says" "" "$(cat out.log)"
    state_is node1 idle || fail "node1 is $(state_of node1)"
}
run_tests
