#!/bin/bash
# Data of a bucket and of a web server (storage.stage_in), on two nodes: both servers listen on the first node's loopback alone, so
# that the second can have nothing but from the first. The bucket is real, Debian's radosgw. A signature in an address is
# looked for in all that the jobs leave.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
tests=$AUTOLAUNCH_SOURCE_DIR/tests
[ -x $python ] || skip "no $python"
for program in radosgw radosgw-admin ceph-mon ceph-osd ceph ceph-authtool monmaptool; do
    command -v $program >/dev/null || skip "no $program (Debian: radosgw, ceph-mon, ceph-osd)"
done
"$AUTOLAUNCH" --version | grep -Eq "ARCHIVE +in" || skip "this build has no libarchive"
canary="kan""ari-$RANDOM$RANDOM"
export AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=test/secret+with/slashes= AWS_ENDPOINT_URL=http://localhost:7480
mkdir files ceph
$python - files <<'PY'
import random, sys
draw = random.Random(9)
open(f"{sys.argv[1]}/large", "wb").write(draw.randbytes(20 << 20))
for i in range(40):
    open(f"{sys.argv[1]}/{i}", "wb").write(draw.randbytes(draw.randrange(0, 30000)))
PY
(cd files && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
all=$(find files -type f -printf '%s\n' | awk '{sum += $1} END {print sum}')
tar -C files -czf set.tgz .
packed=$(stat -c %s set.tgz)
start_machines one two
mkfifo stop-web stop-s3
on one $python "$tests/integration/http_files.py" "$work/files" "$work/port" "$work/web.requests" <stop-web >web.out 2>&1 &
web=$!
exec 8>stop-web
on one bash "$tests/integration/s3_server.sh" "$work/ceph" 7480 7481 <stop-s3 >s3.out 2>&1 &
s3=$!
exec 9>stop-s3
trap 'exec 8>&- 9>&-; wait "$s3" 2>/dev/null; cleanup' EXIT
eventually "a web server" test -s port
for ((i = 0; i < 5; i++)); do grep -q ready s3.out || sleep 1; done
eventually "an S3 server" grep -q ready s3.out
objects=()
for file in files/*; do objects+=("set/${file#files/}" "$file"); done
(on one $python "$tests/e2e/s3_put.py" $AWS_ENDPOINT_URL data "${objects[@]}" set.tgz set.tgz) || fail "no objects"
url="http://127.0.0.1:$(cat port)/plain/large?id=3&X-Amz-Signature=$canary"
export DATA_URL=$url
cat >train.yaml <<END
trainer: {command: [/bin/sh, -c, 'cd \$AUTOLAUNCH_DATA_SET && sha256sum -c --quiet SHA256SUMS && cmp large \$AUTOLAUNCH_DATA_ONE && cd \$AUTOLAUNCH_DATA_PACKED && sha256sum -c --quiet SHA256SUMS && echo rank \$RANK has it'], mpi: none}
storage: {scratch: /tmp/scratch, stage_in: [{from: "\${DATA_URL}", as: one}, {from: s3://data/set/, as: set, verify: SHA256SUMS}, {from: s3://data/set.tgz, as: packed, unpack: true}]}
monitoring: {resource_tracking: false}
END

# job NAME CODE: a job of two nodes
job() {
    local i agents=() nodes=(one two) code
    rm -rf run
    : >web.requests
    for i in 0 1; do
        on "${nodes[i]}" "$AUTOLAUNCH" run --nnodes 2 --node-rank $i --nproc-per-node 2 --rdzv-endpoint one --rdzv-id "remote-$1" \
            --log-dir run -c train.yaml >"$1-$i.log" 2>&1 </dev/null &
        agents+=($!)
    done
    for i in 0 1; do
        code=0
        wait "${agents[i]}" || code=$?
        [ $code = "$2" ] || fail "exit code $code of node $i on the $1 run"
    done
    [ "$2" != 0 ] || expect "ranks that have it on the $1 run" 4 "$(cat run/generation-0/rank-*/stdout | grep -c 'has it$')"
    grep -rqF "$canary" run ./"$1"-?.log && fail "a signature was printed: $(grep -rlF "$canary" run ./"$1"-?.log)"
    (on one grep -rqF "$canary" /tmp/scratch) && fail "a signature is on the disk"
    return 0
}
sent() { awk '{sum += $4} END {print sum + 0}' web.requests; }

