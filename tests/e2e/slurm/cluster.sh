#!/bin/bash
# cluster.sh - a real Slurm cluster of several nodes on one machine, for tests.
#
#   cluster.sh check             print why it cannot run here, and fail; nothing when it can
#   cluster.sh up N              start it: head runs slurmctld, node1 … nodeN run slurmd
#   cluster.sh down              end it, with all that runs on it
#   cluster.sh on HOST CMD...    run CMD on HOST: head, node1, …
#   cluster.sh kill HOST         cut its power: its peers hear nothing more, not even a reset
#   cluster.sh boot HOST         switch it on again
#   cluster.sh cut HOST          from now on the switch drops every frame from and to HOST
#   cluster.sh heal HOST         end that
#   cluster.sh restart HOST      kill HOST's munged and Slurm daemon and start them anew; its jobs live on
#   cluster.sh clock HOST +S     set HOST's clock, for all that is started there from now on, S seconds before the machine's
#   cluster.sh left              print what jobs left behind on any host: processes, files, shared memory
#   cluster.sh logs              print the last lines of Slurm's logs
#
# Each host is a process tree in network, UTS, IPC, PID and mount namespaces of its own: it has its own hostname, eth0,
# ports, process numbers, /tmp, /run, /dev/shm and SysV memory. Every other folder is the machine's and plays the file
# system that a cluster shares. All hosts live in one room: a PID namespace that takes every process with it when its
# init ends, a mount namespace whose /etc/slurm holds all files of the cluster, and a network namespace with the switch.
# So clusters cannot meet one another or the machine's network, and nothing survives `down`.
#
# Environment:
#   CLUSTER_STATE  a folder; which cluster is meant                          (/tmp/autolaunch-cluster)
# and for `up`:
#   CLUSTER_OWNER  a process; when it is gone, so is the cluster             (nobody: until `down`)
#   CLUSTER_SHARE  folders under /tmp that hosts share, too, colon-separated (none)
#   CLUSTER_GPUS   fake GPUs of node1, node2, …; the last serves all others  (4)
#   CLUSTER_CONF   further lines for slurm.conf; there, the last line wins   (none)
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin
self=$(readlink -f "${BASH_SOURCE[0]}")
. "${self%/slurm/*}/own_folders.sh"
state=${CLUSTER_STATE:-/tmp/autolaunch-cluster}
files=/etc/slurm # of the cluster, where the room's tmpfs is mounted
network=10.77.0 network6=fd77:
cpus=32 # that a node pretends to have

die() {
    echo "cluster.sh: $*" >&2
    exit 1
}
# until_true SECONDS COMMAND...
until_true() {
    local i
    for ((i = $1 * 50; i > 0; i--)); do
        "${@:2}" && return
        sleep 0.02
    done
    return 1
}

# ---- inits: of the room and of the hosts ---------------------------------------------------------------------------
# Known as "PID NAMESPACE" in a file: a process is only ever signalled while it is in the namespace that it made.

announce() { # FILE: write ours, as the machine sees us; before /proc is mounted anew
    local pid
    read -r pid _ </proc/self/stat
    echo "$pid $(readlink /proc/self/ns/pid)" >"$1.new"
    mv "$1.new" "$1"
}
init_of() { # FILE: print its PID; fail when it does not run
    local pid namespace
    { read -r pid namespace <"$1"; } 2>/dev/null || return 1
    [ "$(readlink "/proc/$pid/ns/pid" 2>/dev/null)" = "$namespace" ] && echo "$pid"
}
runs() { init_of "$1" >/dev/null; }
ended() { ! runs "$1"; }
end_init() { # FILE: the kernel ends all of the namespace with its init
    local pid
    pid=$(init_of "$1") || return 0
    kill -KILL "$pid" 2>/dev/null || true
    until_true 20 ended "$1" || die "process $pid does not end"
}
room() { init_of "$state/room" || die "no cluster in $state"; }
host_file() { # HOST: where its init is announced, from outside of the room or inside
    [[ $1 =~ ^(head|node[1-9][0-9]*)$ ]] || die "not a host: $1"
    [ "${in_room:-no}" = yes ] && echo "$files/hosts/$1" || echo "/proc/$(room)/root$files/hosts/$1"
}
enter() { # HOST COMMAND...: replaces this process; what ends it ends COMMAND
    local file pid folder=$PWD
    file=$(host_file "$1")
    pid=$(init_of "$file") || die "$1 does not run"
    [ -d "/proc/$pid/root$folder" ] || folder=/
    exec nsenter -t "$pid" -m -r -u -i -n -p --wdns="$folder" -- setpriv --pdeathsig TERM -- "${@:2}"
}
on_switch() { nsenter -t "$(room)" -n -- "$@"; }
# PID 1 stays, and reaps what is orphaned. Only SIGKILL ends it.
stay() {
    trap : TERM INT HUP
    while :; do
        sleep infinity &
        echo $! >>"${1:-/dev/null}"
        wait || true
    done
}
close_files() { # a daemon must not hold the pipe of who started it
    local fd
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        ((fd < 3 || fd == 255)) || eval "exec $fd>&-"
    done
}

