#include "warm_processes/process_priority.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr int kLowest = 19, kNiceRange = 20;
constexpr int kSysNice = 23;  // CAP_SYS_NICE

int own_nice() { return ::getpriority(PRIO_PROCESS, 0); }

bool has_sys_nice() {
    try {
        const std::string status = read_file("/proc/self/status");
        const std::size_t at = status.find("CapEff:");
        if (at == std::string::npos)
            return false;
        const std::uint64_t effective = std::strtoull(status.c_str() + at + 7, nullptr, 16);
        return (effective >> kSysNice & 1U) != 0;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

bool can_raise_priority() {
    rlimit limit{};
    const bool by_limit = ::getrlimit(RLIMIT_NICE, &limit) == 0 &&
                          (limit.rlim_cur == RLIM_INFINITY ||
                           limit.rlim_cur >= static_cast<rlim_t>(kNiceRange - own_nice()));
    return by_limit || has_sys_nice();
}

void lower_priority(pid_t process) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(process), kLowest);
}

void restore_priority(pid_t process) {
    const int nice = own_nice();
    std::error_code gone;
    const std::string folder = "/proc/" + std::to_string(process) + "/task";
    for (const auto& thread : list_folder(folder, gone)) {
        long long number = 0;
        if (parse_integer(thread.filename().string(), number))
            ::setpriority(PRIO_PROCESS, static_cast<id_t>(number), nice);
    }
}

}  // namespace autolaunch::launcher
