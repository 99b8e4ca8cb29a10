#pragma once
#include "allocation/allocation.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

// What PBS and LSF have in common: a text that names hosts, one slot a line.

/// The hosts of the file that `variable` names, a line each, as often as they are there. Throws
/// Error{invalid_argument} naming the variable when it cannot be read.
std::vector<std::string> hosts_in_file(const std::string& variable, const std::string& path,
                                       const FileReader& read_text);

/// An allocation of these hosts in order, each once, of which this machine must be one. `from` is
/// the variable that names them. Throws Error{invalid_argument}.
Allocation allocation_of_hosts(const std::string& source, const std::vector<std::string>& hosts,
                               const std::string& hostname, const std::string& from);

}  // namespace autolaunch::launcher
