# Jobs that may lose nodes, on the machines of machines.sh, by a trainer rank.sh, which says who it is and works until the file that it
# is given is there. Source it after lib.sh.
declare -A agent_of
printf "trainer: {command: [x]}\nrendezvous: {lost_after: 4s}\n" >spec.yaml
start_on() { # NODE JOB NODES [OPTION...]: an agent in the background
    local node=$1 job=$2 nodes=$3
    local meet=(--rdzv-backend c10d --rdzv-endpoint node0:23456)
    [ "${met_by:-}" != number ] || meet=(--node-rank "${node#node}" --master-addr node0 --master-port 23456)
    shift 3
    on "$node" env "AUTOLAUNCH_JOB_KEY=a key for this test" "$AUTOLAUNCH" --nnodes "$nodes" "${meet[@]}" --rdzv-id "$job" -n 2 --log-dir "$job" -c "$work/spec.yaml" "$@" -- \
        bash rank.sh "$work/$job.over" >"$job.$node.log" 2>&1 </dev/null &
    agent_of[$node]=$!
}
start() { # JOB NODES [OPTION...]: on each machine
    local node
    for node in "${machines[@]}"; do start_on "$node" "$@"; done
}
ended() { # JOB NODE CODE
    local code=0
    wait "${agent_of[$2]}" || code=$?
    expect "exit code of $2, $1" "$3" "$code"
}
ranks_of() { cat "$1/generation-$2"/rank-*/stdout 2>/dev/null | grep -h "^rank" | sort; }
all_ranks() { # NODES: of a job that has none missing
    local rank
    for ((rank = 0; rank < 2 * $1; rank++)); do echo "rank $rank of $((2 * $1)), node $((rank / 2)) of $1"; done
}
where_of() { ranks_of "$1" "$2" | sed 's/.*, on //' | sort | uniq -c | xargs; }
has_begun() { [ "$(ranks_of "$1" "$2" | wc -l)" = "$3" ]; }
processes_on() { # MACHINE [PATTERN]: all that run there, but for the machine itself
    local process space
    space=$(readlink "/proc/${holder_of[$1]}/ns/uts")
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/uts" 2>/dev/null)" = "$space" ] && [ "${process#/proc/}" != "${holder_of[$1]}" ] &&
            tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q -e "${2:-.}" && echo "${process#/proc/}"
    done
}
cut_off() { ip link set "$1" down || fail "$1 keeps its cable"; }
cut_power() {
    cut_off "$1"
    processes_on "$1" | xargs -r kill -9 2>/dev/null
}
goes_on() { # JOB GENERATION RANKS LOST: with so many ranks, and none on the machine that was lost
    eventually "generation $2 of $1" has_begun "$1" "$2" "$3"
    expect "ranks of $4, which was lost" "" "$(processes_on "$4" '^bash rank')"
}
