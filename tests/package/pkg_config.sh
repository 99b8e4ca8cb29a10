#!/usr/bin/env bash
# A project outside ours builds against the installed package with nothing but pkg-config and a compiler.
. "$(dirname "$0")/lib.sh"

export PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name autolaunch.pc)")
[ "$(pkg-config --modversion autolaunch)" = 0.1.0 ] || { echo "wrong version"; exit 1; }
# shellcheck disable=SC2046
c++ -std=c++20 $(pkg-config --cflags autolaunch) "$consumer/main.cpp" -o "$work/consumer" $(pkg-config --libs autolaunch)
check_output "$work/consumer"

# An older standard is one error, of a whole program and with these flags too.
# shellcheck disable=SC2046
c++ -std=c++17 $(pkg-config --cflags autolaunch) -c "$consumer/main.cpp" -o "$work/old.o" 2>"$work/log" && { echo "C++17 is accepted"; exit 1; }
[ "$(grep -c 'error:' "$work/log")" = 1 ] && grep -q 'add -std=c++20' "$work/log" || { cat "$work/log"; exit 1; }
echo "pkg-config: consumer built, linked and ran"
