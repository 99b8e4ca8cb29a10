#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

using AccountTime = std::chrono::sys_seconds;

/// A job as sacct tells it: of one that was requeued, one of its runs.
struct SacctJob {
    std::string id = {};      ///< "4711", "4711_3"
    std::string raw_id = {};  ///< "4711": of an element of an array its own
    std::string user = {}, account = {}, state = {}, workdir = {};
    std::optional<AccountTime> eligible = {}, start = {}, end = {};
    std::optional<std::int64_t> gpus = {};  ///< nothing: sacct tells of none
    std::int64_t cpus = 0, nodes = 0;

    bool is_over() const;
    bool is_completed() const { return state == "COMPLETED"; }
};

/// sacct and its arguments for the jobs since a moment. Times are asked for in seconds since 1970.
std::vector<std::string> sacct_command(AccountTime since);
/// What it has printed; lines that are none are counted. Pure.
std::vector<SacctJob> parse_sacct(std::string_view text, std::size_t& damaged);

}  // namespace autolaunch::launcher
