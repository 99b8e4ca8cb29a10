#pragma once
#include <string>

namespace autolaunch::launcher {

/// A file for another program, before it is anywhere.
struct RenderedFile {
    std::string name;  ///< without folder
    std::string text;
    std::string what;         ///< what it is for, and how it is checked: a few words
    bool is_program = false;  ///< may be executed
};

}  // namespace autolaunch::launcher
