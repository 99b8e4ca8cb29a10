#!/bin/bash
# bench/compare_collectives: every contestant that is there takes part, those that are not are named, and the table and the
# plot have what was measured. OSU's and Intel's benchmarks are stood in for by scripts that print in their form.
. "$(dirname "$0")/lib.sh"
[ -x "$AUTOLAUNCH_BINARY_DIR/bench/all_reduce_perf" ] || skip "this build has no benches"
compare="$AUTOLAUNCH_SOURCE_DIR/bench/compare_collectives"

"$compare" "$AUTOLAUNCH_BINARY_DIR" --collectives all_reduce,all_gather -b 64 -e 128K --rounds 1 --launcher autolaunch \
    --output results >plain.log 2>&1
expect "without OSU and IMB" 0 $?
contains "the skip" plain.log "# all_reduce: OSU left out: osu_allreduce is not in PATH"
contains "the skip" plain.log "# all_reduce: Intel MPI Benchmarks left out: IMB-MPI1 is not in PATH"
contains "the ratios" plain.log "shm, allocate()d"
grep -q " failed: " plain.log && fail "a contestant failed: $(cat plain.log)"
python3 - <<'END' || fail "the results are not whole"
import json, xml.etree.ElementTree
results = json.load(open("results/results.json"))
assert results["ranks"] == 2
for name in ("all_reduce", "all_gather"):
    of = results["collectives"][name]
    for contestant in ("shm, allocate()d", "shm"):
        assert sorted(map(int, of["microseconds"][contestant])) == [64 << i for i in range(12)], of
    assert of["touched_gb_s"] > 0
    drawn = xml.etree.ElementTree.parse(f"results/{name}.svg")
    lines = drawn.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 1 + len(of["microseconds"])    # the limit's
    rows = open(f"results/{name}.md").read().splitlines()
    assert sum(row.startswith("| ") for row in rows) == 13
END

if command -v mpirun >/dev/null && [ -x "$AUTOLAUNCH_BINARY_DIR/bench/mpi_peer_perf" ]; then
    mkdir others
    cat >others/osu_allgather <<'END'
#!/bin/sh
printf '\n# OSU MPI Allgather Latency Test v7.1\n# Size       Avg Latency(us)\n32                    10.00\n64                    40.00\n'
END
    cat >others/IMB-MPI1 <<'END'
#!/bin/sh
printf '#------\n       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n            0         1000         0.01         0.02         0.03\n           32         1000         1.00         9.00         5.00\n           64         1000         2.00        12.00        7.00\n'
END
    chmod +x others/*
    PATH="$work/others:$PATH" "$compare" "$AUTOLAUNCH_BINARY_DIR" --collectives all_gather -b 64 -e 128 -f 2 --rounds 2 \
        --output others >others.log 2>&1
    expect "with OSU and IMB" 0 $?
    grep -q "left out" others.log && fail "somebody is left out: $(cat others.log)"
    # They count one rank's part: 32 bytes of two ranks are a message of 64.
    python3 -c 'import json
times = json.load(open("others/results.json"))["collectives"]["all_gather"]["microseconds"]
assert times["OSU"] == {"64": [10.0] * 2, "128": [40.0] * 2}, times["OSU"]
assert times["IMB"] == {"64": [5.0] * 2, "128": [7.0] * 2}, times["IMB"]
assert set(times) == {"shm, allocate()d", "shm", "mpi", "MPI'"'"'s own", "OSU", "IMB"}' || fail "$(cat others.log)"
fi
"$compare" "$AUTOLAUNCH_BINARY_DIR" --collectives all_to_one >unknown.log 2>&1
expect "an unknown collective" 2 $?
contains "what there is" unknown.log "all_to_one is no collective; there are all_reduce, "
nothing_left
