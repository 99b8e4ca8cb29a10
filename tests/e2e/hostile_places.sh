#!/bin/bash
# Root looks at folders that another user may write to: `autolaunch doctor` in Prolog, `autolaunch clean` in Epilog. He has put
# links, FIFOs, endless files and deep folders there, and exchanges folders for links all the time. Nothing of root's is written,
# read, given away or removed, nothing hangs, and no node is drained for names that he took.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "needs root, and another user"
for_all_users
other=65534 script=$work/programs/hostile_places.py
install -m 644 "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/hostile_places.py" "$script"
he() { setpriv "--reuid=$other" "--regid=$other" --clear-groups env -u XDG_RUNTIME_DIR "$@"; }
trap 'kill "${swappers[@]}" 2>/dev/null; rm -rf "/dev/shm/autolaunch-$other-"*"$mark" "/tmp/autolaunch-$other-"*"$mark"; cleanup' EXIT
swappers=() mark=$$
swap() { # PATH OTHER...: until the end of the test
    he python3 "$script" swap "$@" >"$work/swap" 2>"$work/swap.log" &
    swappers+=($!)
    eventually "the exchange of $1" grep -qs here "$work/swap"
    rm "$work/swap"
}
# What is root's, next to what is his. Its times tell of a file that was there for a moment.
mkdir -m 755 precious && echo "of root" >precious/file && chmod 700 precious
mkdir -m 711 precious/open
sleep 0.02
state() { find precious -printf '%p %m %u %s %C@ %T@\n' | sort; }
before=$(state)
unharmed() { [ "$(state)" = "$before" ] || fail "$1 changed what is root's: $(diff <(echo "$before") <(state))"; }

# ---- doctor ----------------------------------------------------------------------------------------------------------
install -d -m 755 -o "$other" -g "$other" his
he mkdir his/folder his/deep
he ln -s "$work/precious" his/link
he ln -s /nowhere his/dangling
he ln -s loop his/loop
he mkfifo his/fifo
ln -s "$work/his/deep" roots
doctor() { # CODE FOLDER TEXT
    local code=0
    timeout 20 "$AUTOLAUNCH" doctor --health-check --only storage --folder "$2" >out.log 2>err.log </dev/null || code=$?
    [ "$code" -eq "$1" ] || fail "doctor of $2 exits with $code: $(cat out.log err.log)"
    [ -z "$3" ] || grep -qF -- "$3" out.log err.log || fail "doctor of $2: no '$3': $(cat out.log err.log)"
    unharmed "doctor of $2"
}
doctor 0 "$work/his/folder" ""
doctor 0 "$work/roots/new/folder" ""
doctor 78 "$work/his/link" "is a link of user $other"
doctor 78 "$work/his/link/open" "is a link of user $other"
doctor 78 "$work/his/dangling" "is a link of user $other"
doctor 78 "$work/his/loop" "is a link of user $other"
doctor 78 "$work/his/fifo" "Not a directory"
doctor 78 "$work/his/fifo/below" "Not a directory"
he "$AUTOLAUNCH" doctor --health-check --only storage --folder "$work/his/folder" || fail "his own doctor"
# He has the names that would follow, and the node is none the worse for it.
(cd his/folder && he bash -c 'host=$(hostname) && for ((i = $$; i < $$ + 2000; i++)); do : >".autolaunch-probe-$host-$i"; done')
doctor 0 "$work/his/folder" ""
he sh -c 'rm "$1"/.autolaunch-probe-*' sh "$work/his/folder"
# Both outcomes are right, and no third.
swap "$work/his/folder" "$work/his/link"
swap "$work/his/deep" "$work/his/fifo"
for ((i = 0; i < 25; i++)); do
    timeout 20 "$AUTOLAUNCH" doctor --health-check --only storage --folder "$work/his/folder,$work/roots" >out.log 2>err.log </dev/null
    code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 78 ] || fail "doctor between two names exits with $code: $(cat out.log err.log)"
done
unharmed "doctor, while folders were exchanged,"
kill "${swappers[@]}"
wait "${swappers[@]}" 2>/dev/null
swappers=()
expect "probes that stayed" "" "$(find his precious -name '.autolaunch-probe*')"

# ---- clean -----------------------------------------------------------------------------------------------------------
name() { echo "/dev/shm/autolaunch-$other-$1$mark"; }
record='{"run_id":"trap","run_dir":"'$work/precious'","node":"n","node_rank":0}'
for trap in a b c d e f; do he mkdir -m 700 "$(name "$trap")"; done
he mkfifo "$(name a)/job"                                                                      # never a word
he truncate -s 1T "$(name b)/job"                                                              # an endless one
he ln -s "$work/precious/file" "$(name c)/job"                                                 # another's
he sh -c 'echo "$1" >"$2/job" && ln -s "$3" "$2/s"' sh "$record" "$(name d)" "$work/precious" # what he may not touch
he python3 -c 'import os, sys
os.chdir(sys.argv[1])
for _ in range(2000):
    os.mkdir("deep"); os.chdir("deep")' "$(name e)"
he sh -c 'printf "\033[2J[[[[[[" >"$1/job"' sh "$(name f)" # what a terminal would obey
he ln -s "$work/precious" "$(name link)"
he mkdir "$(name g)"
swap "$(name g)" "$(name link)"
began=$SECONDS
for ((i = 0; i < 4; i++)); do
    timeout 60 "$AUTOLAUNCH" clean --job "none-$i" >out.log 2>err.log </dev/null || [ $? -eq 78 ] || fail "clean --job: $(cat out.log err.log)"
    timeout 60 "$AUTOLAUNCH" clean >out.log 2>err.log </dev/null
    code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 78 ] || fail "clean exits with $code: $(cat out.log err.log)"
    ! grep -q $'\e' out.log err.log || fail "a terminal would obey what clean says"
done
unharmed "clean"
[ $((SECONDS - began)) -le 60 ] || fail "clean took $((SECONDS - began)) s"
for trap in a b c d e f; do [ ! -e "$(name "$trap")" ] || fail "$(name "$trap") is still there: $(cat out.log err.log)"; done
kill "${swappers[@]}" 2>/dev/null
wait "${swappers[@]}" 2>/dev/null
swappers=()
unharmed "clean"
echo "passed"
