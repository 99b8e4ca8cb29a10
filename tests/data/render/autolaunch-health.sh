#!/bin/sh
# Slurm's HealthCheckProgram for autolaunch, made by autolaunch render slurm: it ends what dead jobs have left, and drains
# the node when it is not fit for a job, with a reason that begins with [node_problem]. slurmd ends it after 60 s.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
autolaunch=/usr/bin/autolaunch

say() { # to slurmd's log, and to the node's
    echo "$0: $*" >&2
    logger -t "${0##*/}" -- "$*" 2>/dev/null || :
}

[ -x "$autolaunch" ] || {
    say "no $autolaunch on this node"
    exit 0
}
timeout -k 2 20 "$autolaunch" clean >/dev/null 2>&1
code=$?
[ "$code" -eq 0 ] || say "autolaunch clean exits with $code: run it here to see why"
exec timeout -k 2 30 "$autolaunch" doctor --health-check --drain --skip memlock,nofile
