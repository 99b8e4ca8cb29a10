#pragma once
#include "spec/spec.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A train.yaml: what the spec's own reader makes of it, and the text, to say where a key stands.
struct SpecFile {
    std::string file;
    SpecResult result;
    std::vector<std::string> lines;

    bool readable() const { return !file.empty() && result.errors.empty(); }
    /// The line of `section.key` or `section.key.name`; that of the section where the key is not on
    /// a line of its own, and 1 where the section is not in this file (it came from an include).
    int line_of(std::string_view path) const;
    /// Whether the text names it: what has its default is not on any line.
    bool names(std::string_view path) const;
};

/// Reads the file through load_spec(), and its includes. `text` is the file's own.
SpecFile read_spec_file(const std::string& file, const std::string& text,
                        const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
