#include "logs/missed_writes.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <optional>
#include <sstream>
#include <string>

namespace autolaunch::launcher {

namespace {

std::optional<std::uint64_t> write_calls(pid_t pid) {
    try {
        std::istringstream lines(read_file("/proc/" + std::to_string(pid) + "/io"));
        std::string name;
        for (std::uint64_t value = 0; lines >> name >> value;)
            if (name == "syscw:")
                return value;
    } catch (const Error&) {  // it has ended
    }
    return std::nullopt;
}

}  // namespace

void MissedWrites::look(const std::vector<pid_t>& ranks) {
    for (const pid_t rank : ranks)
        if (const auto calls = write_calls(rank))
            calls_.try_emplace(rank, Calls{*calls, *calls}).first->second.last = *calls;
}

std::uint64_t MissedWrites::calls() const {
    std::uint64_t sum = 0;
    for (const auto& [rank, calls] : calls_)
        sum += calls.last - calls.first;
    return sum;
}

}  // namespace autolaunch::launcher
