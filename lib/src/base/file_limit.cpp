#include "base/file_limit.hpp"

#include <autolaunch/error.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace autolaunch {

namespace {

std::string number_of(rlim_t limit) {
    return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

}  // namespace

std::string explain_file_limit(std::size_t needed) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return {};
    const bool soft = limit.rlim_cur < limit.rlim_max;
    std::string text = "this process may have " + number_of(limit.rlim_cur) + " files open";
    if (soft)
        text += ", and may raise that to " + number_of(limit.rlim_max);
    if (needed > 0)
        text += "; it needs about " + std::to_string(needed);
    return text + "; " +
           (soft ? "ulimit -n " + number_of(limit.rlim_max) + " before it starts"
                 : "raise the hard limit: ulimit -Hn as root, nofile in "
                   "/etc/security/limits.conf, LimitNOFILE= of the service that starts it");
}

void require_file_limit(std::size_t fewest, std::size_t needed) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < fewest)
        throw SystemError(EMFILE, "start", explain_file_limit(needed));
}

std::size_t spare_files() {
    constexpr std::size_t kFewest = 16, kUnknown = 1024;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return kUnknown;
    return std::max(static_cast<std::size_t>(limit.rlim_cur) / 4, kFewest);
}

}  // namespace autolaunch
