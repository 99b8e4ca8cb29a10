# Files and limits that would hang, crash or drown a command: a reason and an exit code instead.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for variable in $(env | grep -oE '^(PET|SLURM)_[A-Z_]+'); do unset "$variable"; done
failures=0
export LC_ALL=C

# expect CODE TEXT COMMAND...: the exit code, and a line of its output (both streams) that contains TEXT.
expect() {
    local code=$1 text=$2 output got=0
    shift 2
    output=$(timeout 60 "$@" 2>&1) || got=$?
    if [ "$got" -ne "$code" ] || ! grep -qF -- "$text" <<<"$output"; then
        printf 'FAILED: %s\n  expected %s with "%s", got %s:\n%s\n' "$*" "$code" "$text" "$got" "$output"
        return 1
    fi
}
check() { expect "$@" || failures=$((failures + 1)); }

# Pipes that nobody writes to: each takes 5 s, all at once.
mkfifo pipe
echo 'include: pipe' >include.yaml
pids=()
for command in 'validate pipe' 'lint pipe' 'validate include.yaml' '--config pipe true'; do
    # shellcheck disable=SC2086  # words
    expect 66 'nobody opened it to write' "$AUTOLAUNCH" $command &
    pids+=($!)
done
echo 'restart: {max_restarts: x}' >bad.yaml
echo 'trainer: {command: [/bin/true]}' >good.yaml
export AUTOLAUNCH
check 0 'valid' bash -c '"$AUTOLAUNCH" validate /dev/stdin <good.yaml'
check 0 'valid' bash -c 'cat good.yaml | "$AUTOLAUNCH" validate /dev/stdin'
check 0 'valid' bash -c '"$AUTOLAUNCH" validate <(sleep 0.2; cat good.yaml)'
check 65 'found "x"' bash -c 'cat bad.yaml | "$AUTOLAUNCH" validate /dev/stdin'
check 1 'found "x"' bash -c 'cat bad.yaml | "$AUTOLAUNCH" lint --kind spec /dev/stdin'
check 65 'larger than 4 MiB' "$AUTOLAUNCH" validate /dev/zero
check 65 'larger than 4 MiB' "$AUTOLAUNCH" lint /dev/zero
truncate -s 1T sparse.sh
check 65 'larger than 4 MiB' "$AUTOLAUNCH" lint sparse.sh

# A terminal gets no sequences that it would obey, from keys and values alike.
printf '"\\e[2Jmodel\\x9b": 1\nrestart: {"\\e]0;title\\a": 1, backoff: "\\e[31mred\\u202e"}\n' >escapes.yaml
"$AUTOLAUNCH" validate escapes.yaml >escapes.out 2>&1
grep -q 'unknown section' escapes.out || { cat escapes.out; failures=$((failures + 1)); }
if grep -qP '[\x1b\x07]|\xc2\x9b|\xe2\x80\xae' escapes.out; then
    printf 'FAILED: escape sequences pass:\n'
    cat -v escapes.out
    failures=$((failures + 1))
fi
printf 'trainer: {command: [/bin/sh, -c, "cat $AUTOLAUNCH_TRAINER_CONFIG"], config: {a: "x\\_y"}}\n' >nbsp.yaml
check 0 $'x\xc2\xa0y' "$AUTOLAUNCH" -c nbsp.yaml --log-dir nbsp

# Short texts that become long: refused within an address space of 1 GiB.
{ echo 'model:' && for i in $(seq 20000); do echo "  a$i: \${LONG}"; done; } >long.yaml
LONG=$(head -c 100000 /dev/zero | tr '\0' x)
export LONG
check 65 'becomes larger than 4 MiB' bash -c 'ulimit -v 1048576; "$AUTOLAUNCH" validate long.yaml'
unset LONG

# An error file that is one long nesting; a folder's number that leaves no next one.
check 7 'exited with code 7' "$AUTOLAUNCH" --log-dir deep /bin/sh -c \
    '{ printf "{\"message\": {\"message\": \"m\", \"extraInfo\": "; head -c 400000 /dev/zero | tr "\0" "["
       head -c 400000 /dev/zero | tr "\0" "]"; printf "}}"; } >"$TORCHELASTIC_ERROR_FILE"; exit 7'
mkdir -p huge/generation-2147483647
check 73 'no generation can be numbered' "$AUTOLAUNCH" --log-dir huge true
mkdir -p other/generation-99999999999999999999 other/generation-old other/generation-4
check 0 'done' "$AUTOLAUNCH" --log-dir other true
[ -d other/generation-5 ] || { echo "FAILED: no generation-5: $(ls other)"; failures=$((failures + 1)); }

# Too few files may be open: which limit it is, and how to raise it.
for files in 8 12 16 20; do
    check 71 'files open' bash -c "ulimit -n $files; "'"$AUTOLAUNCH" --nproc-per-node 16 --log-dir few true'
done
check 0 'done' bash -c 'ulimit -Sn 16; "$AUTOLAUNCH" --nproc-per-node 2 --log-dir soft sh -c "ulimit -n | grep -x 16"'

for pid in "${pids[@]}"; do wait "$pid" || failures=$((failures + 1)); done
exit $((failures > 0))
