# Shared by the package tests: installs the build into a prefix of its own and checks what the consumer prints.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$AUTOLAUNCH_BINARY_DIR" --prefix "$prefix" >"$work/install.log" 2>&1 || { cat "$work/install.log"; exit 1; }
consumer=$AUTOLAUNCH_SOURCE_DIR/tests/package/consumer

check_output() { # PROGRAM: alone it is rank 0 of 1
    local output expected='rank 0 of 1, gradient norm 1.000, sum 1.0'
    output=$(env -i PATH="$PATH" HOME="$work" LD_LIBRARY_PATH="$(ldlib)" "$1")
    [ "$output" = "$expected" ] || { echo "got '$output', expected '$expected'"; exit 1; }
}
ldlib() { dirname "$(find "$prefix" -name 'libautolaunch_base.*' | head -n 1)"; }
