# shellcheck shell=bash
# How does a script show that a long step goes on? On a terminal one line, redrawn in its place; elsewhere, and on a dumb
# terminal, a line each tenth. To be sourced.
#
#   progress_start WHO WHAT               the script and its step: quickstart "building"
#   progress_show DONE TOTAL NOTE         how far it is, and words beside it: 12 430 "12/430, 5 min left"; nobody knows
#                                         how far where TOTAL is 0
#   progress_end                          leaves the terminal's line clean
#
# What is called for each line of output starts no process: a Ctrl-C that comes while bash waits for one that ends by
# itself is lost. So these answer in REPLY.

progress_on_terminal() { [ -t 1 ] && [ -n "${TERM:-}" ] && [ "$TERM" != dumb ]; }

progress_start() {
    progress_who=$1 progress_what=$2 progress_tenth=0 progress_drawn=no
    progress_on_terminal && progress_live=yes || progress_live=no
    [ -n "${progress_output:-}" ] || exec {progress_output}>&1
    [ "$progress_live" = no ] || { progress_measure; trap progress_measure WINCH; }
}

progress_show() {
    local done=$1 total=$2 note=$3
    if [ "$progress_live" = yes ]; then
        progress_line "$progress_columns" "$progress_what" "$done" "$total" "$note"
        printf '\r%s\e[K' "$progress_text"
        progress_drawn=yes
    elif [ "$total" -gt 0 ] && [ $((done * 10 / total)) -gt "$progress_tenth" ]; then
        progress_tenth=$((done * 10 / total))
        echo "$progress_who: $progress_what: $((progress_tenth * 10)) %, $note"
    fi
}

progress_end() {
    trap - WINCH
    [ "${progress_drawn:-no}" = no ] || printf '\r\e[K'
    progress_drawn=no
}

progress_measure() {
    local size
    size=$(stty size <&"$progress_output" 2>/dev/null) || size=
    size=${size#* }
    [ "${size:-0}" -gt 0 ] || size=80
    progress_columns=$size
}

# progress_line COLUMNS WHAT DONE TOTAL NOTE: sets progress_text, which is shorter than the terminal is wide: a line that
# reached the last column would break, and the next would not be drawn in its place.
progress_line() {
    local columns=$1 done=$3 total=$4 room full bar=
    progress_text="$2 $5"
    room=$((columns - ${#progress_text} - 4))
    [ "$room" -le 40 ] || room=40
    if [ "$room" -ge 6 ] && [ "$total" -gt 0 ]; then
        full=$((done * room / total))
        printf -v bar '%*s' "$full" ''
        printf -v bar '%s%*s' "${bar// /#}" $((room - full)) ''
        progress_text="$2 [${bar// /.}] $5"
    fi
    progress_text=${progress_text:0:columns - 1}
}

# duration SECONDS: as people say it, in REPLY.
duration() {
    local minutes=$((($1 + 30) / 60))
    if [ "$1" -lt 90 ]; then
        REPLY="$1 s"
    elif [ "$minutes" -lt 90 ]; then
        REPLY="$minutes min"
    else
        REPLY="$((minutes / 60)) h $((minutes % 60)) min"
    fi
}

# time_left DONE TOTAL SECONDS_GONE EXPECTED: seconds, in REPLY. What was expected of the whole counts as a tenth of the steps, so
# that the first steps do not promise nonsense.
time_left() { REPLY=$((($2 - $1) * ($4 + 10 * $3) / ($2 + 10 * $1))); }
