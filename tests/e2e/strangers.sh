#!/bin/bash
# A job of two machines, and who does not belong to it: another machine, and another user on the job's own. Whatever they
# can connect to closes, tells nothing and does the job no harm; what stays open is what `plan` says.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
start_machines node1 node2 elsewhere
chmod 755 "$work"
install -m 644 -t "$work" "$AUTOLAUNCH_SOURCE_DIR"/tests/e2e/{strangers,store_client}.py # the tree may be closed to another user
export AUTOLAUNCH_JOB_KEY="a key of thirty-two bytes, or so" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export AUTOLAUNCH_MUNGE_SOCKET=$work/none
python=/usr/bin/python3 strangers=$work/strangers.py
says_on() { (on "$@" 2>&1); } # MACHINE COMMAND...
knock() { says_on elsewhere "$python" "$strangers" knock "$@"; } # HOST:PORT...
another_user_knocks() { says_on "$1" "${another_user[@]}" "$python" "$strangers" knock "${@:2}"; } # MACHINE HOST:PORT...
another_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
[ -n "${ROOM_HAS_USERS:-}" ] || { another_user=() && echo "not tried: another user; that needs root"; }

listening() { says_on "$1" ss -Hltn | awk '{ print $4 }'; }           # MACHINE: address:port of all its doors
doors() { listening "$1" | grep -v '^127\.\|^\[::1\]' | sort -u; }    # those that are not for itself alone
has_door() { [ -n "$(doors "$1")" ]; }
agent() { # MACHINE NAME OPTION...
    local machine=$1 name=$2
    shift 2
    on "$machine" "$AUTOLAUNCH" --log-dir "$work/$name" "$@" "$python" "$strangers" rank "$work/$name-$machine" "$work/$name-over" \
        >"$work/$name-$machine.log" 2>&1 </dev/null &
    agents[$machine]=$!
}
declare -A agents
# job NAME LISTENS OPEN OPTION...: with strangers before its nodes meet, and while it runs. OPEN: the doors that another
# machine finds while ranks run
job() {
    local name=$1 listens=$2 open=$3 machine host port store relay door head_door doors=() rank options torch crowd
    shift 3
    options=(--nnodes=2 --nproc-per-node=1 --rdzv-endpoint=node1:29500 --rdzv-id="$name" "$@")
    agent node1 "$name" "${options[@]}"
    eventually "the head's door, $name" has_door node1
    door=$(doors node1)
    head_door=${door##*:}
    expect "doors before the nodes meet, $name" 1 "$(wc -l <<<"$door")"
    expect "a stranger at the head's door, $name" "node1:${door##*:} closed" "$(knock "node1:${door##*:}")"
    (on elsewhere "$python" "$strangers" crowd node1 "${door##*:}" "$work/$name-over") >"$work/$name-crowd" 2>&1 &
    crowd=$!
    eventually "a crowd at the head's door, $name" grep -qs here "$work/$name-crowd"

    agent node2 "$name" "${options[@]}"
    for machine in node1 node2; do eventually "the rank of $machine, $name" test -e "$work/$name-$machine"; done
    read -r host port store <"$work/$name-node1"
    read -r _ _ relay <"$work/$name-node2"
    if [ -n "$open" ]; then # else the store has no address elsewhere. PyTorch takes a while to load
        (on elsewhere "$python" "$strangers" torch "$host" "$port") >"$work/$name-torch" 2>&1 &
        torch=$!
    fi
    # All doors of both machines, also those that are for themselves, as others would reach them. The head's own door, where agents meet,
    # is there as long as the job is.
    for machine in node1 node2; do
        for door in $(listening "$machine"); do doors+=("$machine:${door##*:}"); done
    done
    expect "what another machine can connect to, $name" "${open//PORT/$port}" \
        "$(knock "${doors[@]}" | grep -v -e ' refused$' -e "^node1:$head_door closed$" | sort -u | paste -sd,)"
    if [ ${#another_user[@]} -gt 0 ]; then
        expect "another user on node1, $name" "$store closed" "$(another_user_knocks node1 "$store")"
        doors=("$relay")
        [ -z "$open" ] || doors+=("$host:$port")
        expect "another user on node2, $name" "$(printf '%s closed\n' "${doors[@]}")" "$(another_user_knocks node2 "${doors[@]}")"
        eventually "a word of who it was, $name" grep -q 'user 65534 tried to use the job' "$work/$name-node1.log"
    fi
    says_on node1 "$AUTOLAUNCH" plan --json "${options[@]}" "$python" >"$work/plan.json" 2>"$work/plan.log"
    expect "what plan says, $name" "$listens" "$($python -c 'import json, sys; print(json.load(sys.stdin)["store"]["listens"])' <"$work/plan.json")"

    if [ -n "$open" ]; then
        wait $torch
        grep -qx refused "$work/$name-torch" || grep 'not tried' "$work/$name-torch" ||
            fail "PyTorch's client, $name: $(cat "$work/$name-torch")"
    fi
    touch "$work/$name-over"
    for machine in node1 node2; do
        wait "${agents[$machine]}" || fail "$name on $machine ended with $?"
    done
    wait $crowd
    for rank in 0 1; do
        expect "what rank $rank saw, $name" "rank $rank: the word is ours after some steps" \
            "$(cat "$work/$name/generation-0/rank-$rank/stdout")"
    done
}

job head "the head's address that the nodes reach; 127.0.0.1 of the others" "node1:PORT closed"
grep -q '10.78.0.13.* refused: no agent of this job vouches' "$work/head-node1.log" ||
    fail "nobody was told of the other machine"
echo 'rendezvous: {store: node}' >node.yaml
job node "127.0.0.1 of each node; between nodes TLS with the job's key" "" -c node.yaml
echo "passed"
