#include "spawn/file_limit.hpp"

namespace autolaunch::launcher {

std::optional<rlim_t> raise_file_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return std::nullopt;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // refused in some sandboxes: then it stays as it was
    return before;
}

}  // namespace autolaunch::launcher
