#pragma once
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A signal that ended a process which the rank had started, and the line that says so.
struct ToldSignal {
    int signal = 0;
    std::string line;
};

/// What shells, Python and its libraries, GNU time and setsid, and Fortran's runtime say of it, the
/// newest line of these. Its number is lost where they end with a code of their own. Pure.
std::optional<ToldSignal> find_told_signal(const std::vector<std::string>& lines);

/// setsid's "child 4711 did not exit normally": that process was ended by a signal, and it does not
/// say by which. Pure.
std::optional<int> read_hidden_end(const std::vector<std::string>& lines);

}  // namespace autolaunch::launcher
