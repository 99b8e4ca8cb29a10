#!/bin/bash
# How fast data comes to the own disks of several nodes, against copies by all nodes, rsync and sbcast:
#
#     bench/stage_in_nodes.sh BUILD FOLDER [MEGABYTES [NODES [TURNS [RATE]]]]       # as root, with Debian's Slurm
#
# A real Slurm of NODES nodes on this machine (tests/e2e/slurm/cluster.sh). Each has a folder of its own below FOLDER, at the same
# path in all of them. With RATE that is a disk of its own, which writes RATE MB/s: a loop device in /dev/shm, limited by the
# kernel's blkio controller (cgroup v1). Without it all nodes write to the one disk that FOLDER is on, and share this machine's
# cores for the rest, too.
# `raw` is the limit: dd on all nodes at once, each of which reads the source itself. Ways are run in turns, and each is a
# command of Slurm's, whose own time (`nothing`: srun true) is taken off; what was written is synced. `again` finds all there.
# What the source gives is in tests/e2e/stage_in_nodes.sh: all of it to one node, and nothing to the others.
bench=$(readlink -f "${BASH_SOURCE[0]%/*}")
build=$(realpath "${1:?BUILD}") folder=$(realpath "${2:?FOLDER}") megabytes=${3:-256} nodes=${4:-8} turns=${5:-5} rate=${6:-}
export AUTOLAUNCH=$build/launcher/autolaunch AUTOLAUNCH_BINARY_DIR=$build AUTOLAUNCH_SOURCE_DIR=${bench%/*}
test_folder=$bench/../tests/e2e
. "$test_folder/slurm/lib.sh"
place=$(mktemp -d "$folder/stage-nodes-XXXXXX") || exit 1
limit=/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device
images=() loops=()
leave() {
    "$cluster" down 2>/dev/null
    cleanup
    local loop
    for loop in "${loops[@]}"; do
        echo "$(stat -c %Hr:%Lr "$loop") 0" >$limit
        losetup -d "$loop"
    done
    rm -f "${images[@]}"
    chmod -R u+w "$place"
    rm -rf "$place"
}
trap leave EXIT
start_cluster "$nodes"
mkdir "$place/own"
head -c "$megabytes"M /dev/urandom >"$place/source"
# own_disk NODE: mounts it
own_disk() {
    local image loop
    image=$(mktemp /dev/shm/stage-nodes-XXXXXX) && images+=("$image") && truncate -s $((3 * megabytes))M "$image" &&
        mkfs.ext4 -q -m 0 -E lazy_itable_init=0,lazy_journal_init=0 "$image" && loop=$(losetup -f --show "$image") &&
        loops+=("$loop") && echo "$(stat -c %Hr:%Lr "$loop") $((rate * 1000000))" >$limit && "$cluster" on "$1" mount -o discard "$loop" "$place/own"
}
for node in $(seq -f node%g "$nodes"); do
    if [ -n "$rate" ]; then
        own_disk "$node" || fail "no disk of $node's own"
    else
        mkdir "$place/$node"
        "$cluster" on "$node" mount --bind "$place/$node" "$place/own" || fail "no folder of $node's own"
    fi
done
cat >"$place/spec.yaml" <<END
storage: {scratch: $place/own, stage_in: [{from: $place/source, as: data}]}
monitoring: {resource_tracking: false}
END
cat >"$place/ways.sh" <<'END'
cd "$1" || exit 1
turns=$2
all=(srun -Q -N "$3" --ntasks-per-node 1)
nothing() { "${all[@]}" true; }
raw() { "${all[@]}" dd if=source of=own/copy bs=1M conv=fsync status=none; }
with_rsync() { "${all[@]}" sh -c 'rsync source own/copy && sync own/copy'; }
with_sbcast() { salloc -Q -N "$3" bash -c "sbcast -f source own/copy && ${all[*]} sync own/copy"; }
staged() { "${all[@]}" autolaunch stage-in -c spec.yaml --log-dir run; }
again() { staged; }
for ((turn = 0; turn < turns; turn++)); do
    for way in nothing raw with_rsync with_sbcast staged again; do
        [ $way != with_rsync ] || command -v rsync >/dev/null || continue
        [ $way = again ] || { "${all[@]}" sh -c 'rm -rf own/*; sync own' && rm -rf run; }
        begin=$EPOCHREALTIME
        $way "$@" >out.log 2>&1 || { echo "$way failed: $(cat out.log)" >&2; exit 1; }
        echo "$way $(awk "BEGIN {print $EPOCHREALTIME - $begin}")"
    done
done
END
"$cluster" on head timeout -k 5 1800 bash "$place/ways.sh" "$place" "$turns" "$nodes" </dev/null >times || fail "a way failed"
awk -v bytes="$megabytes" '{value[$1] = value[$1] " " $2; if (!seen[$1]++) order[++n] = $1}
    function median(way,  v, count, a, b, t) {
        count = split(value[way], v, " ")
        for (a = 1; a <= count; a++) for (b = a + 1; b <= count; b++) if (v[b] + 0 < v[a] + 0) {t = v[a]; v[a] = v[b]; v[b] = t}
        return v[int((count + 1) / 2)]
    }
    END {
        limit = median("raw") - median("nothing")
        for (i = 1; i <= n; i++) {
            seconds = median(order[i]); own = seconds - median("nothing")
            printf "%-12s median %6.3f s", order[i], seconds
            if (order[i] != "nothing" && order[i] != "again") printf "  %5.1f MB/s a node  %4.0f %% of raw", bytes * 1.048576 / own, 100 * limit / own
            printf "   of%s\n", value[order[i]]
        }
    }' times
echo "$nodes nodes, $megabytes MiB to each, $([ -n "$rate" ] && echo "disks of $rate MB/s" || echo "one disk"); load $(cut -d' ' -f1-3 /proc/loadavg)"
