# The roles of the administrator's file as limits of a real Slurm: slurmdbd on MariaDB takes what `autolaunch policy render
# slurm` writes, slurmctld holds jobs back by it, and `policy diff` finds what somebody has changed since.
. "$(dirname "$0")/lib.sh"

. "${cluster%/*}/slurmdbd.sh"
for_all_users
export PATH=$work/programs:$PATH
start_cluster 2
site=/etc/autolaunch/site.yaml

# ---- users, the administrator's file and slurmdbd, in the hosts' own /etc ------------------------------------------
cat >site.yaml <<'END'
contact: ops@example.org
security:
  authorization:
    rbac_enabled: true
    user_groups:
      - {name: Engineers, permissions: [train, checkpoint], resource_limits: {max_gpus: 4, max_memory: 64GB, max_time: 2h}}
      - {name: students, resource_limits: {max_gpus: 1, max_time: 10m}}
END
cat >own_etc.sh <<'END'
set -e
mkdir -p /run/etc && cp -a "$1/etc" /run/etc/new && mkdir /run/etc/was && mount --rbind /etc /run/etc/was
mount --bind /run/etc/new /etc
for kept in slurm hosts hostname resolv.conf; do
    [ -e "/etc/$kept" ] || { [ "$kept" = slurm ] && mkdir /etc/slurm || : >"/etc/$kept"; }
    [ -L "/etc/$kept" ] || mount --bind "/run/etc/was/$kept" "/etc/$kept"
done
END
mkdir etc && tar -C /etc --exclude=./slurm -cf - . | tar -C etc -xf - || fail "no copy of /etc"
printf '%s\n' amy:x:2001:2001::/:/bin/sh ben:x:2002:2002::/:/bin/sh eve:x:2005:2005::/:/bin/sh >>etc/passwd
printf '%s\n' amy:x:2001: ben:x:2002: eve:x:2005: Engineers:x:3001:amy students:x:3002:ben >>etc/group
install -d -m 755 etc/autolaunch && install -m 644 site.yaml etc/autolaunch/site.yaml
all_hosts bash "$work/own_etc.sh" "$work" || fail "the hosts have no /etc of their own"
# as USER COMMAND...: on the head, as that user logs in
as() { login setpriv --reuid "$1" --regid "$1" --init-groups env HOME=/ "${@:2}"; }
begin_accounting

# policy EXPECTED_CODE ARGUMENTS...: as root on the head; what it said is in out.log
policy() {
    local expected=$1 code=0
    shift
    login autolaunch policy "$@" >out.log 2>&1 || code=$?
    expect "exit code of policy $*: $(cat out.log)" "$expected" "$code"
}
reason_is() { [ "$(login squeue -h -j "$1" -o %r)" = "$2" ]; } # JOB REASON
sleeper() { # USER OPTIONS...: submits a job that sleeps; sets `job`
    job=$(as "$1" sbatch --mem=1G --parsable -o /dev/null "${@:2}" --wrap 'exec sleep 60' 2>err.log)
}
is_running() { [ "$(job_field "$1" JobState)" = RUNNING ]; }

test_before_it_is_loaded() {
    policy 1 diff
    contains "what is missing" out.log "whether slurmctld applies limits"
    contains "what is missing" out.log "AccountingStorageEnforce=associations,limits,qos"
    contains "what is missing" out.log "the QoS of engineers: the file says a role ($site:6), the cluster has no QoS of that name"
    policy 0 show
    contains "who enforces" out.log "AccountingStorageEnforce is none: slurm.conf needs"
}

