# The audit trail of two users under an administrator's file: what is in it, whose it is, what `audit verify` finds, what
# follows where it cannot be kept. In a mount namespace of its own, whose /etc is a copy. journald is the real one where
# systemd is installed.
self=$(readlink -f "$0")
. "${self%/*}/lib.sh"

if [ "${AUDIT_TEST_INSIDE:-}" != yes ]; then
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, and a mount namespace of its own"
    AUDIT_TEST_INSIDE=yes unshare --mount --propagation private bash "$self"
    exit
fi
for_all_users
unset XDG_RUNTIME_DIR XDG_STATE_HOME
cp -a /etc etc && mount --bind etc /etc && mount -t tmpfs -o mode=755 tmpfs /run || fail "no /etc or /run of its own"
mounted=/etc
printf '%s\n' amy:x:2001:2001::/:/bin/sh ben:x:2002:2002::/:/bin/sh >>/etc/passwd
printf '%s\n' amy:x:2001: ben:x:2002: engineers:x:3001:amy >>/etc/group
for user in amy:2001 ben:2002; do
    printf '#!/bin/sh\nexec setpriv --reuid %s --regid %s --clear-groups env HOME=%s "$@"\n' "${user#*:}" "${user#*:}" "$work/home-${user%:*}" >"programs/${user%:*}"
    chmod 755 "programs/${user%:*}"
    install -d -m 700 -o "${user#*:}" -g "${user#*:}" "home-${user%:*}"
done
host=$(hostname)
site() { # LINES: the administrator's file
    mkdir -p -m 755 /etc/autolaunch && printf '%s\n' "$@" >/etc/autolaunch/site.yaml && chmod 644 /etc/autolaunch/site.yaml
}
mkdir -m 1777 runs
job() { printf '%s\n' "trainer: {command: [$misbehave, exit:0], env: {HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz012345}}" "$@"; }
job >job.yaml
log=$work/log
install -d -m 3733 "$log"
trail_of() { echo "$log/$1/$host.jsonl"; }
events_of() { python3 -c 'import json, sys; print(*[json.loads(l)["event"] for l in open(sys.argv[1])])' "$1"; }

