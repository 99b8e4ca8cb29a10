#pragma once
#include <cstddef>
#include <map>
#include <string>

namespace autolaunch::launcher {

/// No secret is longer.
inline constexpr std::size_t kLongestSecret = std::size_t{1} << 20;

/// `path` with a leading ~/ replaced by this user's HOME. Pure.
std::string with_home(const std::string& path,
                      const std::map<std::string, std::string>& environment);

/// What a file holds that has a secret. It must be a regular file of this user's or of root's that
/// nobody else may write, and that no others than its group may read; a link leads to it only where
/// this user or root has made it. Throws ExitError: 66 it cannot be read, 77 it cannot be trusted
/// (with the chmod that helps), 65 it is empty or too long. `what` begins the message
/// ("secrets.HF_TOKEN"). Blocks as the file system does, and on no pipe.
std::string read_secret_of_file(const std::string& what, const std::string& path);

/// The same without keeping it: a wrong one is found before anything starts.
void check_secret_file(const std::string& what, const std::string& path);

}  // namespace autolaunch::launcher
