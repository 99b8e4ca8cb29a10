#!/usr/bin/env bash
# Installs what is needed, builds, and trains a small GPT on the licence texts that every Debian machine has, on two
# ranks of this machine. Then trains it once more and kills a rank half-way: the job recovers from its last checkpoint
# and ends with the same loss.
#
#   scripts/quickstart.sh [--no-kill] [--build DIR] [KEY=VALUE ...]
#
#   --no-kill      leave the second run out
#   --build DIR    use the programs in this build folder; install and build nothing
#   KEY=VALUE      override the spec, configs/quickstart.yaml: step_scheduler.max_steps=100
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kill_a_rank=yes
build=
overrides=()
while [ $# -gt 0 ]; do
    case $1 in
        --no-kill) kill_a_rank=no ;;
        --build) build=${2:?--build needs a folder}; shift ;;
        -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *=*) overrides+=("$1") ;;
        *) echo "quickstart.sh: unknown argument '$1'; see --help" >&2; exit 64 ;;
    esac
    shift
done

if [ -z "$build" ]; then
    scripts/install-deps.sh
    build=build/release
    echo "quickstart: building in $build"
    mkdir -p "$build"
    cmake --preset release -DAUTOLAUNCH_BUILD_TESTS=OFF >"$build/configure.log" 2>&1 ||
        { cat "$build/configure.log" >&2; exit 1; }
    cmake --build "$build" --parallel "$(nproc)" --target autolaunch gpt >"$build/build.log" 2>&1 ||
        { grep -E 'FAILED|error' "$build/build.log" >&2; exit 1; }
fi
build=$(cd "$build" && pwd)
export PATH=$build/launcher:$build/examples/gpt:$PATH

runs=${AUTOLAUNCH_QUICKSTART_RUNS:-runs}/quickstart-$(date +%Y%m%d-%H%M%S)-$$

train() { # RUN_DIR: the main job, with a run directory of its own
    echo
    echo "\$ autolaunch -c configs/quickstart.yaml ${overrides[*]-}"
    autolaunch --log-dir "$1" -c configs/quickstart.yaml ${overrides[@]+"${overrides[@]}"}
}

last_loss() { # RUN_DIR: what the last step of rank 0 reported
    grep '"event":"step"' "$1/events.jsonl" | tail -n 1 | grep -o '"loss":[^,}]*' | cut -d: -f2
}

kill_half_way() { # RUN_DIR: SIGKILL rank 1 once half of the steps are done
    local events=$1/events.jsonl total done_steps pid
    for _ in $(seq 6000); do
        sleep 0.1
        [ -f "$events" ] || continue
        read -r done_steps total < <(grep '"event":"step"' "$events" | tail -n 1 |
            sed -n 's/.*"step":\([0-9]*\),"total_steps":\([0-9]*\).*/\1 \2/p') || continue
        [ -n "${total:-}" ] && [ $((done_steps * 2)) -gt "$total" ] || continue
        pid=$(grep '"event":"rank_started","rank":1,' "$events" | tail -n 1 | sed 's/.*"pid":\([0-9]*\).*/\1/')
        echo "quickstart: kill -9 $pid   (rank 1, after step $done_steps of $total)"
        kill -9 "$pid"
        return 0
    done
    return 1
}

train "$runs-whole"
whole=$(last_loss "$runs-whole")
[ "$kill_a_rank" = yes ] || exit 0

kill_half_way "$runs-killed" &
killer=$!
trap 'kill "$killer" 2>/dev/null || true' EXIT
train "$runs-killed"
wait "$killer" || { echo "quickstart: no rank was killed: the job was over too soon" >&2; exit 1; }
killed=$(last_loss "$runs-killed")

echo
echo "quickstart: loss of the last step: $whole in the undisturbed run, $killed with a rank killed half-way"
[ "$whole" = "$killed" ] || { echo "quickstart: the two should be equal" >&2; exit 1; }
