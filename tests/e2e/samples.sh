#!/bin/bash
# A job measures its node: samples in the run directory, a textfile for node_exporter while it runs, a sampler that is killed and
# comes back, and what says so when nobody may write where the textfile should be. The administrator's file may ask for it all.
. "$(dirname "$0")/lib.sh"
mkdir text
spec() { printf '%s\n' "trainer: {command: [$misbehave, \"$1\"]}" "resource_management: {ranks_per_node: 2}" "monitoring: {$2}" >job.yaml; }
start() { # RUN: in the background, as $job
    "$AUTOLAUNCH" -c job.yaml --log-dir "$work/$1" >"$1.out" 2>"$1.log" </dev/null &
    job=$!
}
samples() { cat "$work/$1"/samples/*.jsonl 2>/dev/null; }
at_least() { [ "$(samples "$1" | grep -c '"span_s"')" -ge "$2" ]; } # RUN NUMBER
sampler_of() { pgrep -f -P "$(pgrep -d, -f "autolaunch -c job.yaml --log-dir $work/$1")" -- --internal-sampler; }

# A job of a moment has no sampler, and no folder of samples.
spec sleep:0.1 "interval_seconds: 1"
"$AUTOLAUNCH" -c job.yaml --log-dir "$work/short" >short.out 2>short.log </dev/null || fail "a short job"
[ ! -e short/samples ] || fail "a job of 0.1 s was measured"

spec "report-steps:7,sleep:60" "resource_tracking: true, interval_seconds: 1, textfile_directory: $work/text"
start long
eventually "three samples" at_least long 3
eventually "a textfile" test -s text/autolaunch_*.prom
grep -q '^autolaunch_rank_cpu_seconds_total{job_id="[^"]*",node="[^"]*",rank="1"} ' text/autolaunch_*.prom || fail "no rank 1"
if command -v promtool >/dev/null; then
    promtool check metrics <"$(ls text/autolaunch_*.prom)" >promtool.log 2>&1 || fail "promtool"
else
    echo "not checked with promtool: apt-get install prometheus"
fi
before=$(sampler_of long)
[ -n "$before" ] || fail "no sampler is there"
expect "its niceness" 10 "$(ps -o ni= -p "$before" | tr -d ' ')"
kill -9 "$before"
another() { local now; now=$(sampler_of long) && [ -n "$now" ] && [ "$now" != "$before" ]; }
eventually "another sampler" another
count=$(samples long | grep -c '"span_s"')
eventually "samples of it" at_least long $((count + 2))
samples long | grep -q '"restarts":1' || fail "its restart is not counted"
kill -TERM $job
wait $job
[ -z "$(ls text)" ] || fail "the textfile has stayed: $(ls text)"
contains "what is said of the sampler" long.log "what measures this node was started anew"
python3 - long/samples/*.jsonl <<'END' || fail "the samples"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert lines[0]["format"] == 1 and lines[0]["interval_s"] == 1, lines[0]
samples = [line for line in lines if "format" not in line]
assert [s["up"] for s in samples] == sorted(s["up"] for s in samples)
last = samples[-1]
assert 0 <= last["cpu"]["busy"] <= 1 and last["mem"]["total"] > 1e6, last
assert {r["rank"] for s in samples for r in s.get("ranks", [])} == {0, 1}
assert any(s.get("job", {}).get("heard") == 1 for s in samples), samples
END
nothing_left

# Turned off, and turned on where nobody may write.
spec sleep:0.1 "resource_tracking: false, textfile_directory: $work/text"
says 0 "there is nothing for monitoring.textfile_directory" "$AUTOLAUNCH" -c job.yaml --log-dir "$work/off"
[ ! -e off/samples ] || fail "it was measured all the same"
spec sleep:60 "textfile_directory: $work/none"
start nowhere
eventually "a warning" grep -q "open the folder $work/none" nowhere.log
kill -TERM $job
wait $job
nothing_left
count_failures
