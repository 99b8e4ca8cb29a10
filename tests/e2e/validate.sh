# `autolaunch validate`, `schema`, `plan`, `--version` and `--help`, as a person meets them: text and exit codes.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for variable in $(env | grep -oE '^(PET|SLURM)_[A-Z_]+'); do unset "$variable"; done
failures=0

# expect CODE TEXT COMMAND...: the exit code, and a line of its output (both streams) that contains TEXT.
expect() {
    local code=$1 text=$2 output got=0
    shift 2
    output=$("$@" 2>&1) || got=$?
    if [ "$got" -ne "$code" ] || ! grep -qF -- "$text" <<<"$output"; then
        printf 'FAILED: %s\n  expected %s with "%s", got %s:\n%s\n' "$*" "$code" "$text" "$got" "$output"
        failures=$((failures + 1))
    fi
}

cat >good.yaml <<'END'
trainer: {command: [/bin/true]}
restart: {max_restarts: 2}
model: {_target_: pkg.Model, layers: 2}
END
cat >bad.yaml <<'END'
restart:
  max_restart: 3
security: {mtls: true}
trainer:
  workdir: ${SURELY_NOT_SET}/x
END
head -c 10485760 /dev/zero | tr '\0' 'x' >large.yaml
head -c 4096 /bin/sh >binary.yaml

expect 0 'good.yaml: valid' "$AUTOLAUNCH" validate good.yaml
expect 0 'good.yaml: valid' "$AUTOLAUNCH" validate -c good.yaml restart.max_restarts=5
expect 65 'autolaunch: bad.yaml:2:3: restart.max_restart: unknown key; did you mean "max_restarts"? (expects a whole number >= 0)' \
    "$AUTOLAUNCH" validate bad.yaml
expect 65 'bad.yaml:3:1: security: this section is not yet supported' "$AUTOLAUNCH" validate bad.yaml
expect 65 'bad.yaml:5:12: trainer.workdir: the variable SURELY_NOT_SET is not set' "$AUTOLAUNCH" validate bad.yaml
expect 65 'override restart.max_restarts=x: restart.max_restarts: expected a whole number' \
    "$AUTOLAUNCH" validate good.yaml restart.max_restarts=x
expect 65 'larger than 4 MiB' "$AUTOLAUNCH" validate large.yaml
expect 65 'binary.yaml:1:1: not text' "$AUTOLAUNCH" validate binary.yaml
expect 66 'No such file or directory' "$AUTOLAUNCH" validate nowhere.yaml
expect 66 'Is a directory' "$AUTOLAUNCH" -c . -- true
expect 65 'unknown key' "$AUTOLAUNCH" -c bad.yaml -- true
expect 64 'did you mean --nproc-per-node?' "$AUTOLAUNCH" --nproc-per-nod 2 true
expect 64 'there is no program to run' "$AUTOLAUNCH"
expect 73 'cannot create the run directory' "$AUTOLAUNCH" --log-dir /dev/null/x true
expect 65 'nodes' "$AUTOLAUNCH" --nnodes 2 true
expect 0 'placement' "$AUTOLAUNCH" plan --nnodes 1:4 true
expect 0 'Examples:' "$AUTOLAUNCH" --help
expect 0 'Usage: autolaunch validate' "$AUTOLAUNCH" validate --help
expect 0 'autolaunch 0.' "$AUTOLAUNCH" --version
for option in CUDA NCCL MPI PMIX IBVERBS MUNGE URING TORCH; do expect 0 "$option" "$AUTOLAUNCH" --version; done
kernels=$("$AUTOLAUNCH" --version | sed -n 's/^KERNELS  *//p')
if [ -e "$AUTOLAUNCH_BINARY_DIR/lib/src/fsdp/kernels.fatbin" ]; then built="in, nvcc "; else built="out, "; fi
case "$kernels" in
    "$built"?*) ;;
    *) echo "FAILED: --version says of the CUDA kernels \"$kernels\", expected \"$built…\""; failures=$((failures + 1)) ;;
esac
expect 0 '/bin/true' "$AUTOLAUNCH" plan -c good.yaml
expect 0 '"ranks"' "$AUTOLAUNCH" plan --json -c good.yaml
expect 0 'json-schema.org' "$AUTOLAUNCH" schema

lines=$("$AUTOLAUNCH" validate bad.yaml 2>&1 | wc -l)
[ "$lines" -eq 3 ] || { echo "FAILED: bad.yaml has 3 errors, $lines lines were printed"; failures=$((failures + 1)); }

"$AUTOLAUNCH" schema --markdown >keys.md
if ! tail -n "$(wc -l <keys.md)" "$AUTOLAUNCH_SOURCE_DIR/docs/spec.md" | cmp -s - keys.md; then
    echo "FAILED: docs/spec.md does not end with what autolaunch schema --markdown prints"
    failures=$((failures + 1))
fi
[ "$failures" -eq 0 ] && echo "validate: all as expected"
exit $((failures > 0))
