#!/bin/bash
# By hand, on a kernel with Yama: which stacks of a rank that hangs an ordinary user gets, by eu-stack and by gdb.
#
#   scripts/in_kernel KERNEL kernel.yama.ptrace_scope=1 -- env AUTOLAUNCH=… AUTOLAUNCH_BINARY_DIR=… tests/real/ptrace_scope.sh [stacks]
#
# "stacks": they must be there; without it, what is written is shown.
. "$(dirname "$0")/../e2e/lib.sh"
ranks="$AUTOLAUNCH_BINARY_DIR/tests/integration/flight_rank"
ordinary=(setpriv --reuid=65534 --regid=65534 --clear-groups)
"${ordinary[@]}" test -x "$AUTOLAUNCH" -a -x "$ranks" || fail "another user may not execute what was built"
echo "kernel $(uname -r), ptrace_scope $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo "none: this kernel has no Yama")"
chmod 711 "$work"
printf 'trainer: {command: [x]}\nrestart: {hang_after: 2s}\n' >ended.yaml
# Commands without the other debugger, which is found in PATH.
tool_path() {
    mkdir -p "$1.bin"
    ln -sf "$(command -v "$1")" "$1.bin/"
    for tool in sh cat; do ln -sf "/bin/$tool" "$1.bin/"; done
    echo "$work/$1.bin"
}
for tool in eu-stack gdb; do
    command -v "$tool" >/dev/null || { echo "not tried: $tool, which is not installed" && continue; }
    path=$(tool_path "$tool")
    mkdir -p "$tool/runtime" && chown -R 65534:65534 "$tool" && chmod 700 "$tool/runtime"
    (cd "$tool" && XDG_RUNTIME_DIR=$work/$tool/runtime HOME=$work/$tool PATH=$path exec /usr/bin/"${ordinary[0]}" "${ordinary[@]:1}" \
        "$AUTOLAUNCH" --nproc-per-node 2 --log-dir run -c "$work/ended.yaml" -- "$ranks" reads "$work/$tool/go") >"$tool.out.log" 2>"$tool.log" </dev/null
    expect "exit code with $tool" 124 "$?"
    grep -hE -A 3 "stands still:|threads|no native" "$tool.log" | head -n 12
    stacks=$(echo "$tool"/run/generation-0/stacks-rank-*.txt)
    echo "--- $tool: $(grep -c '^#\|^ *#' "$stacks") frames in $(basename "$stacks")"
    grep -v '^ *$' "$stacks" | cut -c1-160 | head -n 40
    [ "${1:-}" = stacks ] && contains "the call in which it hangs, by $tool" "$stacks" "read"
    [ "${1:-}" = stacks ] && contains "the frames of the program, by $tool" "$stacks" "main"
done
echo "done"
