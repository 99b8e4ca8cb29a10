# nccl.profile: the program in the build tree finds its profiles; one that is missing or wrong is an error that helps.
. "$(dirname "$0")/lib.sh"

printf 'trainer: {command: ["true"]}\n' >spec.yaml

# refused WHAT PROFILE TEXT: `autolaunch plan` fails and says TEXT.
refused() {
    "$AUTOLAUNCH" plan -c spec.yaml "nccl.profile=$2" >"$work/plan.log" 2>&1 && fail "$1: accepted"
    contains "$1" "$work/plan.log" "$3"
}
refused "a misspelt name" azur "did you mean azure? there are aws, azure, coreweave, gcp, generic, oci"
refused "a missing file" ./mine.yaml "there is no file ./mine.yaml"
printf 'set:\n  NCCL_IB_SL: {value: 1, source: us}\n' >mine.yaml
refused "a value without its reason" ./mine.yaml "mine.yaml:2:15: set.NCCL_IB_SL: lacks reason"

printf 'set:\n  NCCL_IB_SL: {value: 1, reason: fabric, source: us}\n' >mine.yaml
for profile in none auto generic oci ./mine.yaml; do
    "$AUTOLAUNCH" plan -c spec.yaml "nccl.profile=$profile" >"$work/plan.log" 2>&1 || fail "nccl.profile=$profile is refused"
done
"$AUTOLAUNCH" -c spec.yaml nccl.profile=azur >"$work/run.log" 2>&1 && fail "a run with a missing profile started"
contains "the run says why" "$work/run.log" "did you mean azure?"
echo "nccl_profile: found, refused with a hint, read"
