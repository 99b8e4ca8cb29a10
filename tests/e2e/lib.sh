# What the end-to-end tests share. Source it; it makes a folder $work that is gone at the end, with all that was started.
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/autolaunch-e2e-XXXXXX")
export E2E_MARK="e2e-$$-$RANDOM"
misbehave="$AUTOLAUNCH_BINARY_DIR/tests/integration/misbehave"
cd "$work" || exit 1
export XDG_RUNTIME_DIR=$work/runtime
mkdir -m 700 "$XDG_RUNTIME_DIR"
unset "${!PET_@}" "${!SLURM_@}" # of who started this test

# Live processes of ranks and of what they left, started below this test: found by program and environment.
ranks_left() {
    local folder
    for folder in /proc/[0-9]*; do
        [ "$(readlink "$folder/exe" 2>/dev/null)" = "$misbehave" ] || continue
        { tr '\0' '\n' <"$folder/environ"; } 2>/dev/null | grep -qx "E2E_MARK=$E2E_MARK" && basename "$folder"
    done
}
# Programs that other users run too: copies in $work, for what was built may lie below a home that is closed to them.
for_all_users() {
    chmod 711 "$work" && mkdir -m 755 "$work/programs" || fail "no folder for programs"
    find "${AUTOLAUNCH%/*}" -type f -name 'autolaunch-*' -exec cp -t "$work/programs" "$AUTOLAUNCH" "$misbehave" {} + ||
        fail "the programs could not be copied"
    export AUTOLAUNCH=$work/programs/autolaunch PATH=$work/programs:$PATH
    misbehave=$work/programs/misbehave
}
cleanup() {
    local pid
    for pid in $(ranks_left); do kill -9 "$pid" 2>/dev/null; done
    [ -n "${mounted:-}" ] && umount "$mounted"
    cd / && rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: $*" >&2
    for log in "$work"/*.log; do [ -s "$log" ] && sed "s|^|  $(basename "$log"): |" "$log" >&2; done
    exit 1
}
skip() {
    echo "SKIPPED: $*"
    exit 77
}
# failed TEXT...: counted, and the test goes on. Such a test ends with count_failures.
failures=0
failed() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
    return 1
}
count_failures() { exit $((failures > 0)); }
# says CODE TEXT COMMAND...: the exit code, and a line of its output (both streams) that contains TEXT.
says() {
    local code=$1 text=$2 output got=0
    shift 2
    output=$(timeout 60 "$@" 2>&1) || got=$?
    [ "$got" -eq "$code" ] && grep -qF -- "$text" <<<"$output" ||
        failed "$* exits with $got, expected $code with \"$text\":"$'\n'"$output"
}
# expect WHAT EXPECTED ACTUAL
expect() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
# contains WHAT FILE TEXT
contains() { grep -qF -- "$3" "$2" || fail "$1: no '$3' in $(basename "$2"): $(cat "$2")"; }
# eventually WHAT COMMAND...: until it succeeds; 20 s are for broken code, not for slow machines.
eventually() {
    local what=$1 i
    shift
    for ((i = 0; i < 400; i++)); do
        "$@" && return 0
        sleep 0.05
    done
    fail "$what did not happen"
}
# ckpt EXPECTED_CODE ARGUMENTS...: leaves what it said in out.log
ckpt() {
    local expected=$1 code=0
    shift
    "$AUTOLAUNCH" ckpt "$@" >out.log 2>&1 </dev/null || code=$?
    expect "exit code of ckpt $*" "$expected" "$code"
}
# json EXPRESSION: of d, the JSON in out.log
json() { python3 -c "import json; d = json.load(open('out.log')); assert $1, d" || fail "JSON: $1"; }
# Neither processes nor the folder with the agent's sockets.
nothing_left() {
    expect "sockets left behind" "" "$(ls "$XDG_RUNTIME_DIR")"
    expect "processes left behind" "" "$(ranks_left | tr '\n' ' ')"
}
