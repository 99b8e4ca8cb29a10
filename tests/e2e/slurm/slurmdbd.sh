# slurmdbd on MariaDB beside the cluster of lib.sh. Source it before start_cluster, which it skips where they are missing, and
# call begin_accounting behind it.
for program in slurmdbd mariadbd mariadb-install-db; do
    command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] ||
        skip "no $program: apt-get install slurmdbd slurm-wlm-mysql-plugin mariadb-server"
done
find /usr/lib -name accounting_storage_mysql.so | grep -q . || skip "no accounting_storage_mysql.so: apt-get install slurm-wlm-mysql-plugin"
answers() { login sacctmgr -nP show cluster format=cluster >/dev/null 2>&1; }
daemon() { # NAME COMMAND...: one more of the head's; no test's process is left behind by it
    "$cluster" on head bash -c 'echo $$ >>/run/daemons; exec setsid "$@" </dev/null >"$0" 2>&1' "$work/$1.daemon" "${@:2}" &
}
start_accounting() {
    mariadb-install-db --no-defaults --datadir="$work/db" --user=root --auth-root-authentication-method=normal --skip-test-db >db.log 2>&1 || fail "no database"
    daemon mariadbd mariadbd --no-defaults --user=root --datadir="$work/db" --socket=/run/db.sock --port=13306 \
        --bind-address=127.0.0.1 --pid-file=/run/db.pid --innodb-flush-log-at-trx-commit=0
    eventually "MariaDB" login mariadb --no-defaults -S /run/db.sock -e \
        "create database if not exists acct; grant all on acct.* to 'slurm'@'127.0.0.1' identified by 'x'; grant all on acct.* to 'slurm'@'localhost' identified by 'x'" >/dev/null 2>&1
    "$cluster" on head bash -c 'umask 077; printf "%s\n" AuthType=auth/munge AuthInfo=socket=/run/munge/slurm.socket DbdHost=head \
        SlurmUser=root StorageType=accounting_storage/mysql StorageHost=127.0.0.1 StoragePort=13306 StorageUser=slurm StoragePass=x \
        StorageLoc=acct PidFile=/run/slurmdbd.pid LogFile=/etc/slurm/log/slurmdbd >/etc/slurm/slurmdbd.conf' || fail "no slurmdbd.conf"
    daemon slurmdbd slurmdbd -D
}
add_to_conf() { "$cluster" on head bash -c 'cat >>/etc/slurm/slurm.conf' || fail "slurm.conf"; }
slurmctld_answers() { login scontrol ping 2>/dev/null | grep -q UP; }
slurmctld_is_gone() { ! "$cluster" on head pgrep -x slurmctld >/dev/null; }
restart_slurmctld() { # what is killed forgets the jobs that were cancelled a moment ago
    login scontrol shutdown slurmctld || fail "slurmctld does not shut down"
    eventually "slurmctld's end" slurmctld_is_gone
    "$cluster" restart head || fail "slurmctld does not restart"
    eventually "slurmctld" slurmctld_answers
    eventually "all nodes" nodes_idle
}
nodes_idle() { [ "$(login sinfo -h -N -p main -t idle --responding -o %N | wc -l)" = 2 ]; }

# begin_accounting [LINE OF slurm.conf]...
begin_accounting() {
    # slurmctld does not start without a slurmdbd that it has never met.
    start_accounting
    printf '%s\n' AccountingStorageHost=head AccountingStorageType=accounting_storage/slurmdbd "$@" | add_to_conf
    eventually "slurmdbd" answers
    login sacctmgr -nP show cluster format=cluster | grep -qx test || login sacctmgr -i add cluster test >/dev/null || fail "no cluster in slurmdbd"
    restart_slurmctld
}
