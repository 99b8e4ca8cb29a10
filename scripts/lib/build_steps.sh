# shellcheck shell=bash
# How are the programs of the quick start configured and built, so that it can be watched and broken off? To be sourced,
# after progress.sh and watched.sh, from the source folder.
#
#   configure_build BUILD               nothing where it was configured already and nothing was installed since
#   compile_targets BUILD JOBS SECONDS TARGET...
#   steps_left BUILD TARGET...          how many, where ninja can tell

cmake_needed=3.25

# Tools that are there and too old, or hide the right ones, are told of before they speak for themselves.
check_tools() {
    local version tool
    for tool in cmake ninja "${CXX:-c++}"; do
        command -v "${tool%% *}" >/dev/null && continue
        echo "quickstart: there is no $tool in PATH; scripts/install-deps.sh installs what the build needs on Debian" >&2
        exit 69
    done
    version=$(cmake --version | sed -n '1s/^cmake version \([0-9.]*\).*/\1/p')
    if [ "$(printf '%s\n' "$cmake_needed" "$version" | sort -V | head -n 1)" != "$cmake_needed" ]; then
        echo "quickstart: $(command -v cmake) is version $version; $cmake_needed or newer is needed (Debian 12 has 3.25)" >&2
        exit 69
    fi
}

# CMake writes build.ninja last, and at once: where it is, a configuration was finished. Of another source folder, when
# this one was copied or moved, it is of no use.
is_configured() {
    [ -f "$1/build.ninja" ] && [ "$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt")" -ef . ]
}

show_configuring() {
    [ -z "$1" ] || configuring_now=$1
    duration $((SECONDS - watched_since))
    progress_show 0 0 "$REPLY, ${configuring_now#-- }"
}

configure_build() {
    local build=$1 fresh=()
    is_configured "$build" || fresh=(--fresh)    # what a configuration left that was broken off is not trusted
    mkdir -p "$build"
    echo "quickstart: configuring in $build"
    watched_since=$SECONDS configuring_now="asking the compiler"
    progress_start quickstart configuring
    if ! run_watched "$build/configure.log" show_configuring \
        cmake --preset release -DAUTOLAUNCH_BUILD_TESTS=OFF ${fresh[@]+"${fresh[@]}"}; then
        progress_end
        grep -A 12 '^CMake Error' "$build/configure.log" >&2 || tail -n 20 "$build/configure.log" >&2
        echo "quickstart: it could not be configured; all of what CMake said: $build/configure.log" >&2
        exit 1
    fi
    progress_end
}

# "[12/430 5.031] Building CXX object …" is ninja's, told by NINJA_STATUS.
show_compiling() {
    if [[ $1 =~ ^\[([0-9]+)/([0-9]+)\ [0-9.]+\]\  ]]; then
        steps_done=${BASH_REMATCH[1]} steps_total=${BASH_REMATCH[2]}
    elif [ -n "$1" ]; then
        return
    fi
    [ "$steps_total" -gt 0 ] || return 0
    time_left "$steps_done" "$steps_total" $((SECONDS - watched_since)) "$expected_seconds"
    duration "$REPLY"
    progress_show "$steps_done" "$steps_total" "$steps_done/$steps_total, $REPLY left"
}

compile_targets() {
    local build=$1 jobs=$2
    expected_seconds=$3 watched_since=$SECONDS steps_done=0 steps_total=0
    shift 3
    progress_start quickstart building
    if ! NINJA_STATUS="[%f/%t %e] " run_watched "$build/build.log" show_compiling \
        cmake --build "$build" --parallel "$jobs" --target "$@"; then
        progress_end
        show_errors "$build/build.log" >&2
        echo "quickstart: the build failed; all of its output: $build/build.log" >&2
        exit 1
    fi
    progress_end
    duration $((SECONDS - watched_since))
    echo "quickstart: built in $REPLY"
}

# show_errors LOG: what failed and what it said, without the compiler's command lines; else the last lines.
show_errors() {
    local errors
    errors=$(awk '/^FAILED: / { failed = 1; lines = 0; print; getline; next }
         /^\[[0-9]+\/[0-9]+ [0-9.]+\] / || /^ninja: build stopped/ { failed = 0 }
         /^CMake Error/ || /^ninja: (error|fatal)/ { failed = 1; lines = 0 }
         failed && lines++ < 30' "$1")
    if [ -n "$errors" ]; then echo "$errors"; else tail -n 10 "$1"; fi
    if grep -qE 'Killed signal|internal compiler error: Killed|out of memory|cannot allocate memory' "$1"; then
        echo "quickstart: the memory did not suffice; fewer compilers at once: CMAKE_BUILD_PARALLEL_LEVEL=1 scripts/quickstart.sh"
    fi
}

steps_left() {
    local build=$1 steps
    shift
    steps=$(NINJA_STATUS="[%f/%t] " ninja -C "$build" -n "$@" 2>/dev/null | tail -n 1) || return 1
    case $steps in
        *"Re-running CMake"*) return 1 ;;
        *"no work to do"*) echo 0 ;;
        *) sed -n 's/^\[[0-9]*\/\([0-9]*\)\].*/\1/p' <<<"$steps" | grep . ;;
    esac
}
