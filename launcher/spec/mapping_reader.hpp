#pragma once
#include "spec/value.hpp"

#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// A scalar that says something, and no byte 0 in it. Pure.
bool is_text(const Value& value);

/// What readers of a mapping with keys of its own have in common: how they complain, and whether
/// they have. Owner: the reader, which derives from it. Threads: one.
class MappingReader {
protected:
    /// `path`: of the mapping, "secrets.TOKEN".
    MappingReader(std::string path, std::vector<SpecError>& errors)
        : path_(std::move(path)), errors_(errors) {}

    void complain(const Origin& at, const std::string& path, const std::string& message);
    void expected(const Entry& entry, const std::string& what);
    /// No key of `known` is called so.
    void unknown(const Entry& entry, const std::vector<std::string>& known);

    const std::string path_;
    bool good_ = true;

private:
    std::vector<SpecError>& errors_;
};

}  // namespace autolaunch::launcher