# ---- without a file nothing is recorded; a job may ask for it ---------------------------------------------------------
says 0 done amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/none"
[ ! -e home-amy/.local ] || failed "something was recorded that nobody asked for"
job 'audit: {enabled: true}' >own.yaml
says 0 "there is no /run/systemd/journal/socket" amy "$AUTOLAUNCH" -c own.yaml --log-dir "$work/runs/own"
own=home-amy/.local/state/autolaunch/audit/$host.jsonl
[ "$(events_of "$own")" = "opened submit grants key_use start end" ] || failed "what a job leaves: $(cat "$own")"
[ "$(stat -c %a "$own" "${own%/*}" | tr '\n' ' ')" = "600 700 " ] || failed "modes: $(stat -c '%a %n' "$own" "${own%/*}")"
grep -q hf_abc "$own" && failed "a secret is in the trail"
grep -q '"names":\["HF_TOKEN"\]' "$own" || failed "no secret by name: $(cat "$own")"
says 0 "proves nothing against amy (uid 2001), who can write all of it anew" amy "$AUTOLAUNCH" audit verify
says 0 "whole: 6 lines in 1 file, of amy" amy "$AUTOLAUNCH" audit verify "$work/runs/own"
printf '%s\n' 'trainer: {command: [/bin/true]}' 'audit: {enabled: true}' >later.yaml
says 69 "scontrol cannot be started" amy env PATH=/nowhere "$AUTOLAUNCH" submit -c later.yaml # it was asked for all the same
tail -n 1 "$own" | grep -q '"event":"submit".*"to":"slurm"' || failed "no submission: $(tail -n 1 "$own")"
says 66 "there is no audit trail" ben "$AUTOLAUNCH" audit verify

# ---- of all users, by the administrator's file ------------------------------------------------------------------------
site 'contact: ops@example.org' 'audit: {enabled: true, directory: '"$log"', events_to_log: [job, policy_decision, key_use, model_export, checkpoint, attach, device_access, user_login]}' \
    'rbac: {roles: {engineers: {permissions: [train, export], max_gpus: 8}}}'
says 0 "user_login: autolaunch sees no such event" "$AUTOLAUNCH" policy show
says 0 done amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/one" --rdzv-id first
says 77 "ben has no role" ben "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/two"
says 0 done amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/one" --rdzv-id second
[ "$(events_of "$(trail_of 2001)")" = "opened submit policy grants key_use start end submit policy grants key_use start end" ] ||
    failed "amy's trail: $(cat "$(trail_of 2001)")"
[ "$(events_of "$(trail_of 2002)")" = "opened submit policy" ] || failed "ben's trail: $(cat "$(trail_of 2002)")"
grep -q '"allowed":false' "$(trail_of 2002)" || failed "no refusal in ben's trail"
[ "$(stat -c %a "$(trail_of 2001)" "$log/2001" | tr '\n' ' ')" = "640 2750 " ] || failed "modes: $(stat -c '%a %n' "$log/2001" "$log/2001"/*)"
says 0 "whole: 13 lines" amy "$AUTOLAUNCH" audit verify
says 0 "whole: 3 lines in 1 file, of ben" "$AUTOLAUNCH" audit verify # root: all users'
says 0 "job=second" "$AUTOLAUNCH" audit show --job second --user amy --kind end --since 1h
[ "$("$AUTOLAUNCH" audit show --job second --json | wc -l)" = 4 ] || failed "show --job: $("$AUTOLAUNCH" audit show --job second)"
says 64 "yesterday is no time" "$AUTOLAUNCH" audit show --since yesterday
# With a shell, as docs/audit.md says.
[ "$(sed -n 2p "$(trail_of 2001)" | tr -d '\n' | sha256sum | cut -c 1-64)" = "$(sed -n 3p "$(trail_of 2001)" | cut -c 16-79)" ] ||
    failed "sha256sum of line 2 is not what line 3 has"
ben cat "$(trail_of 2001)" >/dev/null 2>&1 && failed "ben reads amy's trail"
ben mv "$log/2001" "$log/taken" 2>/dev/null && failed "ben moves amy's trails"
ben mkdir -m 755 "$log/2003"
says 0 "belongs to another user (uid 2002), who could replace what is written into it; the trail misses what is not written" \
    setpriv --reuid 2003 --regid 3001 --groups 3001 env HOME=/nowhere "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/stranger"
rm -rf "$log/2003"

# ---- what `ckpt` does -------------------------------------------------------------------------------------------------
cp "$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample" programs/
amy programs/checkpoint_sample 2 "$work/runs/saved" 1 0 >sample.log 2>&1 || failed "no sample: $(cat sample.log)"
says 0 "tensors" amy "$AUTOLAUNCH" ckpt export "$work/runs/saved" "$work/runs/out.safetensors" --all
[ "$(events_of "$(trail_of 2001)" | awk '{ print $(NF - 1), $NF }')" = "checkpoint_read checkpoint_exported" ] || failed "no export in the trail"
says 0 'to="'"$work"'/runs/out.safetensors"' "$AUTOLAUNCH" audit show --kind checkpoint_exported

# ---- what ranks say that they did ------------------------------------------------------------------------------------
# Two checkpoints are saved and one is kept, here and where they are drained to; the next job goes on from it.
gpt=$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt
if [ -x "$gpt" ]; then
    for i in $(seq 60); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
    cp "$gpt" programs/ && chmod 755 programs/gpt && chmod 644 text
    training() { # MAX_STEPS
        cat <<END
trainer: {command: [$work/programs/gpt], config: {sample_bytes: 0}}
resource_management: {ranks_per_node: 2}
model: {layers: 1, heads: 1, width: 8, context: 8}
dataloader: {path: $work/text, global_batch: 2}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: $1, warmup_steps: 0, log_every: 1, checkpoint_every: 2}
checkpoint: {checkpoint_dir: $work/runs/trained, keep: 1}
END
    }
    export OMP_NUM_THREADS=1
    training 4 >four.yaml && training 6 >six.yaml
    says 0 done amy "$AUTOLAUNCH" -c "$work/four.yaml" --log-dir "$work/runs/train" --rdzv-id four
    says 0 "resumed from step 4" amy "$AUTOLAUNCH" -c "$work/six.yaml" --log-dir "$work/runs/train" --rdzv-id six
    kinds() { amy "$AUTOLAUNCH" audit show --job "$1" --json | python3 -c '
import json, sys
for line in map(json.loads, sys.stdin):
    if line["event"].startswith("checkpoint"): print(line["event"][11:], line["detail"]["path"].rsplit("/", 1)[1])' | paste -sd, ; }
    expect "what four's ranks did" "written step-00000002,written step-00000004,deleted step-00000002" "$(kinds four)"
    expect "what six's ranks did" "read step-00000004,written step-00000006,deleted step-00000004" "$(kinds six)"
    grep -q '"event":"checkpoint_loaded".*step-00000004' runs/train/events.jsonl || failed "nothing of it in events.jsonl"
fi

# ---- names that are no names ------------------------------------------------------------------------------------------
odd=$work/runs/$'a b\n\e[31mc'
says 0 done amy "$AUTOLAUNCH" -c job.yaml --log-dir "$odd" --rdzv-id $'x "y"'
says 0 "whole" amy "$AUTOLAUNCH" audit verify
LC_ALL=C grep -q '[^ -~]' "$(trail_of 2001)" && failed "a byte in the trail that no terminal should get"
amy "$AUTOLAUNCH" audit show --job $'x "y"' | grep -q $'\e' && failed "show writes to the terminal"

# ---- what its owner can do, and what is found -------------------------------------------------------------------------
trail=$(trail_of 2001)
cp "$trail" kept
tampered() { # WHAT TEXT SED
    sed "$3" kept | amy tee "$trail" >/dev/null
    says 1 "$2" "$AUTOLAUNCH" audit verify "$trail"
}
tampered "a changed line" "the line before it is not the one" '4s/"amy"/"bob"/'
tampered "a removed line" "are missing" '5d'
tampered "a line of its own" "is no line of a trail" '5i hello'
tampered "a beginning that is gone" "what was before is missing" '1,3d'
head -c -20 kept | amy tee "$trail" >/dev/null # as a kill leaves it
says 0 done amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/three"
says 0 "a process died while it wrote this line" "$AUTOLAUNCH" audit verify "$trail"

# ---- journald ---------------------------------------------------------------------------------------------------------
mkdir -p /run/systemd/journal /run/log/journal
journald=/lib/systemd/systemd-journald
if [ -x $journald ] && command -v journalctl >/dev/null; then
    [ ! -d /var/log/journal ] || mount -t tmpfs tmpfs /var/log/journal
    $journald >journald.log 2>&1 &
    journal=$!
else
    echo "journald is played by a socket of this test: systemd is not installed"
    cat >journal.py <<'PY'
import json, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("/run/systemd/journal/socket"); os.chmod("/run/systemd/journal/socket", 0o666)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
while True:
    data, ancillary, _, _ = s.recvmsg(1 << 20, 256)
    entry = dict(line.split("=", 1) for line in data.decode().splitlines())
    entry["_UID"] = str(struct.unpack("iii", ancillary[0][2])[1])
    with open(sys.argv[1], "a") as f: f.write(json.dumps(entry, separators=(",", ":")) + "\n")
PY
    python3 journal.py "$work/journal" &
    journal=$!
    printf '#!/bin/sh\nfor word; do case $word in AUTOLAUNCH_AUDIT_CHAIN=*) grep -F "\\"AUTOLAUNCH_AUDIT_CHAIN\\":\\"${word#*=}\\"" %s/journal;; esac; done\n' "$work" >programs/journalctl
    chmod 755 programs/journalctl
fi
eventually "a journal" test -S /run/systemd/journal/socket
in_journal() { journalctl -o json -q --no-pager "AUTOLAUNCH_AUDIT_CHAIN=$chain" | grep -c "\"_UID\":\"$1\""; } # UID
has_entries() { [ "$(in_journal "$1")" -ge "$2" ]; }
rm -f "$trail"
says 0 done amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/four"
chain=$(sed -n '1s/.*"chain":"\([0-9a-f]*\)".*/\1/p' "$trail")
eventually "her lines in the journal" has_entries 2001 7
says 0 "journald has 7 lines of it" "$AUTOLAUNCH" audit verify "$trail"
says 0 "7 of 7 lines are the ones that are kept elsewhere, through number 6 of 6" "$AUTOLAUNCH" audit verify "$trail"
cp "$trail" kept
head -n 5 kept | amy tee "$trail" >/dev/null
says 1 "lines were cut off" "$AUTOLAUNCH" audit verify "$trail"
# Written anew, with right digests: another trail by its name, of which nobody has anything; under the old name it shows.
python3 - kept <<'PY' | amy tee "$trail" >/dev/null
import hashlib, json, sys
prev = "0" * 64
for line in open(sys.argv[1]):
    record = json.loads(line); record["prev"] = prev
    if record["event"] == "end": record["detail"] = {"exit_code": 1}
    text = json.dumps(record, separators=(",", ":")); print(text)
    prev = hashlib.sha256(text.encode()).hexdigest()
PY
says 1 "is another line than the one whose head journald has" "$AUTOLAUNCH" audit verify "$trail"
# ben gives journald a line for amy's trail: it is his, not hers.
cp kept "$trail" && chown 2001:2001 "$trail"
ben python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(("MESSAGE=x\n" + "MESSAGE_ID=6f1c0c2b5f4e4c56a1b0c3d0b7f8a9e1\nAUTOLAUNCH_AUDIT_CHAIN=%s\nAUTOLAUNCH_AUDIT_SEQ=99\nAUTOLAUNCH_AUDIT_SHA256=ab\n" % sys.argv[1]).encode(), "/run/systemd/journal/socket")' "$chain"
eventually "ben's entry" has_entries 2002 1
says 0 "user 2002 has given journald a head for number 99 of this trail, which is user 2001's: not counted" "$AUTOLAUNCH" audit verify "$trail"
# An administrator who has named journald wants to know that it has nothing, by the exit code, too.
site "audit: {enabled: true, directory: $log, anchor: journald}"
says 0 "7 of 7 lines" "$AUTOLAUNCH" audit verify "$trail"
says 69 "journald is to prove it, and has nothing of it that can be seen from here" "$AUTOLAUNCH" audit verify "$(trail_of 2002)"
kill $journal && rm -f /run/systemd/journal/socket

# ---- where it cannot be kept ------------------------------------------------------------------------------------------
site "audit: {required: true, directory: $log, anchor: journald}"
says 73 "the audit trail that the administrator requires cannot be kept" amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/five"
[ ! -e runs/five/generation-0 ] || failed "ranks were started without the trail"
says 73 "cannot be kept" amy "$AUTOLAUNCH" ckpt export "$work/runs/saved" "$work/runs/again.safetensors" --all
[ ! -e runs/again.safetensors ] || failed "exported without the trail"
site "audit: {enabled: true, directory: $log, anchor: journald}"
says 0 "its lines do not reach journald" amy "$AUTOLAUNCH" -c job.yaml --log-dir "$work/runs/six"
mkdir full && mount -t tmpfs -o size=64k,mode=1777 tmpfs full && mounted=$work/full
site "audit: {required: true, directory: $work/full}"
job >long.yaml && sed -i 's/exit:0/"sleep:30,exit:0"/' long.yaml
amy timeout 60 "$AUTOLAUNCH" -c long.yaml --log-dir "$work/runs/full" >full.log 2>&1 &
agent=$!
eventually "a rank" test -e runs/full/generation-0/rank-0/stdout
eventually "its line" grep -q '"event":"start"' "$work/full/2001/$host.jsonl"
ben dd if=/dev/zero of=full/ben bs=1k count=64 2>/dev/null
for ((i = 0; i < 16; i++)); do # each is a line; what is left of a page has room for some
    amy timeout 20 "$AUTOLAUNCH" attach "$work/runs/full" >attach.log 2>&1 </dev/null &
done
wait $agent
expect "exit code of a job whose trail cannot go on" 73 "$?"
contains "why" full.log "the audit trail that the administrator requires cannot be kept"
says 0 "whole" "$AUTOLAUNCH" audit verify "$work/full/2001/$host.jsonl"
umount full
mounted=/etc
job 'audit: {required: false}' >loose.yaml && chmod 644 loose.yaml
says 65 "audit.required: false is not what the administrator allows" amy "$AUTOLAUNCH" -c "$work/loose.yaml"
count_failures
