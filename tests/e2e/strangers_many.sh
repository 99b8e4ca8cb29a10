#!/bin/bash
# Very many strangers at once at all that a job of two agents listens at: silent ones, slow ones, half-open ones, oversized
# words, random bytes, and what a node of this very job said in an earlier start. The job goes on as if nobody was there.
#
#     strangers_many.sh               2,000 connections
#     STRANGERS=10000 strangers_many.sh
. "$(dirname "$0")/lib.sh"
for_all_users
install -m 755 -d "$work/scripts"
install -m 644 -t "$work/scripts" "$AUTOLAUNCH_SOURCE_DIR"/tests/e2e/{strangers_many,store_client}.py
export AUTOLAUNCH_JOB_KEY="a key of thirty-two bytes, or so" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export AUTOLAUNCH_MUNGE_SOCKET=$work/none
strangers=$work/scripts/strangers_many.py count=${STRANGERS:-2000} lasts=4
as_user=() uid=-
if [ "$(id -u)" -eq 0 ]; then
    as_user=(setpriv --reuid 65533 --regid 65533 --clear-groups) uid=65534
    chown 65533 "$XDG_RUNTIME_DIR" && install -d -o 65533 "$work/runs"
else
    echo "not tried: strangers of another user; that needs root. These are the job's own user's"
    mkdir "$work/runs"
fi
cd "$work/runs" || exit 1
port=$((20000 + RANDOM % 9000))
agent() { # NAME OPTION...: in the background
    "${as_user[@]}" "$AUTOLAUNCH" --log-dir "$work/runs/run" --nnodes=2 --nproc-per-node=1 --mpi none \
        --rdzv-endpoint="127.0.0.1:$port" --rdzv-id=many "${@:2}" \
        python3 "$strangers" rank "$lasts" >"$work/$1.log" 2>&1 </dev/null &
}
door() { door=$(python3 "$strangers" port "$1") && [ -n "$door" ]; }

# What a node says to its head, from an earlier start: the head's port is the same.
agent earlier --rdzv-conf=is_host=true
head=$!
eventually "the head's door" door "$head"
kill "$head"
wait "$head"
[ "$(wc -w <<<"$door")" -eq 1 ] || fail "the head alone has several doors: $door"
python3 "$strangers" record "$door" "$work/recorded" &
recorder=$!
agent recorded --rdzv-conf=is_host=false
node=$!
wait "$recorder" || fail "nothing was recorded"
kill "$node"
wait "$node"

began=$SECONDS
for i in 1 2; do
    agent "agent$i"
    agents[i]=$!
done
steps() { ls "$work"/runs/run/generation-0/rank-{0,1}/stdout; }
eventually "two ranks" steps >/dev/null 2>&1
sleep 0.5
python3 "$strangers" crowd "$count" "$uid" "$work/recorded" "$((lasts - 1))" "$work/report.json" "${agents[@]}" >"$work/crowd.log" 2>&1 ||
    fail "the strangers: $(cat "$work/crowd.log")"
cat "$work/crowd.log" "$work/report.json" && echo
for i in 1 2; do
    wait "${agents[i]}" || fail "agent $i ended with $?"
done
took=$((SECONDS - began))
[ "$took" -le $((lasts + 15)) ] || fail "a job of $lasts s took $took s"
# A door keeps 256 handshakes and 1,024 that wait. Memory: an agent has some 20 MiB.
python3 - "$count" <<'PY' || fail "bounds"
import json, sys
d = json.load(open("../report.json"))
assert d["connections"] >= min(int(sys.argv[1]), 500), d
assert d["descriptors"] <= 256 + 1024 + 200, d
assert 0 < d["rss_kib"] <= 96 << 10, d
PY
[ "$uid" = - ] || contains "who it was" "$(grep -l 'tried to use' "$work"/agent?.log | head -1)" "user $uid tried to use the job's store"
lines=$(cat "$work"/agent?.log | wc -l)
[ "$lines" -le 24 ] || fail "$lines lines on the console"
nothing_left
echo "passed"
