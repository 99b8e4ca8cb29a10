#!/usr/bin/env bash
# A project outside ours finds the component torch of the installed package, which brings libtorch, and shards a module.
. "$(dirname "$0")/lib.sh"

consumer=$AUTOLAUNCH_SOURCE_DIR/tests/package/torch_consumer
cmake -G Ninja -S "$consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
check_output "$work/build/torch_consumer"

# Without libtorch it says what is missing.
if cmake -G Ninja -S "$consumer" -B "$work/bad" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON \
    >"$work/log" 2>&1; then
    echo "the component torch was found without libtorch"
    exit 1
fi
grep -q "needs libtorch" "$work/log" || { cat "$work/log"; echo "libtorch is not named"; exit 1; }
echo "find_package: the component torch built, linked and ran"
