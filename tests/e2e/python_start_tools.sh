#!/bin/bash
# Python ranks that are forked from an interpreter which has imported for them, and programs that run others or look into them:
# torch.multiprocessing, coverage.py, debugpy, gdb, a terminal, pyenv, the tools of Python's own library. Each like a fresh start.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/python_start/common.sh"

# both NAME MODULES FILTER COMMAND...: one rank both ways; the exit code and the output, through FILTER, are the same.
both() {
    local name=$1 modules=$2 filter=$3 way
    shift 3
    for way in off "$modules"; do
        fresh
        launch --preload "$way" -- "$@" </dev/null
        echo "exit code $?" >"tool-$way"
        cat run/generation-0/rank-0/stdout run/generation-0/rank-0/stderr | sed -E "$filter" >>"tool-$way"
        expect "interpreters of $name with --preload $way" "$([ "$way" = off ] && echo 0 || echo 1)" "$(forked)"
        grep -q "trainer.preload" err.log && fail "$name starts by itself: $(cat err.log)"
    done
    cmp -s tool-off "tool-$modules" || fail "$name differs: $(diff tool-off "tool-$modules")"
}
has() { "$1" -c "import $2" 2>/dev/null || { echo "skipped: $2, which is not installed for $1" && false; }; }
tools=${PYTHON_WITH_TOOLS:-$python} # with coverage, debugpy
torch=${PYTHON_WITH_TORCH:-$python}

printf 'import json\ndef work(n):\n    return json.dumps([n]) if n else None\nprint("worked", work(1))\n' >program.py
has "$torch" torch && PROBE_QUICK=1 same auto "" "$torch" "$probes/torch_probes.py"
if has "$tools" coverage; then
    both "coverage run" json "" "$tools" -m coverage run --branch --data-file=covered program.py
    both "coverage in the program" coverage,json "s/0x[0-9a-f]+//g" "$tools" -c "import coverage
watched = coverage.Coverage(data_file=None, branch=True)
watched.start()
import program
watched.stop()
print(watched.report(show_missing=True))"
    contains "what was covered" tool-off "program.py"
fi
if has "$tools" debugpy; then
    both "debugpy" json "s/[0-9]{4,5}/PORT/g" "$tools" -m debugpy --listen 127.0.0.1:0 program.py
    contains "a program under debugpy" tool-off "worked [1]"
fi
if command -v gdb >/dev/null; then
    printf 'import json\nimport os, time\nopen("ready", "w").write(str(os.getpid()))\nwhile not os.path.exists("go"):\n    time.sleep(0.02)\nprint("went on")\n' >waits.py
    for way in off auto; do
        fresh
        rm -f go ready
        launch --preload $way -- $python waits.py </dev/null &
        job=$!
        eventually "a rank to look into" test -s ready
        gdb -p "$(cat ready)" -batch -ex "info threads" -ex bt >"gdb-$way" 2>&1
        touch go
        wait $job || fail "exit code $? after gdb, --preload $way"
        grep -qE "Operation not permitted|ptrace:" "gdb-$way" && { echo "skipped: gdb may not attach here" && break; }
        contains "the stack that gdb shows, --preload $way" "gdb-$way" "__libc_start_main"
        expect "threads that gdb shows, --preload $way" 1 "$(grep -cE '^\*? +[0-9]+ +Thread|^\* +1 +' "gdb-$way")"
        contains "the program behind gdb" run/generation-0/rank-0/stdout "went on"
    done
else
    echo "skipped: gdb, which is not installed"
fi

# A rank with a terminal starts by itself, and the others are forked.
printf 'import json\nimport os\nif os.environ["RANK"] == "1":\n    breakpoint()\nprint("rank", os.environ["RANK"], json.dumps([1]))\n' >stops.py
cat >typed <<END
run "$AUTOLAUNCH" -n 2 --preload auto --debug-rank 1 --log-dir debugged -- $python stops.py; echo "code=\$?"
see (Pdb)
type p 20 + 3
see 23
type c
see rank 1 [1]
see code=0
END
$python "$(dirname "$(realpath "$0")")/terminal.py" typed >terminal.log 2>&1 || fail "pdb at a terminal"
contains "the rank beside it" debugged/generation-0/rank-0/stdout "rank 0 [1]"
contains "why not the one at the terminal" terminal.log "a terminal is its stdin or output from its start"

# Shims of pyenv look for their interpreter at each start.
mkdir shims
printf '#!/usr/bin/env bash\nexec "%s/pyenv" exec "${0##*/}" "$@"\n' "$work" >shims/python3
printf '#!/bin/sh\nshift 2\nexec %s "$@"\n' $python >pyenv
chmod +x shims/python3 pyenv
printf '#!/usr/bin/env python3\nimport json\nprint("ran")\n' >script && chmod +x script
for program in "python3 script" ./script; do
    fresh
    PATH=$work/shims:$PATH launch --preload auto -- $program </dev/null || fail "exit code $? with a shim"
    contains "why not, $program" err.log "is started by $work/shims/python3, a shim of pyenv, which finds the interpreter anew at each start"
    contains "a remedy, $program" err.log 'name the one that `pyenv which python3` prints'
    contains "what ran" run/generation-0/rank-0/stdout ran
done
nothing_left
