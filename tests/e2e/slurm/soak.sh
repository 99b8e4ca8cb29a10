#!/bin/bash
# A minute of scripts/soak: faults that need no node to be started again, in an order that was drawn once.
exec "$AUTOLAUNCH_SOURCE_DIR/scripts/soak" --build "$AUTOLAUNCH_BINARY_DIR" --kinds quick --faults 8 --seed 2
