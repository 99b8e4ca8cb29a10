#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A statement that Python ranks have in common before anything of their own, on its line of the
/// script.
struct PreloadedImport {
    int line = 1;
    std::string statement;
    bool operator==(const PreloadedImport&) const = default;
};

/// What the ranks' interpreter imports before they are forked from it (docs/python-start.md).
struct PreloadChoice {
    std::vector<PreloadedImport> imports;  ///< none: every rank starts by itself
    bool automatic = false;                ///< they are the script's own first statements
    std::string script;                    ///< as the command names it; "-m" or "-c" without one
    std::string library;                   ///< that makes the interpreter wait
    std::string reason = "trainer.preload is off";  ///< for them, or against them
};

}  // namespace autolaunch::launcher
