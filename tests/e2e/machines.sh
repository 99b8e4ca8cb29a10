# Machines for tests without Slurm: network, UTS, IPC and mount namespaces at one switch, each with its own hostname, eth0,
# ports, /tmp, /run and /dev/shm. Source it before lib.sh: the test then runs in a room of its own, which takes every
# process with it when it ends; where namespaces cannot be made, it says so and counts as skipped.
if [ "${IN_ROOM:-}" != yes ]; then
    PATH=$PATH:/usr/sbin:/sbin
    room=(unshare --net --uts --ipc --mount --pid --fork --mount-proc --kill-child=KILL)
    [ "$(id -u)" -eq 0 ] || room+=(--map-root-user)
    if ! why=$("${room[@]}" bash -c 'ip link add name switch type bridge stp_state 0 forward_delay 0 && ip link set switch up &&
        ip link add name cable type veth peer name eth0 && mount -t tmpfs tmpfs /run && unshare --net --mount true' 2>&1); then
        echo "SKIPPED: needs namespaces of its own, as root or by unshare -rn: ${why:-${room[*]} fails}"
        exit 77
    fi
    [ "$(id -u)" -eq 0 ] && export ROOM_HAS_USERS=yes # else it has one user, who is its root
    IN_ROOM=yes exec "${room[@]}" bash "$0" "$@"
fi
own_folders=$(readlink -f "${BASH_SOURCE[0]%/*}/own_folders.sh")
. "$own_folders"

declare -A holder_of # name: the process that holds its namespaces
network=10.78.0
# start_machines NAME...: the n-th is 10.78.0.(10+n); all names are in /etc/hosts
start_machines() {
    local name address=10
    echo "127.0.0.1 localhost" >hosts
    for name; do echo "$network.$((address += 1)) $name" >>hosts; done
    ip link add name switch type bridge stp_state 0 forward_delay 0 && ip link set switch up || fail "no switch"
    for name; do
        unshare --net --uts --ipc --mount bash -e -c '. "$0"; own_run; own_tmp "$3"; own_names "$1" "$2"
            echo up >"up-$1"; exec sleep infinity' "$own_folders" "$name" "$PWD/hosts" \
            "$work:$AUTOLAUNCH_SOURCE_DIR:$AUTOLAUNCH_BINARY_DIR" &
        holder_of[$name]=$!
    done
    address=10
    for name; do
        address=$((address + 1))
        eventually "the start of $name" test -s "up-$name"
        ip link add name "$name" type veth peer name eth0 netns "${holder_of[$name]}" && ip link set "$name" master switch up &&
            nsenter -t "${holder_of[$name]}" -n ip -batch - <<<"addr add $network.$address/24 dev eth0
link set eth0 up
link set lo up" || fail "no cable to $name"
    done
}
# on NAME COMMAND...: replaces this (sub)shell; in the folder where we are. 100 s (MACHINE_LIMIT) are for what hangs.
on() {
    exec timeout -s KILL "${MACHINE_LIMIT:-100}" nsenter -t "${holder_of[$1]}" -n -u -i -m -r --wdns="$PWD" -- "${@:2}"
}
# as_container NAME COMMAND...: as PID 1 among processes of its own, in a folder of that machine alone
as_container() {
    cd /tmp && on "$1" unshare --pid --fork --mount-proc --kill-child=KILL "${@:2}"
}
