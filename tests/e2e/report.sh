#!/bin/bash
# The ledger at a job's end, and `autolaunch report`: of a job that failed and came back, of what is no run, of what is torn.
. "$(dirname "$0")/lib.sh"

# Fails once behind step 5, the checkpoint of step 3 is what the next generation goes on from.
"$AUTOLAUNCH" --nproc-per-node 2 --max-restarts 1 --log-dir run \
    "$misbehave" report-steps:3,checkpoint:3,report-steps:5,fail-before-generation:1:4,exit:0 hang >out.log 2>err.log </dev/null &
job=$!
came_back() { grep -qs '"generation":1,"event":"rank_exited"' run/events.jsonl; }
eventually "the second generation" came_back
kill -INT "$job"
wait "$job"
contains "the ledger's line" err.log "time: "
contains "the ledger's line" err.log "goodput "

"$AUTOLAUNCH" report run --json --html run.html >out.log 2>err.log || fail "report: exit code $?"
json 'd["format"] == 1 and len(d["runs"]) == 1'
json 'd["runs"][0]["ledger"]["unit_ms"] == json.load(open("run/ledger.json"))["unit_ms"]'
json 'sum(d["runs"][0]["ledger"]["unit_ms"].values()) == d["runs"][0]["ledger"]["wall_ms"] * d["runs"][0]["ledger"]["units"]'
json 'd["runs"][0]["ledger"]["failures"] == 1 and d["runs"][0]["failures"][0]["who"].startswith("rank 0")'
json 'd["runs"][0]["failures"][0]["follows"] == "restart 1 of 1 from the checkpoint of step 3"'
json '{s["kind"] for s in d["runs"][0]["timeline"]} >= {"launch", "steps", "recovery"}'
json '[c["clean"] for c in d["runs"][0]["certificates"]] == [True]'
contains "the page" run.html "</html>"
python3 - run.html <<'EOS' || fail "the page is not whole"
import html.parser, sys
class Page(html.parser.HTMLParser):
    void = {"meta", "br", "rect", "path", "polyline"}
    def __init__(self):
        super().__init__(); self.open = []; self.seen = set()
    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag == "svg": assert {"role", "aria-hidden"} & dict(attributes).keys(), attributes
        assert not {"src", "onload"} & dict(attributes).keys()
        if tag not in self.void or tag in ("rect", "path"): self.open.append(tag)
    def handle_startendtag(self, tag, attributes): self.seen.add(tag)
    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())
page = Page(); page.feed(open(sys.argv[1], encoding="utf-8").read())
assert not page.open and not {"script", "link", "img", "iframe"} & page.seen, page.open
EOS
"$AUTOLAUNCH" report run run >out.log 2>err.log
contains "the text" out.log "restart 1 of 1 from the checkpoint of step 3"
contains "over several" out.log "all 2 jobs"

# Of an attempt whose agent was killed the events tell, in the report and in the ledger of the next attempt.
timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir again --rdzv-id again "$misbehave" train:0 >out.log 2>err.log </dev/null &
job=$!
reported() { [ "$(grep -c '"event":"step"' again/events.jsonl 2>/dev/null)" -ge "$1" ]; }
eventually "steps" reported 3
kill -9 "$(pgrep -x autolaunch -P "$(pgrep -P "$(pgrep -x autolaunch-keep -P $job)")")"
wait "$job"
"$AUTOLAUNCH" --nproc-per-node 1 --log-dir again --rdzv-id again "$misbehave" report-steps:3,exit:3 >out.log 2>err.log </dev/null
expect "exit code" 3 "$?"
"$AUTOLAUNCH" report again --json >out.log 2>err.log || fail "report: exit code $?"
json 'd["runs"][0]["ledger"]["unit_ms"] == json.load(open("again/ledger.json"))["unit_ms"]'
json 'json.load(open("again/ledger.json"))["attempts"] == 2 and not json.load(open("again/ledger.json"))["without_person"]'
json '[(f["cause"], f["who"]) for f in d["runs"][0]["failures"]] == [("agent_killed", "generation 0"), ("program_error", "rank 0 (" + d["runs"][0]["hostname"] + ", pid " + d["runs"][0]["failures"][1]["who"].split()[-1])]'

# What is torn, of a later version or no file of ours is a gap with a name; what is no run is an error.
cp -r run torn
rm torn/exit.json torn/plan.json
printf '{"time":"2026' >>torn/events.jsonl
mkfifo torn/exit.json
ln -s /etc/passwd torn/plan.json
"$AUTOLAUNCH" report torn >out.log 2>err.log || fail "a torn run: exit code $?"
contains "torn" out.log "ends within a line of 13 bytes"
contains "a FIFO" out.log "exit.json is not a regular file"
contains "a link" out.log "plan.json is a symbolic link"
! grep -q root: out.log || fail "a link was followed"
mkdir empty fifo
mkfifo fifo/events.jsonl
says 66 "events.jsonl is not there" "$AUTOLAUNCH" report empty
says 66 "is not a regular file" "$AUTOLAUNCH" report fifo
says 66 "cannot open the run directory" "$AUTOLAUNCH" report nowhere
says 64 "report needs a run directory" "$AUTOLAUNCH" report
nothing_left
count_failures
