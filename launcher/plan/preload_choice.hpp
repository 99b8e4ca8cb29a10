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

struct FilePart {
    std::string file;
    long long offset = 0, bytes = 0;
    bool operator==(const FilePart&) const = default;
};

/// What the ranks' interpreter imports before they are forked from it (docs/python-start.md).
struct PreloadChoice {
    std::vector<PreloadedImport> imports;  ///< as far as they are known before
    bool automatic = false;   ///< they are the script's own first ones, which the interpreter finds
    bool listed = false;      ///< they are the user's list
    std::string script;       ///< as the command names it; "-m" or "-c" without one
    std::string module;       ///< of -m
    std::string interpreter;  ///< its file
    std::string library;      ///< that makes the interpreter wait
    std::string records;      ///< folder of what earlier runs have found; empty: there is none
    std::string workdir;
    bool is_shared = false;  ///< the interpreter and its packages are on a file system of a network
    bool from_node = false;  ///< they are to be seen as copies on the node, where that can be had
    std::string cache;       ///< the folder of the copies; empty: below /var/tmp
    std::vector<FilePart> reads;                    ///< what importing reads there; read ahead
    std::string reason = "trainer.preload is off";  ///< for them, or against them

    /// Else every rank starts by itself.
    bool wants_interpreter() const { return automatic || !imports.empty(); }
};

}  // namespace autolaunch::launcher
