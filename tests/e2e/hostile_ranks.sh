#!/bin/bash
# Ranks that attack their own agent: its sockets, its log, its processes, its files. The job goes on or ends with a documented
# code, in time; the agent stays small; nothing else is touched, and nothing is left.
. "$(dirname "$0")/lib.sh"
for_all_users
install -d -m 755 "$work/scripts"
install -m 644 -t "$work/scripts" "$AUTOLAUNCH_SOURCE_DIR"/tests/e2e/hostile_ranks.py
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    as_user=(setpriv --reuid 65533 --regid 65533 --clear-groups)
    chown 65533 "$XDG_RUNTIME_DIR" && install -d -m 700 -o 65533 "$work/runs"
else
    echo "not tried: a user's limit on processes, and files of another user; that needs root"
    mkdir -m 700 "$work/runs"
fi
cd "$work/runs" || exit 1
mkdir -m 755 "$work/others" && echo "another's" >"$work/others/file"
"${as_user[@]}" sh -c 'echo "my own" >mine'
left() { grep -lzxF "HOSTILE=$E2E_MARK-$attack" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
gone() { [ -z "$(left)" ]; }
grown() { # PID: of $attack the most memory (KiB) and descriptors of it and what is below, until it ends
    local pid memory=0 descriptors=0 now
    while kill -0 "$1" 2>/dev/null; do
        for pid in $(left); do
            case $(cat "/proc/$pid/comm" 2>/dev/null) in autolaunch) ;; *) continue ;; esac
            now=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
            [ "${now:-0}" -le "$memory" ] || memory=$now
            now=$(ls "/proc/$pid/fd" 2>/dev/null | wc -l)
            [ "$now" -le "$descriptors" ] || descriptors=$now
        done
        sleep 0.1
    done
    echo "$memory $descriptors"
}
# attacked CODE ATTACK [ARGUMENT...]: two ranks, of which one attacks
attacked() {
    local expected=$1 attack=$2 began=$SECONDS code=0 memory descriptors
    shift
    HOSTILE=$E2E_MARK-$attack "${as_user[@]}" timeout -k 5 30 "$AUTOLAUNCH" --log-dir "$work/runs/$attack" --nproc-per-node 2 --mpi none \
        python3 "$work/scripts/hostile_ranks.py" "$@" >"$work/$attack.log" 2>&1 </dev/null &
    grown $! >"$work/$attack-grown"
    wait $! || code=$?
    [ "$code" = "$expected" ] || fail "$attack: exit code $code, expected $expected"
    read -r memory descriptors <"$work/$attack-grown"
    [ "$memory" -le $((96 << 10)) ] || fail "$attack: an agent took $memory KiB"
    [ "$descriptors" -le 300 ] || fail "$attack: an agent had $descriptors descriptors"
    [ $((SECONDS - began)) -le 20 ] || fail "$attack: it took $((SECONDS - began)) s"
    eventually "the end of all ($attack)" gone
    [ "$(cat "$work/others/file" mine)" = $'another\'s\nmy own' ] || fail "$attack: what is not the job's was written"
    echo "$attack: $code, $memory KiB, $descriptors descriptors"
}
# All at once, but for what a limit of the whole user's counts.
under_way=()
for attack in "0 session" "0 descriptors" "0 doors" "0 stdout" "0 memory" "0 files $work/others/file $work/runs/mine" \
    "137 sibling" "137 agent" "0 guardian" "137 keeper"; do
    # shellcheck disable=SC2086 # words
    attacked $attack &
    under_way+=($!)
done
for pid in "${under_way[@]}"; do wait "$pid" || fail "an attack did what it should not"; done
[ -z "${as_user[*]}" ] || attacked 0 forks

# A rank that stops its agent: whoever asks for the job's end has it.
"${as_user[@]}" timeout -k 5 40 "$AUTOLAUNCH" --log-dir "$work/runs/stops" --nproc-per-node 1 --mpi none \
    sh -c "echo \$PPID >pid.new && mv pid.new stopped-agent; kill -STOP \$PPID; sleep 30" >"$work/stops.log" 2>&1 </dev/null &
job=$!
eventually "the agent's number" [ -s stopped-agent ]
eventually "a stopped agent" grep -q "^State:.*T (stopped)" "/proc/$(cat stopped-agent)/status"
kill -TERM "$job"
code=0 && wait "$job" || code=$?
expect "exit code of a job whose agent was stopped" 143 "$code"
expect "sockets left" "" "$(ls "$XDG_RUNTIME_DIR")"
echo "passed"
