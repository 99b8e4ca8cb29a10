#!/bin/bash
# Data of a shared file system that one node reads and hands on to the others (storage.stage_in). Each node is a set of namespaces
# with a mount of its own of a FUSE server that counts what it gives, and a scratch of its own.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
[ -x $python ] || skip "no $python"
[ -r /dev/fuse ] && [ "$(id -u)" = 0 ] || skip "no /dev/fuse, or not root"
slow_fs=$(dirname "$(realpath "$0")")/../../bench/slow_fs.py
mkdir -p data/sub slow
$python - data <<'PY'
import random, sys
draw = random.Random(7)
for i in range(200):
    open(f"{sys.argv[1]}/sub/{i}", "wb").write(draw.randbytes(draw.randrange(0, 40000)))
open(f"{sys.argv[1]}/large", "wb").write(draw.randbytes(24 << 20))
open(f"{sys.argv[1]}/empty", "wb")
PY
ln -s sub/7 data/link
(cd data && find . -type f ! -name SHA256SUMS -print0 | xargs -0 sha256sum >SHA256SUMS)
all=$(find data -type f -printf '%s\n' | awk '{sum += $1} END {print sum}')
cat >train.yaml <<END
trainer: {command: [/bin/sh, -c, 'cd \$AUTOLAUNCH_DATA_TOKENS && sha256sum -c --quiet SHA256SUMS && test -L link && echo rank \$RANK has it'], mpi: none}
storage: {scratch: /tmp/scratch, stage_in: [{from: $work/slow, as: tokens, verify: SHA256SUMS}]}
monitoring: {resource_tracking: false}
END
nodes=(one two three four)
cp -a /etc etc && mount --bind etc /etc || fail "no /etc of its own"
mounted=/etc
start_machines "${nodes[@]}"

# job NAME CODE: a job of four nodes, each with a mount that nobody has read from
job() {
    local node i servers=() agents=() code
    rm -rf run ./*.stats
    for node in "${nodes[@]}"; do
        on "$node" $python "$slow_fs" --latency 0.0002 --mb-per-second "${RATE:-400}" --share "$work/share" --stats "$work/$node.stats" \
            "$work/data" "$work/slow" >"mount-$node" 2>&1 &
        servers+=($!)
    done
    for node in "${nodes[@]}"; do eventually "a mount on $node" grep -q ready "mount-$node"; done
    for i in 0 1 2 3; do
        on "${nodes[i]}" "$AUTOLAUNCH" run --nnodes 4 --node-rank $i --nproc-per-node 2 --rdzv-endpoint one --rdzv-id "staged-$1" \
            --log-dir run -c train.yaml ${MORE:-} >"$i.log" 2>&1 </dev/null &
        agents+=($!)
    done
    [ -z "${MEANWHILE:-}" ] || $MEANWHILE
    for i in 0 1 2 3; do
        code=0
        wait "${agents[i]}" || code=$?
        [ $code = "$2" ] || fail "exit code $code of node $i on the $1 run"
    done
    kill "${servers[@]}"
    wait "${servers[@]}"
    [ "$2" != 0 ] || expect "ranks that have it on the $1 run" 8 "$(cat run/generation-0/rank-*/stdout | grep -c 'has it$')"
    for node in "${nodes[@]}"; do
        expect "what is left on $node by the $1 run" "" "$(on "$node" sh -c 'cd /tmp/scratch/autolaunch-0/stage && ls gone copies '"$([ "$2" = 0 ] && echo parts || echo data)"' | grep -v "^\(parts\|gone\|copies\|data\):$" | xargs')"
    done
}
given() { sed -n 's/.*"bytes": \([0-9]*\).*/\1/p' "$1.stats"; }
# read_by NODE LEAST MOST: what it was given, in percent of all
read_by() {
    local percent=$(($(given "$1") * 100 / all))
    [ "$percent" -ge "$2" ] && [ "$percent" -le "$3" ] || fail "$1 was given $percent % of the data, expected $2 to $3: $(cat ./?.log)"
}

