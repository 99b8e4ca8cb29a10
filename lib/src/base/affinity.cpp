#include "base/affinity.hpp"

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <memory>

namespace autolaunch {

std::optional<std::vector<int>> affinity_of(pid_t thread) {
    // The kernel refuses a mask smaller than its own, and does not say how large that is.
    for (int size = 1024; size <= 1 << 20; size *= 2) {
        const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
            CPU_ALLOC(static_cast<std::size_t>(size)), [](cpu_set_t* s) { CPU_FREE(s); });
        const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
        CPU_ZERO_S(bytes, set.get());
        if (::sched_getaffinity(thread, bytes, set.get()) != 0) {
            if (errno == EINVAL)
                continue;
            return std::nullopt;
        }
        std::vector<int> cpus;
        for (int cpu = 0; cpu < size; ++cpu)
            if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get()))
                cpus.push_back(cpu);
        return cpus;
    }
    return std::nullopt;
}

}  // namespace autolaunch
