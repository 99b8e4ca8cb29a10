#!/bin/bash
# examples/long_run: a run that was broken off goes on with the data and the losses of one that was not, also on another
# number of ranks; and what merge_below does to memory.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
program="$AUTOLAUNCH_BINARY_DIR/examples/long_run/long_run"
text=$AUTOLAUNCH_SOURCE_DIR/LICENSE

"$program" 60 "$work/whole" "$text" > "$work/one"
[ "$(grep -c "^step " "$work/one")" = 60 ] || fail "60 steps printed $(grep -c "^step " "$work/one") lines"
awk '$2 == 1 {first = $4} $2 == 60 {exit !($4 < 0.9 * first)}' "$work/one" || fail "it does not learn"

run_ranks 2 "$program" 30 "$work/broken" "$text" > "$work/two" || fail "2 ranks"
grep "^step " "$work/one" | head -n 30 > "$work/begin"
compare_losses "2 ranks, from the start" 30 "$work/begin" "$work/two"
for ranks in 3 1; do
    cp -r "$work/broken" "$work/broken-$ranks"
    run_ranks "$ranks" "$program" 60 "$work/broken-$ranks" "$text" > "$work/on-$ranks" || fail "$ranks ranks, from a checkpoint"
    grep -q "^goes on after step 20$" "$work/on-$ranks" || fail "$ranks ranks did not go on after step 20"
    grep "^step " "$work/one" | tail -n 40 > "$work/end"
    compare_losses "$ranks ranks, from 2 ranks' checkpoint" 40 "$work/end" "$work/on-$ranks"
done

# Another text is no text to go on with.
mkdir "$work/other" && sed 's/Apache/apache/' "$text" > "$work/other/LICENSE"
if "$program" 60 "$work/broken" "$work/other/LICENSE" > "$work/refused" 2>&1; then fail "it went on with another text"; fi
grep -qF "cannot go on from this state: LICENSE begins with other bytes than it had" "$work/refused" ||
    fail "$(cat "$work/refused")"

run_ranks 2 "$program" --memory > "$work/memory" || fail "--memory"
cat "$work/memory"
awk '{all[NR] = $(NF - 1)} END {exit !(NR == 2 && all[2] + 0 > 0 && all[2] + 0 < all[1] + 0)}' "$work/memory" ||
    fail "units of their own do not take less than merged ones"