(on one "$AUTOLAUNCH" plan -c train.yaml >plan.log 2>&1) || fail "no plan"
grep -Eq 'AUTOLAUNCH_DATA_ONE +http://127.0.0.1:[0-9]+/plain/large\?… +21.0 MB in 1 file · to be copied' plan.log || fail "what plan says: $(cat plan.log)"
contains "what plan says" plan.log "s3://data/set/"
contains "what plan says of an archive" plan.log "to be copied · unpacked as tar"
grep -qF "$canary" plan.log && fail "plan prints a signature"

job first 0
[ "$(sent)" -lt 21000000 ] && [ "$(sent)" -ge 20971520 ] || fail "the web server has sent $(sent) bytes of 20971520"
contains "the line" first-0.log "staged    set: "
# Of what has no `verify` and comes from a bucket, which here has no checksums: on the node that reads it.
expect "warnings" 1 "$(cat first-?.log | grep -c "storage.stage_in: ")"
contains "what was not compared" first-0.log "storage.stage_in: of s3://data/set.tgz 1 object was compared with no checksum, for the bucket tells none that can be; \`verify\`"
expect "files that were not compared" "one:0 packed:1 set:0" "$(sed -n 's/.*"event":"data_staged","name":"\([a-z]*\)".*"unchecked_files":\([0-9]*\).*/\1:\2/p' run/events.jsonl | sort | xargs)"
grep '"event":"data_staged"' run/events.jsonl >staged.log
expect "bytes that both nodes have read of servers" "$((all + 20971520 + packed))" \
    "$(sed -n 's/.*"read_bytes":\([0-9]*\).*/\1/p' staged.log | awk '{sum += $1} END {print sum}')"
(on two "$AUTOLAUNCH" gc --scratch /tmp/scratch >gc.log 2>&1) || fail "gc"
contains "what gc says" gc.log "/plain/large?…: "
grep -qF "$canary" gc.log && fail "gc prints a signature"

# The next job: another signature, and nothing is read.
export DATA_URL=${url/$canary/${canary}2}
job second 0
[ "$(sent)" -lt 1000 ] || fail "the web server has sent $(sent) bytes again"
contains "the second job" second-0.log "on this node already"

# A node without it gets it from the first, which has it.
(on two rm -rf /tmp/scratch)
job third 0
[ "$(sent)" -lt 1000 ] || fail "the web server has sent $(sent) bytes again"

# start: streaming: ranks of both nodes run while the first reads, and the second has each file from there once it is whole.
(on one rm -rf /tmp/scratch) && (on two rm -rf /tmp/scratch)
cp train.yaml all.yaml
cat >rank.sh <<'END'
cd "$AUTOLAUNCH_DATA_SET" || exit 4
[ -e large ] || echo "rank $RANK began before"
sed 1d ../listing | cut -d' ' -f2 | while read -r name; do
    while [ ! -e "$name" ]; do sleep 0.01; done
    cmp "$name" "$OLDPWD/files/$name" || exit 6
done || exit
while [ ! -e "$AUTOLAUNCH_DATA_ONE" ]; do sleep 0.01; done
cmp large "$AUTOLAUNCH_DATA_ONE" && echo "rank $RANK has it"
END
cat >train.yaml <<END
trainer: {command: [bash, $work/rank.sh], mpi: none}
storage: {scratch: /tmp/scratch, throttle: 16MB, stage_in: [{from: s3://data/set/, as: set, verify: SHA256SUMS, start: streaming}, {from: "\${DATA_URL}", as: one, start: streaming}]}
monitoring: {resource_tracking: false}
END
job streams 0
expect "ranks that began before all was there" 4 "$(cat run/generation-0/rank-*/stdout | grep -c 'began before$')"
[ "$(sent)" -lt 21000000 ] || fail "the web server has sent $(sent) bytes of 20971520"
grep -q "storage.stage_in: " streams-?.log && fail "a warning of a job that went well: $(cat streams-?.log)"
mv all.yaml train.yaml

# Credentials that the server does not take; a file that is not there: all nodes end with its code.
(on one rm -rf /tmp/scratch) && (on two rm -rf /tmp/scratch)
AWS_SECRET_ACCESS_KEY=another-secret-$canary job refused 77
contains "whose credentials" refused-0.log "asked with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
export DATA_URL=${url/large/nothing}
job absent 66
contains "the address" absent-0.log "/plain/nothing?…"
exec 8>&- 9>&-
wait "$web"
