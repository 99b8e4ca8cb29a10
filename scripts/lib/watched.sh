# shellcheck shell=bash
# How is a long command run so that its output can be followed, and nothing of it stays when the script is broken off? To
# be sourced.
#
#   run_watched LOG ON_LINE COMMAND...    its output goes to LOG, and each line to the function ON_LINE, which is called
#                                         with an empty line when a second went by without one; its exit status
#   end_watched                           ends the command that is running, with all that it started

watched_pid=

# A session of its own: Ctrl-C reaches this script alone, which then ends the command in order.
run_watched() {
    local log=$1 on_line=$2 output to_log line part='' status=0
    shift 2
    exec {to_log}>"$log"
    exec {output}< <(exec setsid "$@" </dev/null 2>&1)
    watched_pid=$!
    while :; do
        line=
        if IFS= read -r -t 1 -u "$output" line; then
            line=$part$line part=
            printf '%s\n' "$line" >&"$to_log"
            "$on_line" "$line"
        elif [ $? -gt 128 ]; then
            part+=$line
            "$on_line" ""
        else
            [ -z "$part$line" ] || printf '%s\n' "$part$line" >&"$to_log"
            break
        fi
    done
    exec {output}<&- {to_log}>&-
    wait "$watched_pid" || status=$?
    watched_pid=
    return "$status"
}

# SIGTERM, which ninja passes on to compilers before it removes what they left half-written; after ten seconds SIGKILL.
end_watched() {
    local i
    [ -n "$watched_pid" ] || return 0
    kill -TERM -- "-$watched_pid" 2>/dev/null || return 0
    for ((i = 0; i < 100; i++)); do
        kill -0 -- "-$watched_pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$watched_pid" 2>/dev/null || true
}
