#!/bin/bash
# How fast data comes to a node's own disk, against cp and rsync: stage_in.sh BUILD FOLDER [MEGABYTES [FILES]]. FOLDER is on the disk
# that is measured; source and copies are in it, and go at the end. Each way is run seven times in turns, with what was
# written synced; the second job's start is for the cache alone. bench/stage_in_nodes.sh does it on several nodes.
set -u
build=$(realpath "${1:?BUILD}") folder=$(realpath "${2:?FOLDER}") megabytes=${3:-512} files=${4:-10000}
work=$(mktemp -d "$folder/stage-bench-XXXXXX") || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
python3 - "$megabytes" "$files" <<'PY'
import os, random, sys
megabytes, files = map(int, sys.argv[1:])
draw = random.Random(1)
block = draw.randbytes(1 << 20)
os.makedirs("large")
with open("large/one", "wb") as out:
    for i in range(megabytes):
        out.write(i.to_bytes(8, "little") + block[8:])
for i in range(files):
    os.makedirs(f"many/{i % 100}", exist_ok=True)
    with open(f"many/{i % 100}/{i}", "wb") as out:
        out.write(block[:4096])
PY
sync
seconds() { local start=$EPOCHREALTIME; "$@" >/dev/null 2>&1 || echo "failed: $*" >&2; awk "BEGIN {print $EPOCHREALTIME - $start}"; }
raw() { dd if="$1/one" of=copy bs=1M conv=fsync status=none; }
with_cp() { cp -a "$1" copy && sync -f copy; }
with_rsync() { rsync -a "$1" copy && sync -f copy; }
staged() { # SOURCE: what the event says, in seconds
    rm -rf run
    echo "{storage: {scratch: $work/scratch, stage_in: [{from: $work/$1, as: data}]}, trainer: {mpi: none}, monitoring: {resource_tracking: false}}" >spec.yaml
    "$build/launcher/autolaunch" run -c spec.yaml --nproc-per-node 1 --log-dir run -- /bin/true >out.log 2>&1 || cat out.log >&2
    sed -n 's/.*"data_staged".*"seconds":\([0-9.e-]*\).*/\1/p' run/events.jsonl
}
fresh() { chmod -R u+w copy scratch 2>/dev/null; rm -rf copy scratch; sync; }
for source in large many; do
    for turn in 1 2 3 4 5 6 7; do
        for way in raw with_cp with_rsync; do
            [ $source = many ] && [ $way = raw ] && continue
            [ $way = with_rsync ] && ! command -v rsync >/dev/null && continue
            fresh
            echo "$source $way $(seconds $way $source)"
        done
        fresh
        echo "$source staged $(staged $source)"
        echo "$source again $(staged $source)"
    done
done | awk '{key = $1 " " $2; value[key] = value[key] " " $3; if (!(key in seen)) {seen[key] = 1; order[++n] = key}}
    END {for (i = 1; i <= n; i++) {split(value[order[i]], v, " "); for (a = 1; a <= 7; a++) for (b = a + 1; b <= 7; b++) if (v[b] + 0 < v[a] + 0) {t = v[a]; v[a] = v[b]; v[b] = t}
        printf "%-16s median %s s   of%s\n", order[i], v[4], value[order[i]]}}'
echo "large: $megabytes MB in one file; many: $files files of 4 kB"
