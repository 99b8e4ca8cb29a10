#include "causes/cause.hpp"

#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::array<std::string_view, kCauses> kCauseNames = {"program_error",
                                                               "cannot_start",
                                                               "crash",
                                                               "out_of_memory",
                                                               "killed",
                                                               "mpi_abort",
                                                               "collective_timeout",
                                                               "hang",
                                                               "straggler",
                                                               "storage",
                                                               "gpu",
                                                               "network",
                                                               "node_lost",
                                                               "preempted",
                                                               "time_limit",
                                                               "cancelled",
                                                               "agent_killed",
                                                               "internal"};
static_assert(static_cast<int>(Cause::internal) == kCauses - 1);

constexpr std::array<std::string_view, 3> kCertaintyNames = {"certain", "likely", "possible"};

template <class Enum, std::size_t kNames>
std::optional<Enum> find_name(const std::array<std::string_view, kNames>& names,
                              std::string_view name) {
    for (std::size_t at = 0; at < kNames; ++at)
        if (names[at] == name)
            return static_cast<Enum>(at);
    return std::nullopt;
}

}  // namespace

std::array<Cause, kCauses> all_causes() {
    std::array<Cause, kCauses> causes{};
    for (std::size_t at = 0; at < kCauses; ++at)
        causes[at] = static_cast<Cause>(at);
    return causes;
}

std::string_view name_of(Cause cause) { return kCauseNames[static_cast<std::size_t>(cause)]; }

std::optional<Cause> cause_named(std::string_view name) {
    return find_name<Cause>(kCauseNames, name);
}

std::string_view name_of(Certainty certainty) {
    return kCertaintyNames[static_cast<std::size_t>(certainty)];
}

std::optional<Certainty> certainty_named(std::string_view name) {
    return find_name<Certainty>(kCertaintyNames, name);
}

}  // namespace autolaunch::launcher
