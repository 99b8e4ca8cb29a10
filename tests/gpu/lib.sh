# What GPU tests share. Source it.
program=$AUTOLAUNCH_BINARY_DIR/tests/gpu/nccl_gpu
[ -x "$program" ] || { echo "skipped: this build has no nccl backend"; exit 77; }
probe=$("$program" streams 2>&1)
[ $? -ne 77 ] || { echo "$probe"; exit 77; }
