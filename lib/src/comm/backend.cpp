#include "comm/backend.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <new>

namespace autolaunch {

std::shared_ptr<void> CommunicatorBackend::allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    const std::size_t whole_pages = (bytes + kPage - 1) / kPage * kPage;
    void* memory = whole_pages < bytes
                       ? nullptr
                       : std::aligned_alloc(kPage, whole_pages == 0 ? kPage : whole_pages);
    if (memory == nullptr)
        throw std::bad_alloc();
    return {memory, [](void* pointer) { std::free(pointer); }};
}

void CommunicatorBackend::check() const {
    if (status() == CommunicatorStatus::aborted)
        throw AbortedError("the communicator was aborted: " + abort_reason());
}

std::shared_ptr<CommunicatorBackend> CommunicatorBackend::shrink(std::span<const int>) {
    throw Error(ErrorCode::unsupported,
                fmt::format("backend {} cannot go on without lost ranks", name()),
                "let the launcher restart the job: restart.max_restarts");
}

}  // namespace autolaunch
