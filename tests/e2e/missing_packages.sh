#!/bin/bash
# A configuration that misses a package says which, in one line, and what installs it.
. "$(dirname "$0")/lib.sh"

off=()
for option in CUDA NCCL MPI PMIX IBVERBS MUNGE TORCH CRYPTO CURL URING ARCHIVE; do off+=("-DAUTOLAUNCH_WITH_$option=OFF"); done

# configure WORDS ARGUMENTS...: fails, with these words
configure() {
    local words=$1
    shift
    cmake -G Ninja -S "$AUTOLAUNCH_SOURCE_DIR" -B "$work/build" "${off[@]}" "$@" >"$work/configure.log" 2>&1 &&
        fail "configured in spite of $*"
    tr -s ' \n' ' ' <"$work/configure.log" >"$work/words.log"
    contains "what is said with $*" "$work/words.log" "$words"
}
# without PACKAGE NAME DEBIAN: find_package does not find it
without() {
    configure "$2 was not found. Debian 12 has it in $3; scripts/install-deps.sh installs it." \
        "-DCMAKE_DISABLE_FIND_PACKAGE_$1=ON"
    sed -i "/^CMAKE_DISABLE_FIND_PACKAGE_/d" "$work/build/CMakeCache.txt"
}
without PkgConfig pkg-config pkg-config
without fmt fmt libfmt-dev
without nlohmann_json nlohmann_json nlohmann-json3-dev
without OpenSSL "OpenSSL 3" libssl-dev
without yaml-cpp yaml-cpp libyaml-cpp-dev
PKG_CONFIG_LIBDIR=$work configure "hwloc was not found. Debian 12 has it in libhwloc-dev; scripts/install-deps.sh"
without CLI11 CLI11 libcli11-dev
configure "ncurses was not found. Debian 12 has it in libncurses-dev; scripts/install-deps.sh installs it." \
    -DAUTOLAUNCH_NCURSES_INCLUDE_DIR=
configure "doctest was not found. The tests need it; scripts/install-deps.sh --tests installs it." \
    -DCMAKE_DISABLE_FIND_PACKAGE_doctest=ON -DAUTOLAUNCH_BUILD_TESTS=ON -DAUTOLAUNCH_NCURSES_INCLUDE_DIR=/usr/include
# Headers that are looked for one by one, in a cache that says that they are not there.
configure "asio.hpp was not found. Debian 12 has it in libasio-dev;" -DASIO_INCLUDE_DIR=
configure "xxhash.h was not found. Debian 12 has it in libxxhash-dev;" -DXXHASH_INCLUDE_DIR= \
    -DASIO_INCLUDE_DIR=/usr/include
echo "passed"
