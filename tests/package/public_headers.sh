#!/usr/bin/env bash
# The public headers, as a compiler sees them: what dangles is refused and what is ignored is warned of, each by its line
# and in words that say what to do; what is right has no warning; an older standard than C++20 is one error.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$AUTOLAUNCH_SOURCE_DIR/tests/package/headers
include=$AUTOLAUNCH_SOURCE_DIR/lib/include
failed=0
fail() { echo "FAILED: $*"; failed=1; }

# lines_of FILE WORD: the numbers of the lines that end in "// WORD".
lines_of() { grep -n "// $2\$" "$1" | cut -d: -f1; }
# said KIND: the lines of held_wrongly.cpp of which the log has such a diagnostic.
said() { sed -n "s|.*held_wrongly.cpp:\([0-9]*\):[0-9]*: $1: .*|\1|p" "$work/log" | sort -nu; }

compilers=(c++)
command -v clang++-14 >/dev/null && compilers+=(clang++-14) || echo "clang++-14 is not here: only c++ was asked"
for compiler in "${compilers[@]}"; do
    all=()
    "$compiler" --version | grep -q clang && all=(-ferror-limit=0)
    "$compiler" -std=c++20 -fsyntax-only "${all[@]}" -I"$include" "$here/held_wrongly.cpp" >"$work/log" 2>&1 &&
        fail "$compiler: held_wrongly.cpp is accepted"
    for kind in error:refused warning:warned; do
        diff <(said "${kind%:*}") <(lines_of "$here/held_wrongly.cpp" "${kind#*:}") >"$work/diff" ||
            fail "$compiler: lines with ${kind%:*}s (<) are not those that say // ${kind#*:} (>): $(cat "$work/diff")"
    done
    # The words: under the error the declaration, whose line says why. The exceptions: a type, and a declaration of two lines.
    why=$(grep -c AUTOLAUNCH_NOT_FROM_A_TEMPORARY "$work/log")
    [ "$why" -ge "$(($(lines_of "$here/held_wrongly.cpp" refused | wc -l) - 2))" ] || fail "$compiler: only $why errors show why"

    "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnarrowing -Werror \
        -I"$include" "$here/held_rightly.cpp" >"$work/log" 2>&1 || { cat "$work/log"; fail "$compiler: what is right is refused"; }

    count=0 headers=autolaunch/autolaunch.hpp
    [ "$compiler" = c++ ] && headers=$(cd "$include" && find autolaunch -name '*.hpp' | sort)
    while IFS= read -r header; do
        echo "#include <$header>" | "$compiler" -std=c++17 -fsyntax-only -I"$include" -x c++ - >"$work/log" 2>&1 &&
            fail "$compiler: $header is accepted as C++17"
        [ "$(grep -c 'error:' "$work/log")" = 1 ] && grep -q 'error:.*autolaunch needs C++20: add -std=c++20' "$work/log" ||
            { cat "$work/log"; fail "$compiler: $header as C++17 is not one error"; }
        count=$((count + 1))
    done <<<"$headers"
    [ "$compiler" != c++ ] || [ "$count" -ge 30 ] || fail "only $count headers were found"
    echo "$compiler: $(lines_of "$here/held_wrongly.cpp" refused | wc -l) uses refused," \
        "$(lines_of "$here/held_wrongly.cpp" warned | wc -l) warned of; $count header(s) say C++20"
done
exit $failed
