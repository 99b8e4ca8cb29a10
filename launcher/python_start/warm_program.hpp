#pragma once

namespace autolaunch::launcher {

/// warm_interpreter.py with read_ahead.py as text; the build makes the source of this from it.
extern const char kWarmProgram[];
/// script_walk.py.
extern const char kWalkProgram[];

}  // namespace autolaunch::launcher
