#!/bin/bash
# Data that ranks find on their node's own disk (storage.stage_in): where it is, what comes of a second job, of a restart and
# of a kill, and each thing that can be wrong, with its exit code.
. "$(dirname "$0")/lib.sh"
scratch=$work/scratch
mkdir -p data/sub "$scratch"
head -c 3000000 /dev/urandom >data/sub/tokens.bin
echo one >data/one.txt
ln -s sub/tokens.bin data/latest
echo weights >weights.bin
cat >train.yaml <<END
trainer:
  command: [/bin/sh, -c, "echo \$AUTOLAUNCH_DATA_TOKENS >place.\$RANK; cmp \$AUTOLAUNCH_DATA_TOKENS/latest $work/data/sub/tokens.bin && cat \$AUTOLAUNCH_DATA_W"]
  mpi: none
storage:
  scratch: $scratch
  stage_in:
    - {from: data, as: tokens}
    - {from: $work/weights.bin, as: w}
resource_management: {ranks_per_node: 2}
monitoring: {log_path: runs, resource_tracking: false}
END
run() { timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir "$@"; }

# What plan says of it, before and after.
"$AUTOLAUNCH" plan -c train.yaml >plan.log 2>&1 || fail "no plan"
grep -Eq "AUTOLAUNCH_DATA_TOKENS +$work/data +3.0 MB in 2 files · to be copied" plan.log || fail "what plan says: $(cat plan.log)"
[ -e "$scratch/autolaunch-$(id -u)" ] && fail "plan has made a folder"
run one >one.log 2>&1 || fail "the first job"
grep -Eq "staged    tokens: 3.0 MB in 2 files in " one.log || fail "no line of what was staged: $(cat one.log)"
contains "the event" one/events.jsonl '"event":"data_staged","name":"w"'
cmp place.0 place.1 || fail "ranks have two places"
place=$(cat place.0)
case $place in "$scratch/autolaunch-$(id -u)/stage/data/"*/tree) ;; *) fail "an odd place: $place" ;; esac
expect "modes" "555 444" "$(stat -c %a "$place" "$place/one.txt" | xargs)"
run two >two.log 2>&1 || fail "the second job"
contains "the second job" two.log "staged    tokens: 3.0 MB in 2 files · on this node already"
contains "what it read" two/events.jsonl '"read_bytes":0,"was_here":true'
"$AUTOLAUNCH" plan -c train.yaml 2>&1 | grep -q "on this node already" || fail "plan does not see it"
"$AUTOLAUNCH" plan --json -c train.yaml | python3 -c '
import json, sys
staging = json.load(sys.stdin)["staging"]
assert [item["variable"] for item in staging["items"]] == ["AUTOLAUNCH_DATA_TOKENS", "AUTOLAUNCH_DATA_W"], staging' ||
    fail "plan --json"

# A restart finds it without another look; what the user has set wins.
says 3 "exited with code 3" timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir three restart.max_restarts=1 trainer.env.AUTOLAUNCH_DATA_W=mine -- \
    /bin/sh -c 'test -d $AUTOLAUNCH_DATA_TOKENS && test $AUTOLAUNCH_DATA_W = mine || exit 4; exit 3'
expect "stagings over two generations" 2 "$(grep -c '"event":"data_staged"' three/events.jsonl)"

# What is wrong in the spec: at its line.
wrong() {
    sed "$1" train.yaml >wrong.yaml
    says 65 "$2" "$AUTOLAUNCH" validate wrong.yaml
}
wrong 's/as: w}/as: Tokens}/' 'wrong.yaml:8:7: storage.stage_in[1].as: "Tokens" is the name of data already'
wrong 's/as: w}/as: w, verfy: x}/' 'storage.stage_in[1].verfy: unknown key; did you mean "verify"?'
wrong 's/, as: w}/}/' 'storage.stage_in[1]: says not as'
wrong 's/as: w}/as: a-b}/' 'expected a name of letters, digits and _'
wrong 's/as: w}/as: w, verify: "sha256:12"}/' 'storage.stage_in[1].verify: expected sha256: and 64'
wrong 's/as: w}/as: w, verify: "..\/list"}/' 'storage.stage_in[1].verify: expected sha256: and 64'

wrong 's/as: w}/as: w, unpack: true}/' 'storage.stage_in[1].unpack: is true, and the name of'
wrong 's/as: w}/as: w, unpack: rar}/' 'storage.stage_in[1].unpack: expected true (by its name), tar'
wrong 's|from: data|from: "http://example.org/a?sig=canary"|' 'storage.stage_in[0].from: http://example.org/a?…: http sends in the clear'
wrong 's|from: data|from: "https://me:canary@example.org/a"|' 'storage.stage_in[0].from: https://example.org/a: has a user in it'
wrong 's|from: data|from: "gs://bucket/a"|' 'what is staged is a path, or an address of s3, https or http'
wrong 's|from: data|from: "https://example.org/a/"|' 'names no file of a server'
"$AUTOLAUNCH" validate wrong.yaml 2>&1 | grep -q canary && fail "a secret of an address is printed"

