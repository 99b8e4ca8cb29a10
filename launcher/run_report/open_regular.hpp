#pragma once
#include "base/unique_fd.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace autolaunch::launcher {

struct Opened {
    UniqueFd file;
    std::string wrong;  ///< why there is none
    bool absent = false;
};

/// A regular file of a folder, to read. Links are not followed, and nothing else is waited for.
Opened open_regular(int folder, const std::string& name);

/// All of it. Nothing where it cannot be read or is larger: `wrong` then says so.
std::optional<std::string> read_all(int file, std::size_t most, std::string& wrong);

}  // namespace autolaunch::launcher
