#!/bin/bash
# A run directory that another user of the machine has prepared makes nobody write elsewhere; one that is made is not the
# world's to read.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "needs root to be another user too"
chmod 711 "$work"
mkdir -m 1777 shared
echo precious >victim
stranger() { setpriv --reuid 65534 --regid 65534 --clear-groups bash -c "$1" || fail "the other user cannot: $1"; }
# refused WHAT DIRECTORY TEXT
refused() {
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir "$2" "$misbehave" exit:0 >out.log 2>err.log </dev/null
    expect "exit code, $1" 73 "$?"
    contains "the reason, $1" err.log "$3"
    expect "the victim's file, $1" precious "$(cat victim)"
    nothing_left
}

stranger "mkdir -m 777 shared/run && ln -s $work/victim shared/run/events.jsonl && ln -s $work/victim shared/run/plan.json"
refused "a folder of his" shared/run "belongs to another user (uid 65534)"
stranger "ln -s $work shared/link"
refused "a link of his" shared/link "is a symbolic link"
mkdir -m 1777 open
stranger "ln -s $work/victim open/events.jsonl"
refused "a link of his in a folder for all" open "events.jsonl is a symbolic link"
mkdir -m 777 loose && chmod 777 loose
refused "a folder for all" loose "everybody may write to the folder"

(
    umask 022
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir shared/runs/ours "$misbehave" exit:0 >out.log 2>err.log </dev/null
    exit $?
)
expect "exit code in a place of our own" 0 "$?"
modes() { stat -c %a "$@" | tr '\n' ' '; }
expect "modes of folders" "750 750 750 750 " "$(modes shared/runs shared/runs/ours shared/runs/ours/generation-0{,/rank-0})"
expect "modes of files" "640 640 640 600 600 " \
    "$(modes shared/runs/ours/{generation-0/rank-0/{stdout,stderr},events.jsonl,plan.json,trainer_config.json})"

# After su the folder of sockets may be another user's, who could put his own socket there.
chown 65534 "$XDG_RUNTIME_DIR"
timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir shared/runs/su bash -c 'echo "$AUTOLAUNCH_SOCKET"' >out.log 2>err.log </dev/null
expect "exit code with another user's XDG_RUNTIME_DIR" 0 "$?"
contains "a socket" out.log "autolaunch-0-"
expect "sockets in his folder" "" "$(grep -F "$XDG_RUNTIME_DIR" out.log)"
nothing_left
echo "passed"