job first 0
read_by one 98 115
for node in two three four; do read_by "$node" 0 1; done
contains "the line" 0.log "staged    tokens: "
grep -q "storage.stage_in: " ./?.log && fail "a warning of a job that went well: $(cat ./?.log)"
echo "given: $(given one), $(given two), $(given three), $(given four) bytes of $all"

job second 0
for node in "${nodes[@]}"; do read_by "$node" 0 1; done
contains "the second job" 0.log "on this node already"

# One node has lost its copy: it gets it from the first, which has its own.
(on three rm -rf /tmp/scratch)
job third 0
for node in "${nodes[@]}"; do read_by "$node" 0 1; done

# The site's shared cache: filled on all nodes at once and read once, by its owner; then another user's job, which has it from there,
# and on a node that has lost it from the first one, whose files he cannot link to.
for_all_users
mkdir -m 1777 pub
rm -rf /etc/autolaunch && mkdir -m 755 /etc/autolaunch
echo 'storage_management: {shared_cache: /tmp/datasets}' >/etc/autolaunch/site.yaml
sed "s|$work/slow|$work/data|; s|/tmp/scratch|/tmp/his|" train.yaml >data.yaml
each() { # NAME COMMAND...: on all nodes at once
    local name=$1 i agents=()
    for i in 0 1 2 3; do
        on "${nodes[i]}" "${@:2}" --nnodes 4 --node-rank $i --rdzv-endpoint one --rdzv-id "$name" --log-dir "$work/pub/$name" -c data.yaml >"$i.log" 2>&1 </dev/null &
        agents+=($!)
    done
    for i in 0 1 2 3; do wait "${agents[i]}" || fail "$name on node $i"; done
}
staged() { grep -h '"event":"data_staged"' "pub/$1"/events*.jsonl | grep -c "$2"; } # RUN FACTS: on how many nodes
each filled "$AUTOLAUNCH" stage-in --shared
expect "nodes that were filled" 4 "$(staged filled '"was_here":false,"shared":true')"
expect "nodes that have read it" 1 "$(staged filled "\"read_bytes\":$all,")"
user=(setpriv --reuid 2001 --regid 2001 --clear-groups env HOME=/ XDG_RUNTIME_DIR=)
each used "${user[@]}" "$AUTOLAUNCH" run
expect "nodes that have it for all" 4 "$(staged used '"read_bytes":0,"was_here":true,"shared":true')"
# A scratch that cannot be made on the first node: it is not needed where all is in the site's cache. From there nothing is handed on,
# and a node that has lost it reads it by itself.
(on one rm -rf /tmp/his)
(on one touch /tmp/his)
each no-scratch "${user[@]}" "$AUTOLAUNCH" run
expect "nodes that have it for all" 4 "$(staged no-scratch '"read_bytes":0,"was_here":true,"shared":true')"
contains "that there is no scratch" 0.log "storage.stage_in: storage.scratch: "
contains "that none is needed" 0.log "; what is in the site's shared cache needs none"
(on three rm -rf /tmp/datasets)
each no-scratch-and-lost "${user[@]}" "$AUTOLAUNCH" run
expect "nodes that have it for all, but one" 3 "$(staged no-scratch-and-lost '"was_here":true,"shared":true')"
expect "what that one reads by itself" 1 "$(staged no-scratch-and-lost "\"read_bytes\":$all,\"was_here\":false,\"shared\":false")"
(on one rm -rf /tmp/his)
(on three rm -rf /tmp/his)
each lost-there "${user[@]}" "$AUTOLAUNCH" run
expect "nodes that have it for all, but one" 3 "$(staged lost-there '"was_here":true,"shared":true')"
expect "what that one has from the first" 1 "$(staged lost-there '"read_bytes":0,"was_here":false,"shared":false')"
expect "ranks that have it" 4 "$(cat pub/lost-there/generation-0/rank-*/stdout | grep -c 'has it$')"
grep -q "warning: storage.stage_in" ./?.log && fail "a warning of a job that went well: $(cat ./?.log)"
rm -rf /etc/autolaunch