test_rendered_and_loaded() {
    policy 0 render slurm "$work/limits"
    add_to_conf <../limits/slurm.conf.lines
    "$cluster" on head cp "$work/limits/job_submit.lua" /etc/slurm/job_submit.lua || fail "job_submit.lua"
    restart_slurmctld
    login sh "$work/limits/sacctmgr.sh" >load.log 2>&1 || fail "sacctmgr.sh fails: $(cat load.log)"
    login sh "$work/limits/sacctmgr.sh" >again.log 2>&1 || fail "sacctmgr.sh fails the second time: $(cat again.log)"
    policy 0 diff
    contains "equal" out.log "the cluster has what the file says"
    policy 0 show
    contains "holds" out.log "AccountingStorageEnforce=associations,limits,qos"
}

test_slurm_itself_holds_back() {
    sleeper 2001 -N1 --gpus-per-node=4 -t 60 || fail "an allowed job is refused: $(cat err.log)"
    local first=$job
    eventually "the allowed job" is_running "$first"
    sleeper 2001 -N1 --gpus-per-node=1 -t 60 || fail "a second job is refused: $(cat err.log)"
    eventually "QOSMaxGRESPerUser: $(login squeue)" reason_is "$job" QOSMaxGRESPerUser
    login scancel "$first" "$job"
    # What is too large by itself is refused at once: by job_submit.lua in words, and without it by the QoS.
    sleeper 2001 -N2 --gpus-per-node=3 -t 60 && fail "6 GPUs were accepted"
    contains "the refusal" err.log "6 GPUs are more than max_gpus 4 of your role ($site:6); for more, ask ops@example.org"
    sleeper 2001 -N1 --gpus-per-node=1 -t 121 && fail "121 minutes were accepted"
    contains "the refusal" err.log "a time limit of 121 minutes is longer than max_time, 120 minutes"
    sleeper 2005 -N1 -t 1 && fail "who is in no role could submit"
    contains "the refusal" err.log "Invalid account"
    sleeper 2001 -N1 -t 1 --qos=normal && fail "another QoS was accepted"
    "$cluster" on head bash -c "grep -v '^JobSubmitPlugins' /etc/slurm/slurm.conf >/run/conf && cat /run/conf >/etc/slurm/slurm.conf"
    restart_slurmctld
    sleeper 2001 -N2 --gpus-per-node=3 -t 60 && fail "6 GPUs were accepted without job_submit.lua"
    contains "the refusal" err.log "QOSMaxGRESPerUser"
    sleeper 2002 -N1 --gpus-per-node=1 -t 11 && fail "11 minutes were accepted without job_submit.lua"
    contains "the refusal" err.log "QOSMaxWallDurationPerJobLimit"
    # Left pending where the flag is gone.
    login sacctmgr -i modify qos where name=students set Flags-=DenyOnLimit >/dev/null
    sleeper 2002 -N1 --gpus-per-node=1 -t 11 || fail "a job that is to wait is refused: $(cat err.log)"
    eventually "QOSMaxWallDurationPerJobLimit" reason_is "$job" QOSMaxWallDurationPerJobLimit
    login scancel "$job"
    policy 1 diff
    contains "the flag" out.log "sacctmgr -i modify qos where name=students set Flags+=DenyOnLimit"
    login sacctmgr -i modify qos where name=students set Flags+=DenyOnLimit >/dev/null
    policy 0 diff
}

test_submit_names_the_limit_before() {
    login sacctmgr -i modify qos where name=engineers set MaxTRESPerUser=gres/gpu=2 MaxWall=60 >/dev/null
    chmod 711 . && mkdir -m 1777 work && printf '%s\n' 'trainer: {command: [/bin/true]}' 'slurm_config:' '  gpus_per_node: 3' '  time_limit: 90' '  mem: 1G' >work/job.yaml
    local code=0
    (cd work && as 2001 autolaunch submit -c job.yaml) >out.log 2>err.log || code=$?
    login sacctmgr -i modify qos where name=engineers set MaxTRESPerUser=gres/gpu=4 MaxWall=120 >/dev/null
    expect "exit code of what Slurm refuses" 69 "$code"
    contains "the GPUs" err.log "job.yaml:3:18: slurm_config.gpus_per_node: 3 GPUs in all are more than MaxTRESPU of QoS engineers, 2"
    contains "the time" err.log "job.yaml:4:15: slurm_config.time_limit: 90 is longer than MaxWall of QoS engineers, 1:00:00"
    contains "sbatch's own words" err.log "QOSMaxGRESPerUser"
    code=0
    (cd work && as 2005 autolaunch submit -c job.yaml) >out.log 2>err.log || code=$?
    expect "exit code of who has no role" 77 "$code"
    code=0
    (cd work && as 2001 autolaunch submit -c job.yaml --hold) >out.log 2>err.log || code=$?
    expect "exit code: $(cat err.log)" 0 "$code"
    expect "notes of a job that fits" 1 "$(wc -l <err.log)"
    login scancel "$(<out.log)"
    policy 0 diff
}

