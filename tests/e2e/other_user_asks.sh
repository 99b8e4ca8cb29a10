# attach and drain ask a running job. The kernel says who asks: another user of the machine is not answered, not even where the
# run directory and the folder of sockets were opened to him; the job goes on, and its own user and root are answered.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] && setpriv --reuid 2001 --regid 2001 --clear-groups true 2>/dev/null || skip "needs root, to be other users"
for_all_users
as() { setpriv --reuid "$1" --regid "$1" --clear-groups env HOME=/ XDG_RUNTIME_DIR= TMPDIR="$work/tmp" "${@:2}"; } # UID COMMAND...
mkdir -m 1777 runs tmp
touch go && chmod 644 go
job=$work/runs/job
as 2001 "$AUTOLAUNCH" --log-dir "$job" /bin/sh -c "echo the rank speaks; while [ -e $work/go ]; do sleep 0.1; done; echo and ends" \
    >job.log 2>&1 </dev/null &
agent=$!
eventually "the rank's output" grep -q "the rank speaks" job.log
eventually "the head's record" test -e "$job/head.json"
door=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["door"])' "$job/head.json")
[ -S "$door" ] || fail "no door at $door"
expect "mode of the door" 600 "$(stat -c %a "$door")"
expect "mode of the folder of sockets" 700 "$(stat -c %a "$(dirname "$door")")"
expect "mode of the record" 640 "$(stat -c %a "$job/head.json")"

# refused WHAT COMMAND...: as the other user, within seconds, and nothing of the job is shown
refused() {
    local what=$1 code=0
    shift
    timeout 40 setpriv --reuid 2002 --regid 2002 --clear-groups env HOME=/ TMPDIR="$work/tmp" "$AUTOLAUNCH" "$@" >refused.log 2>&1 </dev/null || code=$?
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] || failed "$what: $* exits with $code: $(cat refused.log)"
    grep -q "the rank speaks" refused.log && failed "$what: the other user sees the job's output"
    kill -0 "$agent" 2>/dev/null || fail "$what: the job is over"
}
refused "all closed" attach "$job"
refused "all closed" drain "$(hostname)" --job "$job"
# A user who opens his run directory does not open his job.
chmod 755 "$job" && chmod 644 "$job/head.json"
refused "the run directory is open" attach "$job"
refused "the run directory is open" drain "$(hostname)" --job "$job"
# Nor does one whose folder of sockets can be entered and whose door can be written to: the kernel tells who asks.
for folder in $(dirname "$door") $(dirname "$(dirname "$door")"); do chmod o+rx "$folder"; done
chmod 666 "$door"
as 2002 python3 - "$door" >stranger.log 2>&1 <<'EOF' || failed "the stranger at the door: $(cat stranger.log)"
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
try:
    s.sendall(bytes([11, 0, 0, 0, 6, 2, 5, 0, 0, 0]) + b"node0")  # Ask: drain
    assert s.recv(1) == b"", "an answer"
except (BrokenPipeError, ConnectionResetError):
    pass  # closed before it was asked anything
print("closed without a word")
EOF
contains "the door" stranger.log "closed without a word"
refused "the door is open" attach "$job"
refused "the door is open" drain "$(hostname)" --job "$job"

# Who may ask is answered: its user, and root.
as 2001 timeout 20 "$AUTOLAUNCH" attach "$job" >mine.log 2>&1 </dev/null &
mine=$!
timeout 20 "$AUTOLAUNCH" attach "$job" >roots.log 2>&1 </dev/null &
roots=$!
sleep 1
rm go
wait "$mine" || failed "the job's user cannot attach: $(cat mine.log)"
wait "$roots" || failed "root cannot attach: $(cat roots.log)"
contains "what its user sees" mine.log "and ends"
contains "what root sees" roots.log "and ends"
wait "$agent" || fail "the job ended with $?"
count_failures
