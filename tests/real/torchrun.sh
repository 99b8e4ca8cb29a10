#!/bin/bash
# Every command line of torchrun.py under torchrun and under autolaunch, side by side.
#
#   REAL_TORCH=/path/to/venv/bin/python tests/real/torchrun.sh     a Python with torch 2.15 or newer (pip install torch)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "${REAL_TORCH:-python3}" "$here/torchrun.py" "${AUTOLAUNCH:-autolaunch}" "$@"
