#!/usr/bin/env bash
# A project outside ours finds the installed package with find_package, by components, and runs; an unknown component
# is refused by name.
. "$(dirname "$0")/lib.sh"

cmake -G Ninja -S "$consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
check_output "$work/build/trainer"

mkdir "$work/bad"
sed 's/COMPONENTS checkpoint/COMPONENTS nonesuch checkpoint/' "$consumer/CMakeLists.txt" >"$work/bad/CMakeLists.txt"
cp "$consumer/main.cpp" "$work/bad/"
if cmake -G Ninja -S "$work/bad" -B "$work/bad/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1; then
    echo "an unknown component was accepted"
    exit 1
fi
grep -q nonesuch "$work/log" || { cat "$work/log"; echo "the unknown component is not named"; exit 1; }

"$prefix/bin/autolaunch" --version >"$work/version"
grep -q "^autolaunch 0.1" "$work/version" || { cat "$work/version"; exit 1; }
# The profiles of NCCL settings are installed, and the installed program finds them.
[ -f "$prefix/share/autolaunch/profiles/oci.yaml" ] || { echo "no profiles in $prefix/share/autolaunch"; exit 1; }
printf 'trainer: {command: ["true"]}\nnccl: {profile: azur}\n' >"$work/spec.yaml"
"$prefix/bin/autolaunch" plan -c "$work/spec.yaml" >"$work/plan" 2>&1 && { echo "a profile that is missing was accepted"; exit 1; }
grep -q "did you mean azure?" "$work/plan" || { cat "$work/plan"; exit 1; }
# The collective benches, where they were built: each is there, and alone it measures a group of one.
if [ -x "$AUTOLAUNCH_BINARY_DIR/bench/all_reduce_perf" ]; then
    for collective in all_reduce reduce_scatter all_gather broadcast reduce alltoall gather scatter sendrecv hypercube; do
        LD_LIBRARY_PATH=$(ldlib) "$prefix/bin/${collective}_perf" -b 64 -e 64 >"$work/perf" 2>&1 &&
            grep -q "^# Collective test concluded: ${collective}_perf" "$work/perf" ||
            { cat "$work/perf"; echo "${collective}_perf is not installed, or does not run"; exit 1; }
    done
fi
echo "find_package: consumer built, linked and ran"
