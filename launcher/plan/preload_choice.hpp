#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A statement that Python ranks have in common before anything of their own, on its line of the
/// script.
struct PreloadedImport {
    int line = 1;
    std::string statement;
    std::string file = {};  ///< empty: the script's, or none
    bool operator==(const PreloadedImport&) const = default;
};

/// What the ranks' interpreter imports before they are forked from it (docs/python-start.md).
struct PreloadChoice {
    std::vector<PreloadedImport> imports;  ///< as far as they are known before
    bool automatic = false;   ///< they are the script's own first ones, which the interpreter finds
    std::string script;       ///< as the command names it; "-m" or "-c" without one
    std::string module;       ///< of -m
    std::string interpreter;  ///< its file
    std::string library;      ///< that makes the interpreter wait
    std::string records;      ///< folder of what earlier runs have found; empty: there is none
    std::string workdir;
    std::string reason = "trainer.preload is off";  ///< for them, or against them

    /// Else every rank starts by itself.
    bool wants_interpreter() const { return automatic || !imports.empty(); }
};

}  // namespace autolaunch::launcher
