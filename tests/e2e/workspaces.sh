#!/bin/bash
# Two users of a machine: what one may see of the other's run and checkpoints, and what he can put in their way. Amy (2001)
# has the run, ben (2002) tries, cal (2003) is of the team's group.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "needs root to be two other users"
for_all_users
cp "$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample" "$work/programs/" # it may be linked with the build's libraries
unset XDG_RUNTIME_DIR
for user in "amy 2001 --groups=3001" "ben 2002 --clear-groups" "cal 2003 --groups=3001"; do
    read -r name uid groups <<<"$user"
    printf '#!/bin/sh\nexec setpriv --reuid %s --regid %s %s env HOME=/ "$@"\n' "$uid" "$uid" "$groups" >"programs/$name"
    chmod 755 "programs/$name"
done
denied() { # WHAT COMMAND...
    ! "${@:2}" >denied.log 2>&1 </dev/null || failed "ben may: $1: $(cat denied.log)"
}
modes() { stat -c %a "$@" 2>&1 | tr '\n' ' '; }
run() { # UMASK OPTION... -- STEPS: as amy; out.log has what it said
    local mask=$1
    shift
    amy bash -c 'umask '"$mask"'; timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 "$@"' bash "$@" >out.log 2>&1 </dev/null
}
mkdir -m 1777 shared
cd shared || exit 1

# ---- modes -----------------------------------------------------------------------------------------------------------
for mask in 000:750:640:600 022:750:640:600 027:750:640:600 077:700:600:600; do
    IFS=: read -r mask folder file own <<<"$mask"
    run "$mask" --log-dir "umask-$mask" bash -c 'umask; touch own' || failed "umask $mask: $(cat ../out.log out.log)"
    [ "$(modes "umask-$mask"{,/generation-0,/generation-0/rank-0})" = "$folder $folder $folder " ] &&
        [ "$(modes "umask-$mask"/{events.jsonl,exit.json,head.json,generation-0/rank-0/std{out,err}})" = "$file $file $file $file $file " ] &&
        [ "$(modes "umask-$mask"/{plan,trainer_config}.json)" = "$own $own " ] ||
        failed "modes under umask $mask: $(find "umask-$mask" -printf '%m %p\n')"
    grep -q "0$mask" "umask-$mask/generation-0/rank-0/stdout" || failed "a rank's umask is not amy's $mask"
    denied "read her events, umask $mask" ben cat "umask-$mask/events.jsonl"
done
spec() { printf '%s\n' "trainer: {command: [$misbehave, exit:0]}" "$@" >"$work/spec.yaml" && chmod 644 "$work/spec.yaml"; }
spec 'workspace: {mode: 0770, group: 3001}'
run 077 -c "$work/spec.yaml" --log-dir team || failed "workspace.group: $(cat out.log)"
[ "$(stat -c '%a %g' team team/generation-0/rank-0 | tr '\n' ' ')" = "2770 3001 2770 3001 " ] &&
    [ "$(stat -c '%a %g' team/events.jsonl team/generation-0/rank-0/stdout team/plan.json | tr '\n' ' ')" = "660 3001 660 3001 600 3001 " ] ||
    failed "the team's modes: $(find team -printf '%m %g %p\n')"
cal cat team/events.jsonl >/dev/null || failed "the team cannot read"
denied "read the team's" ben cat team/events.jsonl
spec 'workspace: {group: 4001}'
says 65 "workspace.group: you are not in the group 4001" amy "$AUTOLAUNCH" -c "$work/spec.yaml" --log-dir stranger
spec 'workspace: {group: no-such-group}'
says 65 "this node has no group no-such-group" amy "$AUTOLAUNCH" validate "$work/spec.yaml"
spec 'workspace: {mode: 0777}'
says 65 "workspace.mode: expected a mode such as 0750" amy "$AUTOLAUNCH" validate "$work/spec.yaml"
# What she has made herself stays, and is told of; an ACL too.
amy mkdir -m 755 hers
run 022 --log-dir hers "$misbehave" exit:0 || failed "her own folder: $(cat out.log)"
grep -q 'hers was there, and keeps its mode 0755; one that is made has 0750' out.log && [ "$(modes hers)" = "755 " ] ||
    failed "her own folder: $(modes hers) $(cat out.log)"
amy ln -s hers hers-too
run 022 --log-dir hers-too "$misbehave" exit:0 || failed "a link of her own: $(cat out.log)"
amy mkdir -m 2750 setgid && chgrp 3001 setgid && chmod 2750 setgid
run 022 --log-dir setgid "$misbehave" exit:0 && [ "$(stat -c %g setgid/events.jsonl)" = 3001 ] || failed "a setgid folder"
if amy mkdir acl && setfacl -m u:2002:rx -d -m u:2002:rx acl 2>/dev/null; then
    run 022 --log-dir acl "$misbehave" exit:0
    getfacl -cp acl 2>/dev/null | grep -q '^user:2002:r-x' || failed "the ACL of a folder is gone"
    ben ls acl >/dev/null || failed "who the ACL lets in is kept out"
fi

# ---- folders where everybody may replace what is there ----------------------------------------------------------------
mkdir -m 755 "$work/open" && chmod 777 "$work/open"
says 73 "everybody may write to the folder $work/open (mode 0777), and replace what is below it" \
    amy "$AUTOLAUNCH" --log-dir "$work/open/run" "$misbehave" exit:0
