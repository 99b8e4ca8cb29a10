#include "restart_policy/hang_limit.hpp"

#include "restart_policy/cause_policy.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {

namespace {

// A server that restarts comes back within it, and half of what NCCL's watchdog waits is left.
constexpr std::chrono::minutes kByItself{5};

std::string in_words(std::chrono::milliseconds time) {
    if (time.count() % 60'000 == 0)
        return fmt::format("{} min", time.count() / 60'000);
    return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

std::optional<HangLimit> hang_limit(const JobSpec& spec) {
    const HangAfter& wanted = spec.restart.hang_after;
    if (spec.debug_rank)
        return std::nullopt;
    if (wanted.after)
        return HangLimit{.after = *wanted.after, .told = true};
    if (wanted.automatic && wants_restarts(spec.restart))
        return HangLimit{.after = kByItself, .told = false};
    return std::nullopt;
}

std::string describe_hang_limit(const JobSpec& spec) {
    const auto limit = hang_limit(spec);
    if (!limit)
        return spec.debug_rank ? "said, and never ended while a rank is debugged"
               : spec.restart.hang_after.automatic
                   ? "said, and not ended: no restarts are wanted (restart.hang_after)"
                   : "said, and not ended: restart.hang_after is off";
    return limit->told ? fmt::format("ended after {} without a step (restart.hang_after)",
                                     in_words(limit->after))
                       : fmt::format(
                             "ended after {} without a step, and a longer time than its "
                             "steps have shown, once it is sure that no rank will go on",
                             in_words(limit->after));
}

}  // namespace autolaunch::launcher
