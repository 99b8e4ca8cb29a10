#pragma once
#include <cstddef>

namespace autolaunch::launcher {

// What C code asks the environment for while modules are imported: this library's getenv(3) and
// secure_getenv(3) stand before libc's, and do what these do. Any thread.

inline constexpr std::size_t kMostReadBytes = 64 * 1024;

/// Whether names are kept from now on.
void note_reads(bool on);
/// The names that are new since the last call, each with its zero, into kMostReadBytes. "*" is
/// among them where there were more names than that.
std::size_t take_reads(char* into);

}  // namespace autolaunch::launcher
