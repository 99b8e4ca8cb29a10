#!/usr/bin/env bash
# Installs what is needed, builds, and trains a small GPT on the licence texts that every Debian machine has, on two
# ranks of this machine. Then trains it once more and kills a rank half-way: the job recovers from its last checkpoint
# and ends with the same loss. Broken off, it goes on from where it was when it is run again.
#
#   scripts/quickstart.sh [--no-kill] [--build DIR] [KEY=VALUE ...]
#
#   --no-kill      leave the second run out
#   --build DIR    use the programs in this build folder; install and build nothing
#   KEY=VALUE      override the spec, configs/quickstart.yaml: step_scheduler.max_steps=100
#
# CMAKE_BUILD_PARALLEL_LEVEL says how many compilers may run at once, where CPUs and memory should not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/machine.sh
. scripts/lib/progress.sh
. scripts/lib/watched.sh
. scripts/lib/build_steps.sh

kill_a_rank=yes
build=
overrides=()
while [ $# -gt 0 ]; do
    case $1 in
        --no-kill) kill_a_rank=no ;;
        --build) build=${2:?--build needs a folder}; shift ;;
        -h|--help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *=*) overrides+=("$1") ;;
        *) echo "quickstart.sh: unknown argument '$1'; see --help" >&2; exit 64 ;;
    esac
    shift
done

targets=(autolaunch gpt)
build_core_seconds=600    # what a fresh build takes of one core
train_seconds=90          # what a run of 1000 steps takes, on two cores or more

broken_off() { # SIGNAL'S NUMBER
    trap '' INT TERM HUP
    end_watched
    progress_end
    echo "quickstart: broken off; run it again, and it goes on from here" >&2
    exit $((128 + $1))
}

# What is to be built, in words, and how many seconds it takes on so many cores.
foresee_build() {
    local left sources
    sources=$(find lib/src launcher examples/gpt -name '*.cpp' | wc -l)
    if ! { is_configured "$build" && left=$(steps_left "$build" "${targets[@]}"); }; then
        build_words="builds about $sources sources in $build, $jobs at a time"
        build_seconds=$((build_core_seconds / jobs + 15))
    elif [ "$left" -eq 0 ]; then
        build_words="builds nothing: $build is up to date" build_seconds=0
    else
        build_words="goes on with the build in $build, of which $left steps are left, $jobs at a time"
        [ "$left" -le "$sources" ] || left=$sources
        build_seconds=$((build_core_seconds * left / (sources + 1) / jobs + 1))
    fi
}

foresee_training() {
    local steps=1000 override
    for override in ${overrides[@]+"${overrides[@]}"}; do
        case $override in step_scheduler.max_steps=[1-9]*) steps=${override#*=} ;; esac
    done
    train_words="trains a small GPT on two ranks"
    training_seconds=$((train_seconds * steps / 1000 + 2))
    [ "$cores" -gt 1 ] || training_seconds=$((training_seconds * 2))
    [ "$kill_a_rank" = no ] || training_seconds=$((training_seconds * 2))
    [ "$kill_a_rank" = no ] || train_words+=", and again with a rank killed half-way"
}

tell_the_plan() {
    local as="as root" install_words="installs nothing: all packages are there" install_time=
    [ "$(id -u)" -eq 0 ] || as="with sudo"
    if [ "$missing" -gt 0 ]; then
        install_words="installs with apt, $as, packages that are missing: $missing" install_time=": a minute or two, as the network is"
    fi
    echo "quickstart: on this machine ($cores cores, $memory MiB of memory free) it"
    echo "  1. $install_words$install_time"
    duration "$build_seconds"
    [ "$build_seconds" -eq 0 ] || build_words+=": about $REPLY"
    echo "  2. $build_words"
    duration "$training_seconds"
    echo "  3. $train_words: about $REPLY"
}

install_and_build() {
    local cores memory jobs missing build_words build_seconds train_words training_seconds
    cores=$(machine_cores) memory=$(machine_memory)
    jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(parallel_jobs "$cores" "$memory")}
    missing=$(scripts/install-deps.sh --missing | wc -l)
    foresee_build
    foresee_training
    tell_the_plan
    scripts/install-deps.sh
    check_tools
    # What was installed just now may be found by a configuration that went without it.
    if [ "$missing" -gt 0 ] || ! is_configured "$build"; then configure_build "$build"; fi
    compile_targets "$build" "$jobs" "$build_seconds" "${targets[@]}"
}

if [ -z "$build" ]; then
    build=build/release
    trap 'broken_off 1' HUP
    trap 'broken_off 2' INT
    trap 'broken_off 15' TERM
    install_and_build
    trap - HUP INT TERM
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