# start: streaming. The first node reads all of it once, and every node has each file as it comes: ranks take them in the order of
# the listing while the rest is read.
(for node in "${nodes[@]}"; do (on "$node" rm -rf /tmp/scratch); done)
cp train.yaml all.yaml
cat >rank.sh <<'END'
cd "$AUTOLAUNCH_DATA_TOKENS" || exit 4
sed 1d ../listing | cut -d' ' -f2 | while read -r name; do
    while [ ! -e "$name" ]; do sleep 0.01; done
    cmp "$name" "$OLDPWD/data/$name" || exit 6
    [ "$name" != large ] || echo "rank $RANK: $(find . -type f | wc -l) are there with the first large one"
done || exit
cmp link sub/7 && echo "rank $RANK has it"
while [ "$(stat -c %a .)" != 555 ]; do sleep 0.01; done
END
cat >train.yaml <<END
trainer: {command: [bash, $work/rank.sh], mpi: none}
storage: {scratch: /tmp/scratch, throttle: 16MB, stage_in: [{from: $work/slow, as: tokens, verify: SHA256SUMS, start: streaming}]}
monitoring: {resource_tracking: false}
END
job streams 0
read_by one 98 115
for node in two three four; do read_by "$node" 0 1; done
contains "that they come" 0.log "streams   tokens: "
grep -q "storage.stage_in: " ./?.log && fail "a warning of a job that went well: $(cat ./?.log)"
started=$($python -c 'import json
events = [json.loads(line) for line in open("run/events.jsonl")]
print(sum(1 for e in events if e["event"] == "rank_started" and e["time"] < min(s["time"] for s in events if s["event"] == "data_staged")))')
[ "$started" -ge 2 ] || fail "only $started ranks were started before all was there"
job streamed 0
for node in "${nodes[@]}"; do read_by "$node" 0 1; done

# The mover of the head is killed meanwhile: who waits for it goes on by itself, and ranks see nothing of it.
for node in "${nodes[@]}"; do (on "$node" rm -rf /tmp/scratch); done
kill_mover() {
    local pid
    for ((i = 0; i < 400; i++)); do
        for pid in $(pgrep -x autolaunch-move); do
            [ "$(readlink "/proc/$pid/ns/uts")" = "$(readlink "/proc/${holder_of[one]}/ns/uts")" ] && sleep 0.3 && kill -9 "$pid" && return
        done
        sleep 0.02
    done
    fail "there was no mover"
}
MEANWHILE=kill_mover job lost 0
grep -q "storage.stage_in: .* is read from the shared file system\|storage.stage_in: .* are read from the shared file system" ./?.log ||
    fail "nothing is said of what did not come: $(cat ./?.log)"

# Wrong data in mid-stream: all nodes end with its code.
for node in "${nodes[@]}"; do (on "$node" rm -rf /tmp/scratch); done
cp data/sub/99 99
echo more >>data/sub/99
job bad 65
grep -q "data that ranks run on does not come: .*sub/99 has sha256:" ./?.log || fail "the file is not named: $(cat ./?.log)"
mv 99 data/sub/99
mv all.yaml train.yaml

# A mover that is killed: who does not get all of it reads the rest.
for node in "${nodes[@]}"; do (on "$node" rm -rf /tmp/scratch); done
RATE=20 MEANWHILE=kill_mover job killed 0
contains "what is said of it" 0.log "storage.stage_in: tokens comes from the shared file system: autolaunch-mover has ended"

# Wrong data: all nodes end with its code, and nobody takes it for data. A node that was stopped meanwhile may have a part.
for node in "${nodes[@]}"; do (on "$node" rm -rf /tmp/scratch); done
echo more >>data/sub/7
job wrong 65
grep -q "sub/7 has sha256:" ./?.log || fail "the file is not named: $(cat ./?.log)"