[ ! -e "$work/open/run" ] || failed "a run directory was made below it"
says 0 "done" amy "$AUTOLAUNCH" --log-dir "$work/open/run" -c "$work/spec.yaml" workspace.mode=0750 workspace.open_parents=true
mkdir -m 700 "$work/closed" && mkdir "$work/closed/open" && chmod 777 "$work/closed/open"
says 0 "done" "$AUTOLAUNCH" --log-dir "$work/closed/open/run" "$misbehave" exit:0
ben mkdir taken && says 73 "belongs to another user (uid 2002)" amy "$AUTOLAUNCH" --log-dir taken "$misbehave" exit:0
ben ln -s "$work/shared/hers" lure && says 73 "is a symbolic link" amy "$AUTOLAUNCH" --log-dir lure "$misbehave" exit:0

# ---- while it runs ----------------------------------------------------------------------------------------------------
amy bash -c 'umask 022; exec "$AUTOLAUNCH" --log-dir "$PWD/live" --rdzv-id amys --max-restarts 1 bash -c '\''echo "$AUTOLAUNCH_SOCKET" >&2
    touch "$AUTOLAUNCH_RUN_DIR/up"; while [ ! -e "$AUTOLAUNCH_RUN_DIR/over" ]; do sleep 0.1; done'\' >live.log 2>&1 </dev/null &
agent=$!
eventually "amy's run" test -e live/up
socket=$(cat live/generation-0/rank-0/stderr)
[ -S "$socket" ] && [ "$(modes "${socket%/*}" "$socket")" = "700 600 " ] || failed "her sockets: $socket, $(modes "${socket%/*}" "$socket")"
denied "list her sockets" ben ls "${socket%/*}"
denied "connect to her agent" ben python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$socket"
for file in plan.json events.jsonl head.json restarts.json up; do
    denied "read $file" ben cat "live/$file"
    denied "plant $file" ben ln -sf "$work/victim" "live/$file"
done
denied "move her run away" ben mv live elsewhere
denied "attach to it" ben timeout 10 "$AUTOLAUNCH" attach live
# Every name of hers in a place for all: nobody else's to open, and with a part that is not to be guessed.
for place in /tmp /var/tmp /dev/shm; do
    find "$place" -maxdepth 1 -uid 2001 -name '*autolaunch*' -perm /077 2>/dev/null
done >open.log
[ ! -s open.log ] || failed "names of hers that others may open: $(cat open.log)"
# Abstract sockets have no mode: who connects is asked for his user.
grep -ao '@autolaunch[^ ]*' /proc/net/unix | sort -u >abstract.log
while read -r name; do
    ben timeout 5 python3 - "$name" <<'PY' >reply.log 2>&1
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect("\0" + sys.argv[1][1:])
try:
    s.sendall(b"\0" * 64); print(len(s.recv(100)))
except OSError as error:
    print("nothing", error)
PY
    grep -qx '[1-9][0-9]*' reply.log && failed "ben is answered at $name"
done <abstract.log
# A record of his that says it is her job: she does not go by it.
ben mkdir -p runs/false && ben sh -c 'cat >runs/false/head.json' <<'JSON'
{"version":1,"run_id":"amys","hostname":"x","door":"/nowhere","identity":"amys","hosts":["127.0.0.1"],"ports":[9],"shared_directory":"/","secret_file":"/etc/passwd","lost_after_ms":10000}
JSON
ben chmod 777 runs && ben chmod 644 runs/false/head.json
says 66 "amys is no run directory" amy "$AUTOLAUNCH" attach amys
says 66 "belongs to another user" amy "$AUTOLAUNCH" attach runs/false
amy touch live/over
wait $agent || failed "amy's run ended with $?: $(cat live.log)"
# A pipe that nobody writes to, where the history of restarts is looked for.
mkdir -m 1777 all && ben mkfifo all/restarts.json
says 73 "is not a regular file" amy "$AUTOLAUNCH" --log-dir all "$misbehave" exit:0

# ---- checkpoints ------------------------------------------------------------------------------------------------------
save() { amy bash -c 'umask 022; "$0" 2 "$@"' "$work/programs/checkpoint_sample" "$@" >save.log 2>&1; }
save saved 1 0 || failed "no checkpoint: $(cat save.log)"
[ "$(modes saved saved/step-00000001 saved/step-00000001/manifest.json)" = "750 750 640 " ] || failed "modes of a checkpoint"
denied "list her checkpoints" ben ls saved
AUTOLAUNCH_WORKSPACE=mode=0770,group=3001 save team-saved 1 0 || failed "no checkpoint of the team: $(cat save.log)"
[ "$(stat -c '%a %g' team-saved/step-00000001{,/manifest.json} | tr '\n' ' ')" = "2770 3001 660 3001 " ] ||
    failed "modes of the team's checkpoint: $(find team-saved -printf '%m %g %p\n')"
AUTOLAUNCH_WORKSPACE=mode=0700 save own-saved 1 0 && [ "$(modes own-saved/step-00000001{,/manifest.json})" = "700 600 " ] ||
    failed "modes of her own: $(find own-saved -printf '%m %p\n')"
ben mkdir -m 777 trap && ! save trap 1 0 && grep -q "everybody may write to the folder\|belongs to another user" save.log ||
    failed "a folder of ben's takes her checkpoints: $(cat save.log)"
! save "$work/open/saved" 1 0 && grep -q "everybody may write to the folder $work/open" save.log || failed "an open parent: $(cat save.log)"
echo precious >"$work/victim" && chown 2001 "$work/victim"
mkdir -m 1777 sticky && ben ln -s "$work/victim" sticky/writer.json && save sticky 1 0
[ "$(cat "$work/victim")" = precious ] || failed "a link that ben has planted was followed"
count_failures
