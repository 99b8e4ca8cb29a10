# What the tests of python_start share: source it behind lib.sh.
unset PYTHONUNBUFFERED LD_PRELOAD PYTHONPATH PYTHONHOME "${!OMP_@}"
python=/usr/bin/python3
[ -x $python ] || skip "no $python"
installed=${PYENV_ROOT:-${HOME:-/}/.pyenv}/versions
export HOME=$work/home XDG_STATE_HOME=$work/state
mkdir "$HOME"
probes=$(dirname "$(realpath "$0")")/python_start
WALK=$(dirname "$(realpath "$0")")/../../launcher/python_start/script_walk.py
launch() { timeout 100 "$AUTOLAUNCH" --log-dir run "$@" >out.log 2>err.log; }
fresh() { rm -rf run; }
forked() { grep -c '"event":"python_preloaded"' run/events.jsonl; }
pid_of_interpreter() { sed -n 's/.*"python_preloaded","pid":\([0-9]*\).*/\1/p' run/events.jsonl | tail -1; }
# same PRELOAD COMPARE_OPTION COMMAND...: the probes of two ranks, both ways. stdin is rank 0's.
same() {
    local preload=$1 option=$2 way
    shift 2
    for way in off "$preload"; do
        fresh
        rm -rf "seen-$way" && mkdir "seen-$way"
        echo "a line" | PROBE_OUT=$work/seen-$way launch --preload "$way" --nproc-per-node 2 -- "$@" ||
            fail "$* with --preload $way exits with $?"
        expect "interpreters that imported, with --preload $way" "$([ "$way" = off ] && echo 0 || echo 1)" "$(forked)"
        contains "atexit of $*" run/generation-0/rank-1/stdout "atexit ran"
        [ "$way" = off ] || ! grep -q "trainer.preload" err.log out.log || fail "a rank started by itself"
    done
    $python "$probes/compare.py" $option "$work/seen-off" "$work/seen-$preload" >same.log || fail "--preload $preload: $*"
    cat same.log
}
