#include "perf_device.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace autolaunch::bench {

std::string HostDevice::description() const {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &mask))
                cpus.push_back(cpu);
    return fmt::format("{:2} [cpus {}]", local_rank_, cpus.empty() ? "?" : format_list(cpus));
}

std::shared_ptr<void> HostDevice::allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    void* memory =
        std::aligned_alloc(kPage, (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage);
    if (memory == nullptr)
        throw std::bad_alloc();
    std::memset(memory, 0, bytes);
    return {memory, [](void* it) { std::free(it); }};
}

void HostDevice::write(void* to, const void* from_host, std::size_t bytes) {
    std::memcpy(to, from_host, bytes);
}
void HostDevice::read(void* to_host, const void* from, std::size_t bytes) {
    std::memcpy(to_host, from, bytes);
}
void HostDevice::set(void* to, unsigned char value, std::size_t bytes) {
    std::memset(to, value, bytes);
}
void HostDevice::copy(void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
}

}  // namespace autolaunch::bench
