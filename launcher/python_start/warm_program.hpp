#pragma once

namespace autolaunch::launcher {

/// warm_interpreter.py and its parts as one text; the build makes the source of this from them.
extern const char kWarmProgram[];
/// script_walk.py.
extern const char kWalkProgram[];

}  // namespace autolaunch::launcher
