# compute-sanitizer for GPU tests. Source it.

# sanitize SECONDS TOOL [OPTION…] PROGRAM…: says "ok: TOOL", or ends the test with what it found.
sanitize() {
  local seconds=$1 tool=$2 options=() log
  shift 2
  # A call that fails is no fault by itself: NCCL and cuBLAS try what a GPU may not have.
  [ "$tool" != memcheck ] || options=(--report-api-errors no)
  log=$(mktemp)
  if ! timeout "$seconds" compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 9 "$@" > "$log" 2>&1; then
    echo "FAILED: $tool"
    tail -n 30 "$log"
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  echo "ok: $tool"
}
