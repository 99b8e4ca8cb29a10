#!/bin/bash
# The collective benches as a person starts them: found in PATH or by a relative name, their table whole and from rank 0
# alone, readable by programs, as JSON too, and one clear line for what cannot be.
. "$(dirname "$0")/lib.sh"
bench=$AUTOLAUNCH_BINARY_DIR/bench
[ -x "$bench/all_reduce_perf" ] || skip "this build has no benches"
unset "${!NCCL_TESTS_@}"

PATH="$bench:$PATH" "$AUTOLAUNCH" -n 4 all_reduce_perf -b 8 -e 8K -f 4 -n 3 >table.log 2>messages.log
expect "all_reduce_perf in PATH" 0 $?
expect "lines of other ranks than 0" "" "$(grep -v '^\[[^ ]* 0\] ' table.log)"
expect "rows" 6 "$(grep -cE '^\[[^ ]* 0\] +[0-9]+ +[0-9]+ +float +sum +-1( +[0-9.]+){3} +0( +[0-9.]+){3} +0$' table.log)"
for rank in 0 1 2 3; do
    grep -qE "#  Rank  $rank Group  0 Pid +[0-9]+ on +[^ ]+ device  $rank \[cpus [0-9,-]+\]$" table.log || fail "rank $rank is not listed"
done

# A name relative to the working directory, and lines for programs: as nccl-tests' own are taken apart.
ln -s "$bench" programs
"$AUTOLAUNCH" -q --no-prefix -n 2 programs/reduce_scatter_perf -b 8 -e 8K -f 4 -n 3 -R 1 -J out.json >plain.log 2>messages.log
expect "reduce_scatter_perf by a relative name" 0 $?
expect "rows" 6 "$(awk '$1 ~ /^[0-9]+$/ && NF == 13 && $9 == 0 && $13 == 0' plain.log | wc -l)"
contains "how the columns are named" plain.log \
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong "
contains "the buffers" plain.log "# -R 1: buffers of Communicator::allocate()"
contains "the footer" plain.log "# Out of bounds values : 0 OK"
contains "the footer" plain.log "# Avg bus bandwidth    : "
python3 - <<'END' || fail "out.json is not what was printed"
import json
json_file = json.load(open("out.json"))
rows = [line.split() for line in open("plain.log") if line.split() and line.split()[0].isdigit()]
results = json_file["results"]
assert json_file["version"] == 3 and json_file["config"]["backend"] == "shm"
assert [r["size"] for r in results] == [int(row[0]) for row in rows] == [8, 32, 128, 512, 2048, 8192]
for row, result in zip(rows, results):
    for column, half in ((5, "out_of_place"), (9, "in_place")):
        assert abs(float(row[column]) - result[half]["time"]) <= 0.06 + result[half]["time"] / 100
        assert result[half]["nwrong"] == 0
assert json_file["out_of_bounds"] == {"count": 0, "okay": "true"}
assert [d["rank"] for d in json_file["config"]["devices"]] == [0, 1]
assert not any("KEY" in variable for variable in json_file["env"])
END
"$AUTOLAUNCH" -q -n 2 programs/reduce_scatter_perf -b 8 -e 8 -J out.json >again.log 2>&1
[ -f out.json.0 ] || fail "a JSON file that exists was not kept: $(cat again.log)"

# What cannot be is said once, whatever the number of ranks.
"$AUTOLAUNCH" -q -n 3 programs/all_reduce_perf -g 2 >refused.log 2>&1
expect "what -g 2 exits with" 2 $?
expect "how often it is said" 1 "$(grep -c '^\[.*: -g 2 is not possible: a rank has one GPU here' refused.log)"
"$AUTOLAUNCH" -q -n 3 programs/all_reduce_perf -G 4 -b 8 -e 8 >refused.log 2>&1
expect "what -G exits with" 2 $?
expect "how often it is said" 1 "$(grep -c '^\[.*: -G: backend shm works on CPUs' refused.log)"
NCCL_TESTS_MIN_BW=1e9 "$AUTOLAUNCH" -q -n 2 programs/all_reduce_perf -b 8 -e 8 >slow.log 2>&1
expect "what a bandwidth below NCCL_TESTS_MIN_BW exits with" 1 $?
contains "the footer" slow.log "FAILED"

# A rank that does not come: -T ends the others, and says so.
cat >some_come <<END
#!/bin/sh
[ "\$RANK" = 1 ] && exec sleep 60
exec $bench/all_reduce_perf -b 8 -e 8 -T 2
END
chmod +x some_come
SECONDS=0
"$AUTOLAUNCH" -q -n 2 ./some_come >timeout.log 2>&1
expect "what a timeout exits with" 4 $?
[ $SECONDS -lt 20 ] || fail "-T 2 took $SECONDS s"
contains "the timeout" timeout.log "Test timeout"
nothing_left
