#include "standstill/signs_of_life.hpp"

#include "base/file_io.hpp"
#include "logs/rank_files.hpp"
#include "standstill/rank_look.hpp"

#include <autolaunch/error.hpp>

#include <sstream>
#include <string>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr StepWatch::Patience kSignPatience{
    .least_steps = 20, .shortest_far = std::chrono::minutes(5), .only_far = true};
constexpr std::uint64_t kMovedALittle = 64U << 10;  // of a rank, as watchdogs and heartbeats do
constexpr std::uint64_t kSentALittle = 1U << 20;    // of a node

std::uint64_t size_of(const fs::path& file) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    return error ? 0 : size;
}

std::uint64_t sent_here() {
    try {
        return network_bytes(read_file("/proc/net/dev"));
    } catch (const Error&) {
        return 0;
    }
}

}  // namespace

SignsOfLife::SignsOfLife(fs::path run_dir, int generation, std::optional<StepWatch::Time> told)
    : run_dir_(std::move(run_dir)), generation_(generation), pace_(kSignPatience) {
    if (told)
        pace_.tell_limit(*told);
}

void SignsOfLife::look(const Ranks& ranks, Moment now) {
    if (ranks.empty() || now - output_at_ < std::chrono::seconds(1))
        return;
    output_at_ = now;
    first_rank_ = ranks.front().first;
    if (const auto bytes = printed_bytes(ranks); bytes > printed_) {
        printed_ = bytes;
        pace_.step(0, now);
    }
    if (now - bytes_at_ < std::chrono::seconds(10))
        return;
    bytes_at_ = now;
    std::uint64_t moved = 0;
    for (const auto& [rank, pid] : ranks)
        moved += look_at_tree(pid).moved_bytes;
    const std::uint64_t sent = sent_here();
    if (moved > moved_ + kMovedALittle * ranks.size() || sent > sent_ + kSentALittle)
        pace_.alive(0, now);
    moved_ = moved;
    sent_ = sent;
}

std::optional<StepWatch::Overdue> SignsOfLife::overdue(Moment now) const {
    auto found = pace_.look(now);
    if (found) {
        found->rank = first_rank_;
        found->by_signs = true;
    }
    return found;
}

std::uint64_t SignsOfLife::printed_bytes(const Ranks& ranks) const {
    std::uint64_t bytes = 0;
    for (const auto& [rank, pid] : ranks) {
        const fs::path folder = rank_directory(run_dir_, generation_, rank);
        bytes += size_of(folder / "stdout") + size_of(folder / "stderr");
    }
    return bytes;
}

std::uint64_t network_bytes(const std::string& table) {
    std::istringstream lines(table);
    std::uint64_t sum = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos)
            continue;  // the headings
        std::istringstream fields(line.substr(colon + 1));
        std::uint64_t came = 0, other = 0, went = 0;
        fields >> came;
        for (int field = 0; field < 7; ++field)
            fields >> other;
        if (fields >> went)
            sum += came + went;
    }
    return sum;
}

}  // namespace autolaunch::launcher
