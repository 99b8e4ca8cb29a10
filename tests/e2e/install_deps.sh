#!/bin/bash
# How packages come to the machine, with an apt that only says what it would do: shown while it lasts, as root or with
# sudo, and in clear words where it cannot be.
. "$(dirname "$0")/lib.sh"

mkdir "$work/bin"
export PATH=$work/bin:$PATH FAKES=$work TERM=xterm
fake() { # NAME: its script comes on stdin
    { echo '#!/bin/bash'; cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
fake dpkg-query <<'END'
case ${!#} in cmake|ninja-build) exit 1 ;; esac
echo -n "install ok installed"
END
fake id <<'END'
echo "${FAKE_ID:-0}"
END
fake sudo <<'END'
[ "$1" != -n ] || exit "${FAKE_SUDO:-0}"
echo "sudo $*" >>"$FAKES/calls"
[ "$1" = -v ] || exec "$@"
END
fake dpkg <<'END'
[ "$1" = --audit ] || echo "dpkg $*" >>"$FAKES/calls"
[ "$1" != --audit ] || echo "${FAKE_AUDIT:-}" | grep . || true
END
fake apt-get <<'END'
echo "apt-get $*" >>"$FAKES/calls"
for ((i = 1; i <= 20; i++)); do
    echo "dlstatus:$i:$((i * 5)).1667:Retrieving file $i of 20 (3s remaining)"
done
case $* in *install*)
    if [ -n "${FAKE_ERROR:-}" ]; then echo "E: $FAKE_ERROR" >&2; exit 100; fi
    for ((i = 1; i <= 20; i++)); do echo "pmstatus:cmake:$((i * 5)).0000:Unpacking cmake (amd64)"; done ;;
esac
END

# install EXPECTED_CODE [ARGUMENTS...]: without a terminal of any kind
install() {
    local expected=$1 code=0
    shift
    rm -f "$work/calls"
    setsid --wait "$AUTOLAUNCH_SOURCE_DIR/scripts/install-deps.sh" "$@" >"$work/out.log" 2>"$work/err.log" </dev/null ||
        code=$?
    expect "exit code of install-deps.sh $*" "$expected" "$code"
}

# What is missing is named, and nothing else is asked for.
install 0 --missing
expect "what is missing" "cmake ninja-build" "$(xargs <"$work/out.log")"
[ ! -e "$work/calls" ] || fail "--missing called $(cat "$work/calls")"

# As root: no sudo; a line each tenth while apt works.
install 0
contains "what will be done" "$work/out.log" "installing 2 of "
expect "lines while packages are installed" "10 20 30 40 50 60 70 80 90 100" \
    "$(sed -n 's/^install-deps: installing: \([0-9]*\) %.*/\1/p' "$work/out.log" | xargs)"
contains "what apt does" "$work/out.log" "Retrieving file 10 of 20"
contains "the packages" "$work/calls" "--no-install-recommends cmake ninja-build"
expect "calls of sudo" 0 "$(grep -c '^sudo' "$work/calls")"

# An installation that was broken off before is ended first.
FAKE_AUDIT="cmake is half-installed" install 0
expect "what is called first" "dpkg --configure -a" "$(head -n 1 "$work/calls")"

# As an ordinary user: sudo, which asks on a terminal; without one it is said why not.
FAKE_ID=1000 install 0
contains "with sudo" "$work/calls" "sudo env DEBIAN_FRONTEND=noninteractive apt-get"
FAKE_ID=1000 FAKE_SUDO=1 install 69
contains "why not" "$work/err.log" "not root, sudo wants a password, and there is no terminal to ask for it"
contains "what to install by hand" "$work/err.log" "    ninja-build"
[ ! -e "$work/calls" ] || fail "it went on: $(cat "$work/calls")"
export FAKE_ID=1000 FAKE_SUDO=1
script -qec "$AUTOLAUNCH_SOURCE_DIR/scripts/install-deps.sh" /dev/null >"$work/terminal.log" </dev/null ||
    fail "on a terminal, with a password"
contains "the password is announced" "$work/terminal.log" "sudo asks for your password"
expect "the password is asked for before apt starts" "sudo -v" "$(head -n 1 "$work/calls")"
contains "a bar on a terminal" "$work/terminal.log" "installing [#"

unset FAKE_ID FAKE_SUDO
# apt's errors are shown.
FAKE_ERROR="Unable to locate package cmake" install 69
contains "apt's error" "$work/err.log" "E: Unable to locate package cmake"
contains "which step" "$work/err.log" "apt-get install failed"
echo "passed"