test_drift_is_named_limit_by_limit() {
    login sacctmgr -i modify qos where name=engineers set MaxTRESPerUser=gres/gpu=8 >/dev/null
    login sacctmgr -i modify qos where name=students set MaxWall=20 >/dev/null
    login sacctmgr -i modify user where name=ben account=students set QOS+=normal >/dev/null
    login sacctmgr -i add user eve account=students >/dev/null
    policy 1 diff
    contains "max_gpus" out.log "max_gpus of engineers: the file says 4 ($site:6), the cluster has 8 (QoS engineers, MaxTRESPU)"
    contains "max_time" out.log "max_time of students: the file says 10 minutes ($site:7), the cluster has 20 minutes"
    contains "a way round" out.log "the QoS of ben in account students"
    contains "a stranger" out.log "eve in account students: the file says no member of the group"
    # Each line's own command mends it.
    grep '^    sacctmgr' out.log | sed 's/^    //' >fix.sh && login sh "$PWD/fix.sh" >fix.log 2>&1 || fail "the commands fail"
    policy 0 diff
}

test_autolaunch_refuses_at_a_start() {
    chmod 711 .
    local code=0
    mkdir -m 1777 runs
    as 2001 srun -N2 --mem=1G --gpus-per-node=2 -t 60 autolaunch --log-dir "$PWD/runs/a" /bin/true >out.log 2>err.log || fail "an allowed job: $(cat err.log)"
    grep -q 'allowed: role Engineers' runs/a/plan.json || fail "plan.json does not name the role"
    # root's allocation, which no QoS limits; the agents are amy's.
    login salloc -N2 --gpus-per-node=3 -t 60 bash -c "chown -R 2001 '$PWD/runs'; srun setpriv --reuid 2001 --regid 2001 --clear-groups autolaunch --log-dir '$PWD/runs/b' /bin/true" >out.log 2>err.log || code=$?
    expect "exit code of too many GPUs" 77 "$code"
    contains "the limit" err.log "6 GPUs (2 nodes x 3) are more than max_gpus 4 of the role Engineers ($site:6)"
    code=0
    login salloc -N2 -t 121 srun setpriv --reuid 2001 --regid 2001 --clear-groups autolaunch --log-dir "$PWD/runs/c" /bin/true >out.log 2>err.log || code=$?
    expect "exit code of too long a job" 77 "$code"
    contains "the limit" err.log "a time limit of 2:01:00 is longer than max_time 2h of the role Engineers"
    expect "who told it" 1 "$(grep -c 'is longer than max_time' err.log)"
}
# One after the other, each on what the one before has left: a cluster that is started anew would have no slurmdbd.
for name in $(sed -n 's/^test_\([a-z0-9_]*\)() {.*/\1/p' "$test_file"); do
    began=$SECONDS
    echo "-- ${name//_/ }"
    eventually "the end of all jobs" no_jobs
    (mkdir "$name" && cd "$name" && "test_$name") || fail "$name: $("$cluster" logs)"
    echo "   passed in $((SECONDS - began)) s"
done
"$cluster" left | grep -v -e mariadb -e slurmdbd -e db.sock && fail "left behind"
echo "passed"