# ---- a host --------------------------------------------------------------------------------------------------------
own_sys() { # so that /sys/class/net is the host's; the control groups stay as they are
    mkdir /run/cgroup
    mount --rbind /sys/fs/cgroup /run/cgroup
    mount -t sysfs sysfs /sys
    mount --move /run/cgroup /sys/fs/cgroup
}
own_gpus() { # COUNT: Slurm takes only devices for GPUs
    local i
    mkdir /run/gpu
    for ((i = 0; i < $1; i++)); do
        mknod -m 666 "/run/gpu/nvidia$i" c 195 "$i" 2>/dev/null && continue
        : >"/run/gpu/nvidia$i" # mknod is not allowed everywhere
        mount --bind /dev/null "/run/gpu/nvidia$i"
    done
}
host_init() { # HOST: PID 1, in fresh namespaces
    local host=$1 share gpus
    . "$files/settings"
    own_run
    own_tmp "$share"
    own_sys
    [ "$host" = head ] || own_gpus "$(gpus_of "${host#node}")"
    own_names "$host" "$files/etc-hosts"
    announce "$files/hosts/$host"
    mount -t proc proc /proc
    until_true 20 test -e /run/plugged || die "$host: no cable"
    ip link set lo up
    start_daemons "$host"
    stay /run/daemons
}
# Slurm has a socket of munged's of its own: a test can take the usual one away, and Slurm goes on.
start_daemons() { # HOST
    mkdir -p /run/munge
    setsid munged --foreground --force --socket=/run/munge/slurm.socket --key-file="$files/munge.key" \
        --seed-file=/run/munge/seed --pid-file=/run/munge/munged.pid >>"$files/log/munged.$1" 2>&1 &
    echo $! >>/run/daemons
    until_true 20 test -S /run/munge/slurm.socket || die "$1: munged does not start"
    ln -sf slurm.socket /run/munge/munge.socket.2
    if [ "$1" = head ]; then setsid slurmctld -D & else setsid slurmd -D -N "$1" & fi >/dev/null 2>&1
    echo $! >>/run/daemons
}
restart_daemons() { # HOST
    local pid
    for pid in /run/munge/munged.pid /run/slurmctld.pid /run/slurmd.pid; do
        [ ! -e "$pid" ] || kill -KILL "$(<"$pid")" || true
    done
    rm -f /run/munge/*.socket* /run/*.pid /run/munge/*.pid
    start_daemons "$1"
}
# The kernel has one clock for all: a library between programs and it does the difference.
set_clock() { # +SECONDS: within the host
    local library kept
    library=$(find /usr/lib -name libfaketimeMT.so.1)
    mkdir -p /run/etc/{changed,work,was}
    mount --rbind /etc /run/etc/was
    echo "$1" >/run/etc/changed/faketimerc
    echo "${library:?install faketime}" >/run/etc/changed/ld.so.preload
    mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/changed,workdir=/run/etc/work overlay /etc
    for kept in slurm hosts hostname resolv.conf; do
        [ -L "/etc/$kept" ] || mount --bind "/run/etc/was/$kept" "/etc/$kept"
    done
}
host_left() { # within the host; faketime's are of set_clock
    local folder pid parent
    for folder in /proc/[0-9]*; do
        pid=${folder#/proc/}
        grep -q slurmscriptd "$folder/cmdline" && continue # slurmctld's own
        [ "$pid" = 1 ] || [ "$pid" = $$ ] || grep -qx "$pid" /run/daemons && continue
        read -r _ _ _ parent _ < <(sed 's/(.*)/x/' "$folder/stat" 2>/dev/null) || continue
        [ "$parent" = $$ ] || echo "process $pid: $(tr '\0' ' ' <"$folder/cmdline")"
    done 2>/dev/null
    find /tmp /dev/shm -xdev -mindepth 1 ! -type d ! -name '*faketime_*' -printf 'file %p\n'
    find /tmp /dev/shm -xdev -mindepth 1 -type d -empty -printf 'folder %p\n'
    find /run -xdev -path /run/munge -prune -o -type s -printf 'socket %p\n'
    tail -qn +2 /proc/sysvipc/{shm,sem,msg} | sed 's/^/SysV: /'
}

# ---- the room ------------------------------------------------------------------------------------------------------
gpus_of() { # NODE NUMBER
    local counts
    read -ra counts <<<"$gpus"
    echo "${counts[$1 - 1]:-${counts[-1]}}"
}
write_configuration() { # N
    local i share gpus
    mkdir "$files"/{hosts,log,ctld}
    share=${self%/slurm/*}:$state:$CLUSTER_SHARE gpus=$CLUSTER_GPUS
    declare -p share gpus >"$files/settings"
    (umask 077 && head -c 128 /dev/urandom >"$files/munge.key")
    {
        printf '%s\n' "127.0.0.1 localhost" "::1 localhost" "$network.1 head" "$network6:1 head"
        for ((i = 1; i <= $1; i++)); do printf '%s\n' "$network.$((10 + i)) node$i" "$network6:$((10 + i)) node$i"; done
    } >"$files/etc-hosts"
    echo "PMIxCliTmpDirBase=/run" >"$files/mpi.conf"
    : >"$files/gres.conf"
    cat >"$files/slurm.conf" <<END
ClusterName=test
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/slurm.socket
CredType=cred/munge
StateSaveLocation=$files/ctld
SlurmctldLogFile=$files/log/slurmctld
SlurmdLogFile=$files/log/slurmd.%n
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
MailProg=/bin/true
# Without control groups, which a container may not have: the processes of a step are found by who is whose parent.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
# Short, for tests: 300, 30 and 10 are Slurm's own.
SlurmdTimeout=10
KillWait=5
MessageTimeout=5
ReturnToService=2
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
RequeueExit=75
# The CPUs that are written here, not the machine's.
SlurmdParameters=config_overrides
END
    for ((i = 1; i <= $1; i++)); do
        echo "NodeName=node$i Sockets=2 CoresPerSocket=$((cpus / 2)) RealMemory=100000 Gres=gpu:$(gpus_of $i) Feature=sim,node$i"
        [ "$(gpus_of $i)" = 0 ] ||
            echo "NodeName=node$i Name=gpu File=/run/gpu/nvidia[0-$(($(gpus_of $i) - 1))] Flags=nvidia_gpu_env" >>"$files/gres.conf"
    done >>"$files/slurm.conf"
    echo "PartitionName=main Default=YES Nodes=ALL" >>"$files/slurm.conf"
    [ -z "$CLUSTER_CONF" ] || echo "$CLUSTER_CONF" >>"$files/slurm.conf"
}
boot() { # HOST...: in the room. A host that is booted again has the hardware address that its peers remember.
    local host pid address
    for host; do
        setsid unshare --net --uts --ipc --mount --pid --fork --kill-child=KILL \
            bash "$self" __host "$host" </dev/null >>"$files/log/init.$host" 2>&1 &
    done
    for host; do
        until_true 20 runs "$files/hosts/$host" || die "$host does not start"
        pid=$(init_of "$files/hosts/$host")
        [ "$host" = head ] && address=1 || address=$((10 + ${host#node}))
        ip link add "$host" type veth peer name eth0 address "$(printf 02:00:00:00:00:%02x "$address")" netns "/proc/$pid/ns/net"
        ip link set "$host" master switch up
        nsenter -t "$pid" -n ip -batch - <<<"addr add $network.$address/24 dev eth0
addr add $network6:$address/64 dev eth0 nodad
link set eth0 up"
        : >"/proc/$pid/root/run/plugged"
    done
}
slurmctld_listens() { [ -n "$(nsenter -t "$(init_of "$files/hosts/head")" -n ss -Hltn sport = 6817)" ]; }
room_init() { # N: PID 1 of the room
    mount -t tmpfs -o mode=755 tmpfs "$files"
    write_configuration "$1"
    announce "$state/room"
    ip -batch - <<<"link add switch type bridge stp_state 0 forward_delay 0
link set switch up"
    boot head
    until_true 20 slurmctld_listens || die "slurmctld does not listen" # who finds nobody there sleeps for a second
    boot $(seq -f node%g "$1")
    stay
}
# Outside of the room; ends when the room does, and ends it when the owner is gone.
keep() { # N
    unshare --net --mount --pid --ipc --fork --kill-child=KILL bash "$self" __room "$1" &
    local room=$!
    if [ -z "${CLUSTER_OWNER:-}" ]; then
        wait "$room" || true
    else
        tail --pid="$CLUSTER_OWNER" -s 0.2 -f /dev/null &
        wait -n || true
        kill -KILL "$!" "$room" 2>/dev/null || true
        wait "$room" || true
    fi
    rm -f "$state/room"
}

# ---- commands ------------------------------------------------------------------------------------------------------
cmd_check() {
    local program
    for program in slurmctld slurmd srun munged ip bridge ss; do
        command -v "$program" >/dev/null || die "needs $program: scripts/install-deps.sh --tests"
    done
    [ "$(id -u)" = 0 ] || die "needs root, for namespaces of its own"
    unshare --net --uts --ipc --mount --pid --fork mount -t tmpfs tmpfs /run 2>/dev/null ||
        die "needs a machine that lets root make namespaces and mounts; this one does not"
}
nodes_up() { [ "$("$self" on head sinfo -h -N -p main -t idle --responding -o %N 2>/dev/null | wc -l)" -ge "$1" ]; }
cmd_up() { # N
    [[ $1 =~ ^[1-9][0-9]?$ ]] || die "up: how many nodes, 1 to 99?"
    cmd_check
    mkdir -p "$state"
    runs "$state/room" && die "there is a cluster in $state"
    rm -f "$state/room"
    env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 CLUSTER_STATE="$state" CLUSTER_OWNER="${CLUSTER_OWNER:-}" \
        CLUSTER_SHARE="${CLUSTER_SHARE:-}" CLUSTER_GPUS="${CLUSTER_GPUS:-4}" CLUSTER_CONF="${CLUSTER_CONF:-}" setsid bash "$self" __keep "$1" </dev/null >"$state/log" 2>&1 &
    until_true 30 runs "$state/room" || die "the room does not start: $(cat "$state/log")"
    until_true 30 nodes_up "$1" || die "not all nodes came up: $(cat "$state/log"; cmd_logs)"
}
cmd_down() {
    end_init "$state/room"
    until_true 5 test ! -e "$state/room" || rm -f "$state/room"
}
cmd_kill() { # HOST: without its cable first, or its sockets would say goodbye
    local file
    file=$(host_file "$1")
    on_switch ip link del "$1"
    end_init "$file"
}
cmd_boot() { # HOST
    on_switch ip link del "$1" 2>/dev/null || true
    nsenter -t "$(room)" -m -r -n -p -- env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 CLUSTER_STATE="$state" \
        bash "$self" __boot "$1" </dev/null >>"$state/log" 2>&1
}
cmd_left() {
    local file host
    for file in "/proc/$(room)/root$files"/hosts/*; do
        host=${file##*/}
        runs "$file" || continue
        "$self" on "$host" bash "$self" __left | sed "s/^/$host: /"
    done
}
cmd_logs() {
    local file
    for file in "/proc/$(room)/root$files"/log/{init.*,slurm*}; do
        tail -n 4 "$file" | sed "s/^/${file##*/}: /"
    done
}

command=${1:-}
shift || true
case $command in
    check | down | left | logs) "cmd_$command" ;;
    up | kill | boot) "cmd_$command" "${1:?of which? see the top of $self}" ;;
    on) enter "$@" ;;
    cut) on_switch bridge link set dev "${1:?which host?}" state 0 ;;
    heal) on_switch bridge link set dev "${1:?which host?}" state 3 ;;
    __keep) close_files && keep "$1" ;;
    __room) in_room=yes && room_init "$1" ;;
    __boot) in_room=yes && close_files && boot "$1" ;;
    __host) host_init "$1" ;;
    clock) "$self" on "$1" bash "$self" __clock "${2:?how many seconds?}" && "$self" restart "$1" ;;
    __clock) set_clock "$1" ;;
    restart) enter "${1:?which host?}" bash "$self" __restart "$1" </dev/null >/dev/null 2>&1 ;;
    __restart) close_files && restart_daemons "$1" ;;
    __left) host_left ;;
    *) sed -n '4,15s/^# \{0,1\}//p' "$self" >&2 && exit 64 ;;
esac