# What is wrong with the data: a sentence, the remedy, a code; and nothing is left of it.
bad() { # CODE TEXT SED
    sed "$3" train.yaml >bad.yaml
    rm -rf bad
    says "$1" "$2" timeout 60 "$AUTOLAUNCH" run -c bad.yaml --log-dir bad
    expect "parts after '$2'" "" "$(ls -A "$scratch/autolaunch-$(id -u)/stage/parts")"
}
bad 66 "cannot read $work/nowhere: No such file" 's/from: data/from: nowhere/'
mkdir out fifo
ln -s /etc/passwd out/link
mkfifo fifo/pipe
bad 65 "the link $work/out/link leads out of what is staged, to /etc/passwd" 's/from: data/from: out/'
bad 65 "$work/fifo/pipe is neither a file nor a folder nor a link" 's/from: data/from: fifo/'
sum=$(sha256sum weights.bin | cut -d' ' -f1)
bad 65 "weights.bin has sha256:$sum, and not 0000" "s/as: w}/as: w, verify: \"sha256:$(printf %064d 0)\"}/"
sed "s/as: w}/as: w, verify: \"sha256:$sum\"}/" train.yaml >good.yaml
timeout 60 "$AUTOLAUNCH" run -c good.yaml --log-dir good >good.log 2>&1 || fail "with the right digest"
cp -r data listed
(cd listed && sha256sum one.txt sub/tokens.bin >SHA256SUMS)
sed "s/from: data, as: tokens}/from: listed, as: tokens, verify: SHA256SUMS}/" train.yaml >listed.yaml
timeout 60 "$AUTOLAUNCH" run -c listed.yaml --log-dir listed.run >listed.log 2>&1 || fail "with a list of digests"
echo more >listed/more.txt
bad 65 "listed/more.txt is not in SHA256SUMS" "s/from: data, as: tokens}/from: listed, as: tokens, verify: SHA256SUMS}/"
echo two >listed/one.txt
rm listed/more.txt
bad 65 "listed/one.txt has sha256:" "s/from: data, as: tokens}/from: listed, as: tokens, verify: SHA256SUMS}/"
bad 73 "has no room for" 's/scratch: .*/&\n  limit: 1MB/; s/from: data/from: listed/; s/as: w}/as: w}/'
bad 73 "storage.scratch: " 's/scratch: .*/scratch: \/proc/'

# Archives: what is in them, or why they are refused; nothing of those is left.
archives() {
    mkdir archives
    python3 "$AUTOLAUNCH_SOURCE_DIR/tests/integration/hostile_archives.py" archives || fail "no archives"
    packed() { sed "s/from: data, as: tokens/from: archives\/$1, as: tokens, unpack: ${2:-true}/" train.yaml >packed.yaml; }
    for name in good.tgz good.zip; do
        packed $name
        timeout 60 "$AUTOLAUNCH" run -c packed.yaml --log-dir packed -- /bin/sh -c 'cmp archives/noise $AUTOLAUNCH_DATA_TOKENS/sub/noise && $AUTOLAUNCH_DATA_TOKENS/run.sh' >packed.log 2>&1 ||
            fail "with $name: $(cat packed.log)"
        timeout 60 "$AUTOLAUNCH" run -c packed.yaml --log-dir packed -- true >packed.log 2>&1 || fail "with $name again"
        contains "$name again" packed.log "on this node already"
    done
    bad_archive() { # CODE TEXT NAME [SED]
        packed "$3" "${5:-true}"
        sed "${4:-}" packed.yaml >bad.yaml
        rm -rf bad
        says "$1" "$2" timeout 60 "$AUTOLAUNCH" run -c bad.yaml --log-dir bad
        expect "parts after '$2'" "" "$(ls -A "$scratch/autolaunch-$(id -u)/stage/parts")"
    }
    bad_archive 65 "archives/dots.tar: entry 1, \"a/../../out\", leads out of what is unpacked" dots.tar
    bad_archive 65 "archives/cut.tar is no whole tar archive" cut.tar
    bad_archive 65 "archives/good.tgz has sha256:" good.tgz "s/unpack: true/&, verify: \"sha256:$(printf %064d 0)\"/"
    bad_archive 65 "is a folder" "" "" tar
    bad_archive 73 "has no room for" bomb.tgz 's/scratch: .*/&\n  limit: 30MB/'
}
if "$AUTOLAUNCH" --version | grep -Eq "ARCHIVE +in"; then archives; else echo "archives are not tested: this build has no libarchive"; fi

