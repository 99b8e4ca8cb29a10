#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <string>

namespace autolaunch {

/// What to do where open(2) and its like fail with EMFILE: which limit it is, and how to raise it.
/// `needed` files; 0: unknown. Nothing where the limit cannot be read.
AUTOLAUNCH_API std::string explain_file_limit(std::size_t needed = 0);

/// Throws SystemError{EMFILE} with that explanation where this process may not open `fewest` files,
/// without which nothing works, also not after it raised its soft limit to the hard one.
AUTOLAUNCH_API void require_file_limit(std::size_t fewest, std::size_t needed);

/// How many files may be open for those who connect to a server of this process: a quarter of the
/// soft limit, at least 16. The others are for what the process is there for.
AUTOLAUNCH_API std::size_t spare_files();

}  // namespace autolaunch
