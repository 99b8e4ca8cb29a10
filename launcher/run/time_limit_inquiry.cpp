#include "run/time_limit_inquiry.hpp"

#include "base/deadline.hpp"
#include "exit_codes/exit_error.hpp"
#include "supervise/stay_out.hpp"

#include <chrono>
#include <string>

namespace autolaunch::launcher {

namespace {
constexpr auto kLimitTime = std::chrono::seconds(5);
}

TimeLimitInquiry::TimeLimitInquiry(const StartGate& gate, const Allocation& allocation,
                                   const EnvironmentMap& environment)
    : gate_(gate), wanted_(gate.time_limit && allocation.node_rank == 0) {
    const auto job = environment.find("SLURM_JOB_ID");
    if (wanted_ && allocation.source == "slurm" && job != environment.end())
        query_.emplace(job->second);
}

void TimeLimitInquiry::judge(asio::io_context& io, Joined& joined) {
    if (!wanted_ || !joined.head)
        return;
    try {
        if (query_)
            query_->wait(Deadline::after(kLimitTime));
        gate_.time_limit(query_ ? query_->time_limit() : std::string());
    } catch (const Error& error) {
        stay_out(io, joined, {exit_code_of(error), error.what(), error.hint()});
        throw;
    }
}

}  // namespace autolaunch::launcher