# Too slow, stopped, killed: no process of it stays, and the next job goes on with the files that were whole.
mkdir -p slow
for i in 1 2 3 4; do head -c 1000000 /dev/urandom >slow/$i; done
sed "s/scratch: .*/&\n  throttle: 1MB/; s/from: data, as: tokens/from: slow, as: tokens/" train.yaml >slow.yaml
printf 'storage: {scratch: %s, timeout: 7s, stage_in: [{from: "http://127.0.0.1:1/x", as: x}]}\ntrainer: {command: [/bin/true], mpi: none}\n' "$scratch" >away.yaml
says 69 "x was not there after storage.timeout, 7 s, and nothing came of it in the last " "$AUTOLAUNCH" run -c away.yaml --log-dir away
contains "what to do where more time would not help" away/events.jsonl "the server has to answer"
says 69 "storage.stage_in: tokens was not there after storage.timeout, 1 s" timeout 60 "$AUTOLAUNCH" run -c slow.yaml --log-dir slow.run storage.timeout=1s
part=$(ls -d "$scratch/autolaunch-$(id -u)/stage/parts/"*)
has_whole_file() { stat -c %a "$part"/tree/* 2>/dev/null | grep -q 444; }
begin() {
    rm -rf "$part" begun
    timeout 60 "$AUTOLAUNCH" run -c slow.yaml --log-dir begun >begun.log 2>&1 &
    eventually "a whole file" has_whole_file
}
begin
pkill -TERM -P $! autolaunch
code=0
wait $! || code=$?
expect "stopped while it stages" 143 "$code"
nothing_left
begin
pkill -KILL -P $! autolaunch
{ wait $!; } 2>/dev/null
has_whole_file || fail "nothing is left of what had come"
timeout 60 "$AUTOLAUNCH" run -c slow.yaml --log-dir next storage.throttle=1GB -- /bin/sh -c 'cmp slow/4 $AUTOLAUNCH_DATA_TOKENS/4' >next.log 2>&1 ||
    fail "the job after a kill: $(cat next.log)"
read_bytes=$(sed -n 's/.*"name":"tokens".*"read_bytes":\([0-9]*\).*/\1/p' next/events.jsonl)
[ "$read_bytes" -lt 4000000 ] || fail "the job after a kill has read all anew: $read_bytes"
expect "parts in the end" "" "$(ls -A "$scratch/autolaunch-$(id -u)/stage/parts")"

# gc: what was not used for long goes, and nothing that a job uses, that wants to be kept longer, or without --apply.
gc() { timeout 60 "$AUTOLAUNCH" gc --scratch "$scratch" "$@" >gc.log 2>&1 || fail "gc $*: $(cat gc.log)"; }
trees() { ls "$scratch/autolaunch-$(id -u)/stage/data" | wc -l; }
before=$(trees)
gc
contains "a young cache" gc.log "would remove 0 of $before, 0 B"
find "$scratch/autolaunch-$(id -u)/stage/data" -mindepth 1 -maxdepth 1 -exec touch -d '40 days ago' {} +
timeout 60 "$AUTOLAUNCH" run -c slow.yaml --log-dir holds storage.keep=60d -- /bin/sh -c 'touch holds.now; until [ -e gc.over ]; do sleep 0.05; done' >holds.log 2>&1 &
holder=$!
eventually "a job that uses two" test -e holds.now
gc --older-than 30d
contains "what would go" gc.log "would remove $((before - 2)) of $before"
contains "what is used" gc.log "(a job uses it)"
expect "trees after a look" "$before" "$(trees)"
gc --apply --older-than 30d
contains "what has gone" gc.log "removed $((before - 2)) of $before"
expect "trees after --apply" 2 "$(trees)"
# It was used until the job's end, however long that ran.
find "$scratch/autolaunch-$(id -u)/stage/data" -mindepth 1 -maxdepth 1 -exec touch -d '70 days ago' {} +
touch gc.over
wait $holder || fail "the job beside gc"
gc --older-than 1d
expect "used last" 2 "$(grep -Ec '\(used last [^ ]* ?[0-9.]+ m?s ago, kept for 60 d' gc.log)"
find "$scratch/autolaunch-$(id -u)/stage/data" -mindepth 1 -maxdepth 1 -exec touch -d '50 days ago' {} +
gc --json
python3 -c '
import json
d = json.load(open("gc.log"))
assert [tree["what"] for tree in d["trees"]] == ["stays", "stays"] and not d["applied"], d
assert all("by storage.keep of its jobs" in tree["why"] and tree["of"] for tree in d["trees"]), d' || fail "storage.keep"

says 64 "x is no duration" "$AUTOLAUNCH" gc --older-than x
gc --scratch "$work/nothing"
contains "a folder that is not there" gc.log "would remove 0 of 0"
count_failures
