# nccl.profile: the program in the build tree finds its profiles; one that is missing or wrong is an error that helps.
. "$(dirname "$0")/lib.sh"

printf 'trainer: {command: ["true"]}\n' >spec.yaml

# refused EXIT_CODE WHAT PROFILE TEXT: `autolaunch plan` ends with EXIT_CODE and says TEXT.
refused() {
    "$AUTOLAUNCH" plan -c spec.yaml "nccl.profile=$3" >"$work/plan.log" 2>&1
    expect "exit code: $2" "$1" "$?"
    contains "$2" "$work/plan.log" "$4"
}
refused 65 "a misspelt name" azur "did you mean azure? there are aws, azure, coreweave, gcp, generic, oci"
refused 66 "a missing file" ./mine.yaml "nccl.profile: cannot read ./mine.yaml: No such file or directory"
long=$(printf 'a%.0s' {1..300})
refused 66 "a path that is too long" "/tmp/$long" "nccl.profile: cannot look at /tmp/$long: File name too long"
refused 65 "a name that is too long" "$long" "there is no profile $long"
ln -s loop.yaml loop.yaml
refused 66 "a path in a circle" ./loop.yaml "nccl.profile: cannot look at ./loop.yaml: Too many levels of symbolic links"
printf 'set:\n  NCCL_IB_SL: {value: 1, source: us}\n' >mine.yaml
refused 65 "a value without its reason" ./mine.yaml "mine.yaml:2:15: set.NCCL_IB_SL: lacks reason"

printf 'set:\n  NCCL_IB_SL: {value: 1, reason: fabric, source: us}\n' >mine.yaml
for profile in none auto generic oci ./mine.yaml; do
    "$AUTOLAUNCH" plan -c spec.yaml "nccl.profile=$profile" >"$work/plan.log" 2>&1 || fail "nccl.profile=$profile is refused"
done
"$AUTOLAUNCH" -c spec.yaml nccl.profile=azur >"$work/run.log" 2>&1 && fail "a run with a missing profile started"
contains "the run says why" "$work/run.log" "did you mean azure?"
echo "nccl_profile: found, refused with a hint, read"
