#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// All of it, at that place of a file. False: not all, and errno says why.
bool write_at(int fd, std::string_view bytes, off_t at);
/// As much as `bytes` has room for. False: there is not so much; errno is 0 then, or says why.
bool read_at(int fd, std::string& bytes, off_t at);

}  // namespace autolaunch::launcher
