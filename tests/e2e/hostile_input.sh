# Files and limits that would hang, crash or drown a command: a reason and an exit code instead.
. "$(dirname "$0")/lib.sh"
export LC_ALL=C

# Pipes that nobody writes to: each takes 5 s, all at once.
mkfifo pipe
echo 'include: pipe' >include.yaml
pids=()
for command in 'validate pipe' 'lint pipe' 'validate include.yaml' '--config pipe true'; do
    # shellcheck disable=SC2086  # words
    says 66 'nobody opened it to write' "$AUTOLAUNCH" $command &
    pids+=($!)
done
# Nobody makes a pipe of what a scheduler wrote: refused at once, and so are devices.
for file in pipe /dev/zero; do
    says 65 "$file is no regular file" env PBS_JOBID=1 PBS_NODEFILE=$file timeout 4 "$AUTOLAUNCH" true
    says 65 "$file is no regular file" env LSB_JOBID=1 LSB_DJOB_HOSTFILE=$file timeout 4 "$AUTOLAUNCH" true
done
echo 'restart: {max_restarts: x}' >bad.yaml
echo 'trainer: {command: [/bin/true]}' >good.yaml
export AUTOLAUNCH
says 0 'valid' bash -c '"$AUTOLAUNCH" validate /dev/stdin <good.yaml'
says 0 'valid' bash -c 'cat good.yaml | "$AUTOLAUNCH" validate /dev/stdin'
says 0 'valid' bash -c '"$AUTOLAUNCH" validate <(sleep 0.2; cat good.yaml)'
says 65 'found "x"' bash -c 'cat bad.yaml | "$AUTOLAUNCH" validate /dev/stdin'
says 1 'found "x"' bash -c 'cat bad.yaml | "$AUTOLAUNCH" lint --kind spec /dev/stdin'
says 65 'larger than 4 MiB' "$AUTOLAUNCH" validate /dev/zero
says 65 'larger than 4 MiB' "$AUTOLAUNCH" lint /dev/zero
truncate -s 1T sparse.sh
says 65 'larger than 4 MiB' "$AUTOLAUNCH" lint sparse.sh

# A terminal gets no sequences that it would obey, from keys and values alike.
printf '"\\e[2Jmodel\\x9b": 1\nrestart: {"\\e]0;title\\a": 1, backoff: "\\e[31mred\\u202e"}\n' >escapes.yaml
"$AUTOLAUNCH" validate escapes.yaml >escapes.out 2>&1
grep -q 'unknown section' escapes.out || failed "$(cat escapes.out)"
if grep -qP '[\x1b\x07]|\xc2\x9b|\xe2\x80\xae' escapes.out; then
    failed "escape sequences pass: $(cat -v escapes.out)"
fi
printf 'trainer: {command: [/bin/sh, -c, "cat $AUTOLAUNCH_TRAINER_CONFIG"], config: {a: "x\\_y"}}\n' >nbsp.yaml
says 0 $'x\xc2\xa0y' "$AUTOLAUNCH" -c nbsp.yaml --log-dir nbsp

# Short texts that become long: refused within an address space of 1 GiB.
{ echo 'model:' && for i in $(seq 20000); do echo "  a$i: \${LONG}"; done; } >long.yaml
LONG=$(head -c 100000 /dev/zero | tr '\0' x)
export LONG
says 65 'becomes larger than 4 MiB' bash -c 'ulimit -v 1048576; "$AUTOLAUNCH" validate long.yaml'
unset LONG

# An error file that is one long nesting; a folder's number that leaves no next one.
says 7 'exited with code 7' "$AUTOLAUNCH" --log-dir deep /bin/sh -c \
    '{ printf "{\"message\": {\"message\": \"m\", \"extraInfo\": "; head -c 400000 /dev/zero | tr "\0" "["
       head -c 400000 /dev/zero | tr "\0" "]"; printf "}}"; } >"$TORCHELASTIC_ERROR_FILE"; exit 7'
mkdir -p huge/generation-2147483647
says 73 'no generation can be numbered' "$AUTOLAUNCH" --log-dir huge true
mkdir -p other/generation-99999999999999999999 other/generation-old other/generation-4
says 0 'done' "$AUTOLAUNCH" --log-dir other true
[ -d other/generation-5 ] || failed "no generation-5: $(ls other)"

# Too few files may be open: which limit it is, and how to raise it.
for files in 8 12 16 20; do
    says 71 'files open' bash -c "ulimit -n $files; "'"$AUTOLAUNCH" --nproc-per-node 16 --log-dir few true'
done
says 0 'done' bash -c 'ulimit -Sn 16; "$AUTOLAUNCH" --nproc-per-node 2 --log-dir soft sh -c "ulimit -n | grep -x 16"'

for pid in "${pids[@]}"; do wait "$pid" || failures=$((failures + 1)); done
count_failures
