#pragma once

namespace autolaunch::launcher {

/// Overwrites what looks like a secret among our own arguments (KEY=VALUE, --token VALUE), as the
/// kernel shows them to every user of the machine: /proc/PID/cmdline, ps. Whoever looked before
/// that has seen it. They must have been copied.
void hide_arguments(int argc, char** argv);

}  // namespace autolaunch::launcher
