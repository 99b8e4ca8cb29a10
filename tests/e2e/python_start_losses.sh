#!/bin/bash
# An interpreter that ranks are forked from is killed or stopped at any moment: that costs fresh starts, and never the job.
# LOSSES=100 does so a hundred times.
. "$(dirname "$0")/lib.sh"
unset PYTHONUNBUFFERED LD_PRELOAD PYTHONPATH
export XDG_STATE_HOME=$work/state
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
/usr/bin/python3 "$(dirname "$(realpath "$0")")/python_start/losses.py" "$AUTOLAUNCH" /usr/bin/python3 "${LOSSES:-6}" >losses.log 2>&1 ||
    fail "a job was lost"
cat losses.log
nothing_left
