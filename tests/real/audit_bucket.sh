#!/bin/bash
# Heads of an audit trail in a bucket of a real S3 server (Ceph's radosgw) that is locked: what `audit verify` says of it, of a trail
# that was cut or written anew, of a bucket without a lock and of one that does not answer.
. "$(dirname "$0")/../e2e/lib.sh"
[ "${AUTOLAUNCH_SLOW_TESTS:-}" = 1 ] || skip "it starts a Ceph: AUTOLAUNCH_SLOW_TESTS=1 runs it"
command -v radosgw >/dev/null && command -v ceph-osd >/dev/null || skip "radosgw is not installed"
port=$((20000 + $$ % 20000))
mkdir ceph
mkfifo ceph.input
"$AUTOLAUNCH_SOURCE_DIR/tests/integration/s3_server.sh" "$work/ceph" $port $((port + 1)) <ceph.input >ceph.out 2>ceph.log &
exec {ceph}>ceph.input
trap 'exec {ceph}>&-; wait; cleanup' EXIT
eventually "radosgw" grep -q ready ceph.out
export AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=test/secret+with/slashes= AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port AWS_REGION=us-east-1
s3() { python3 "$AUTOLAUNCH_SOURCE_DIR/tests/real/s3_request.py" "$1" "http://127.0.0.1:$port/$2" "${@:3}"; } # METHOD PATH [HEADER...]
s3 PUT locked 'x-amz-bucket-object-lock-enabled: true' >>s3.log && s3 PUT open >>s3.log || fail "no buckets"
state=.local/state/autolaunch/audit/$(hostname).jsonl
export HOME=$work
unset XDG_STATE_HOME
job() { printf '%s\n' "trainer: {command: [$misbehave, exit:0]}" "audit: {enabled: true, required: true, $1}" >job.yaml; }

job 'anchor: "s3://locked/trails", log_retention_days: 2'
says 0 'done' "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs"
verify=("$AUTOLAUNCH" audit verify "$work/$state" --anchor s3://locked/trails)
says 0 "has 2 heads of it, all locked until" "${verify[@]}"
says 0 "2 of 5 lines are the ones that are kept elsewhere, through number 4 of 4" "${verify[@]}"
chain=$(sed -n '1s/.*"chain":"\([0-9a-f]*\)".*/\1/p' "$state")
key=locked/trails/$chain/000000000004
version=$(s3 GET "locked?versions" | python3 -c '
import re, sys
for key, version in re.findall("<Key>([^<]*)</Key><VersionId>([^<]*)", sys.stdin.read()):
    if sys.argv[1].endswith(key): print(version)' "$key")
answer=$(s3 DELETE "$key?versionId=$version")
grep -q AccessDenied <<<"$answer" || failed "a locked head can be deleted ($version): $answer"
cp "$state" kept
head -n 4 kept >"$state"
says 1 "lines were cut off" "${verify[@]}"
sed 's/"exit_code":0/"exit_code":1/' kept >"$state"
says 1 "is another line than the one whose head" "${verify[@]}"
rm "$state"
says 0 'done' env -u AWS_ENDPOINT_URL_S3 "$AUTOLAUNCH" --log-dir "$work/other" -- true # of another trail, which is not anchored
job 'log_retention_days: 2'
says 0 'done' "$AUTOLAUNCH" -c job.yaml --log-dir "$work/anew"
says 69 "has 0 heads of it" "${verify[@]}"
cp kept "$state"
says 69 "does not answer" env AWS_ENDPOINT_URL_S3=http://127.0.0.1:1 "${verify[@]}"

# A bucket without a lock refuses a retention; without one it takes the head, and who has its key can delete it.
rm "$state"
job 'anchor: "s3://open/trails", log_retention_days: 2'
says 73 "cannot be kept" "$AUTOLAUNCH" -c job.yaml --log-dir "$work/refused"
rm -f "$state"
job 'anchor: "s3://open/trails"'
says 0 'done' "$AUTOLAUNCH" -c job.yaml --log-dir "$work/unlocked"
says 0 "0 of them locked: who has the bucket's key can delete the others" "$AUTOLAUNCH" audit verify "$work/$state" --anchor s3://open/trails
count_failures
