#!/usr/bin/env bash
# Installs what building autolaunch needs, from Debian 12's own packages. Safe to run again.
#
#   scripts/install-deps.sh            what the build and the quick start need
#   scripts/install-deps.sh --tests    also what the tests need
#   scripts/install-deps.sh --list     print the packages and install nothing
set -euo pipefail

build_packages=(
    g++ cmake ninja-build pkg-config git ca-certificates
    libcli11-dev libyaml-cpp-dev libfmt-dev nlohmann-json3-dev libasio-dev libxxhash-dev libhwloc-dev libexpat1-dev
    libssl-dev libcurl4-openssl-dev libmunge-dev libibverbs-dev libopenmpi-dev openmpi-bin libpmix-dev
    liburing-dev
)
test_packages=(
    ccache doctest-dev mpich libmpich-dev libtorch-dev python3-torch python3-jsonschema procps util-linux
    slurmctld slurmd slurm-client munge iproute2 faketime
    age radosgw ceph-mon ceph-osd
)

with_tests=no
list_only=no
for argument in "$@"; do
    case $argument in
        --tests) with_tests=yes ;;
        --list) list_only=yes ;;
        -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "install-deps.sh: unknown argument '$argument' (--tests, --list)" >&2; exit 64 ;;
    esac
done

packages=("${build_packages[@]}")
[ "$with_tests" = no ] || packages+=("${test_packages[@]}")

if [ "$list_only" = yes ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi

# What is installed already needs neither root nor a network.
missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "install-deps: all ${#packages[@]} packages are installed"
    exit 0
fi

give_up() {
    echo "install-deps: $1" >&2
    echo "install-deps: install these by hand, or their equivalents, and run again:" >&2
    printf '    %s\n' "${missing[@]}" >&2
    exit 69
}
command -v apt-get >/dev/null || give_up "this system has no apt-get; only Debian 12 and its relatives are installed for you"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || give_up "not root, and there is no sudo"
    as_root=(sudo)
fi

echo "install-deps: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq || give_up "apt-get update failed"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    give_up "apt-get install failed"
echo "install-deps: done"
