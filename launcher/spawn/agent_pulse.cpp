#include "spawn/agent_pulse.hpp"

#include <autolaunch/error.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace autolaunch::launcher {

AgentPulse::AgentPulse() {
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw SystemError(errno, "map memory that agent and keeper share");
    shared_ = new (memory) Shared;
}

AgentPulse::~AgentPulse() { ::munmap(shared_, sizeof(Shared)); }

void AgentPulse::begin(std::chrono::milliseconds limit, int code) {
    beat();
    shared_->code_when_lost = code;
    shared_->limit_ms = limit.count();
}

// One that has ended its promise meanwhile has promised nothing anew.
void AgentPulse::beat(std::chrono::milliseconds left) noexcept {
    if (shared_->limit_ms != 0)
        shared_->limit_ms = std::max<std::int64_t>(1, left.count());
    beat();
}

bool PulseWatch::is_silent(Clock::time_point now) {
    const std::uint64_t beats = pulse_.beats();
    const auto limit = pulse_.limit();
    if (limit.count() == 0 || beats != beats_ || looked_at_ == Clock::time_point{}) {
        silence_ = std::chrono::milliseconds(0);
    } else {
        const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - looked_at_);
        silence_ += std::min(since, 2 * kInterval);
    }
    beats_ = beats;
    looked_at_ = now;
    return limit.count() > 0 && silence_ > limit;
}

}  // namespace autolaunch::launcher
