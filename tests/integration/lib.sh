# Shared by the tests of the examples: a folder to work in, and ranks that torchrun's environment starts.
work=$(mktemp -d "${TMPDIR:-/tmp}/autolaunch-example-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# run_ranks RANKS PROGRAM [ARGUMENT...]: in the environment that torchrun gives each rank of one node. Fails when any rank
# does.
run_ranks() {
    local ranks=$1 rank pids=() status=0
    shift
    if [ "$ranks" = 1 ]; then
        "$@"
        return
    fi
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks TORCHELASTIC_RUN_ID="$work-$(basename "$1")" \
            "$@" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || status=$?; done
    return "$status"
}

# compare_losses NAME STEPS FILE FILE: "step S loss L" lines, the same steps, and losses that differ by rounding alone.
compare_losses() {
    paste <(grep "^step " "$3") <(grep "^step " "$4") | awk -v name="$1" -v steps="$2" '
        $2 != $6 {print name ": step " $2 " beside " $6; exit 1}
        {d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d}
        END {printf "%s: %d steps, largest difference of losses %.6f\n", name, NR, most; exit !(NR == steps && most < 1e-4)}' ||
        fail "$1 has other losses"
}
