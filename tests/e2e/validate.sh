# `autolaunch validate`, `schema`, `plan`, `--version` and `--help`, as a person meets them: text and exit codes.
. "$(dirname "$0")/lib.sh"

cat >good.yaml <<'END'
trainer: {command: [/bin/true]}
restart: {max_restarts: 2}
model: {_target_: pkg.Model, layers: 2}
END
cat >bad.yaml <<'END'
restart:
  max_restart: 3
monitor: {tier: nvme}
trainer:
  workdir: ${SURELY_NOT_SET}/x
END
head -c 10485760 /dev/zero | tr '\0' 'x' >large.yaml
head -c 4096 /bin/sh >binary.yaml

says 0 'good.yaml: valid' "$AUTOLAUNCH" validate good.yaml
says 0 'good.yaml: valid' "$AUTOLAUNCH" validate -c good.yaml restart.max_restarts=5
says 65 'autolaunch: bad.yaml:2:3: restart.max_restart: unknown key; did you mean "max_restarts"? (expects a whole number >= 0)' \
    "$AUTOLAUNCH" validate bad.yaml
says 65 'bad.yaml:3:1: monitor: this section is not yet supported' "$AUTOLAUNCH" validate bad.yaml
says 65 'security.mtls: unknown section' "$AUTOLAUNCH" validate good.yaml security.mtls=true
says 65 'bad.yaml:5:12: trainer.workdir: the variable SURELY_NOT_SET is not set' "$AUTOLAUNCH" validate bad.yaml
says 65 'override restart.max_restarts=x: restart.max_restarts: expected a whole number' \
    "$AUTOLAUNCH" validate good.yaml restart.max_restarts=x
says 65 'larger than 4 MiB' "$AUTOLAUNCH" validate large.yaml
says 65 'binary.yaml:1:1: not text' "$AUTOLAUNCH" validate binary.yaml
says 66 'No such file or directory' "$AUTOLAUNCH" validate nowhere.yaml
says 66 'Is a directory' "$AUTOLAUNCH" -c . -- true
says 65 'unknown key' "$AUTOLAUNCH" -c bad.yaml -- true
says 64 'did you mean --nproc-per-node?' "$AUTOLAUNCH" --nproc-per-nodes 2 true
says 64 'there is no program to run' "$AUTOLAUNCH"
says 73 'cannot create the run directory' "$AUTOLAUNCH" --log-dir /dev/null/x true
says 65 'nodes' "$AUTOLAUNCH" --nnodes 2 true
says 0 'placement' "$AUTOLAUNCH" plan --nnodes 1:4 true
says 0 'Examples:' "$AUTOLAUNCH" --help
says 0 'Usage: autolaunch validate' "$AUTOLAUNCH" validate --help
says 0 'autolaunch 0.' "$AUTOLAUNCH" --version
for option in CUDA NCCL MPI PMIX IBVERBS MUNGE URING ARCHIVE TORCH; do says 0 "$option" "$AUTOLAUNCH" --version; done
says 0 '"format": 1' "$AUTOLAUNCH" --version --json
says 0 '"MPI": ' "$AUTOLAUNCH" --version --json
says 64 'events.jsonl' "$AUTOLAUNCH" --json -- true
kernels=$("$AUTOLAUNCH" --version | sed -n 's/^KERNELS  *//p')
if [ -e "$AUTOLAUNCH_BINARY_DIR/lib/src/fsdp/kernels.fatbin" ]; then built="in, nvcc "; else built="out, "; fi
case "$kernels" in
    "$built"?*) ;;
    *) failed "--version says of the CUDA kernels \"$kernels\", expected \"$built…\"" ;;
esac
says 0 '/bin/true' "$AUTOLAUNCH" plan -c good.yaml
says 0 '"ranks"' "$AUTOLAUNCH" plan --json -c good.yaml
says 0 'json-schema.org' "$AUTOLAUNCH" schema

lines=$("$AUTOLAUNCH" validate bad.yaml 2>&1 | wc -l)
[ "$lines" -eq 3 ] || failed "bad.yaml has 3 errors, $lines lines were printed"

"$AUTOLAUNCH" schema --markdown >keys.md
if ! tail -n "$(wc -l <keys.md)" "$AUTOLAUNCH_SOURCE_DIR/docs/spec.md" | cmp -s - keys.md; then
    failed "docs/spec.md does not end with what autolaunch schema --markdown prints"
fi
[ "$failures" -eq 0 ] && echo "validate: all as expected"
count_failures
