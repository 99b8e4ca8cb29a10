#include "flight_view/flight_inquiry.hpp"

#include "base/owned_folder.hpp"
#include "flight_view/flight_json.hpp"
#include "flight_view/flight_lines.hpp"

#include <autolaunch/error.hpp>

#include <iterator>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr auto kAnswerTime = std::chrono::seconds(3);
constexpr auto kTogether = std::chrono::seconds(1);  // signals within it are one
constexpr std::size_t kLines = 6;

void append(std::vector<flight::RecordedRank>& to, std::vector<flight::RecordedRank>&& ranks) {
    to.insert(to.end(), std::make_move_iterator(ranks.begin()),
              std::make_move_iterator(ranks.end()));
}

// The first name that is free: each inquiry has a file of its own.
fs::path next_name(const fs::path& folder) {
    std::error_code ignored;
    for (int number = 0;; ++number) {
        const fs::path name = "flight-" + std::to_string(number) + ".json";
        const fs::file_type there = fs::symlink_status(folder / name, ignored).type();
        if (there == fs::file_type::not_found || there == fs::file_type::none)
            return name;
    }
}

}  // namespace

FlightInquiry::FlightInquiry(asio::io_context& io, Head& head, fs::path run_dir, ShowFindings show)
    : head_(head), run_dir_(std::move(run_dir)), show_(std::move(show)), timer_(io) {}

void FlightInquiry::begin_generation(int generation, int node_count, int world_size) {
    generation_ = generation;
    world_size_ = world_size;
    at_failure_.clear();
    answers_.clear();
    missing_.clear();
    thens_.clear();
    nodes_.clear();
    for (int node = 0; node < node_count; ++node)
        nodes_.insert(node);
    timer_.cancel();
}

void FlightInquiry::asked() {
    if (request_ > 0 && Clock::now() - asked_at_ < kTogether)
        return;
    asked_at_ = Clock::now();
    ask([this](std::vector<flight::RecordedRank>&& ranks, std::size_t silent) {
        drop_impossible_calls(ranks);
        FlightFindings findings = write_picture(draw_flight_picture(ranks), "SIGUSR2");
        if (silent > 0)
            findings.lines.push_back(std::to_string(silent) +
                                     (silent == 1 ? " node has" : " nodes have") +
                                     " not answered in time");
        show_(findings);
    });
}

void FlightInquiry::ask(Answer then) {
    thens_.push_back(std::move(then));
    if (!missing_.empty())
        return;
    missing_ = nodes_;
    answers_.clear();
    head_.command(control::AskFlight{.generation = generation_, .request = ++request_});
    timer_.expires_after(kAnswerTime);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            conclude();
    });
}

void FlightInquiry::heard(int node, control::FlightRead&& read) {
    if (read.generation != generation_)
        return;
    if (read.request == 0)
        return append(at_failure_, std::move(read.ranks));
    if (read.request != request_ || !missing_.contains(node))
        return;
    append(answers_, std::move(read.ranks));
    if (read.more)
        return;
    missing_.erase(node);
    if (missing_.empty())
        conclude();
}

void FlightInquiry::node_lost(int node) {
    nodes_.erase(node);
    if (missing_.erase(node) > 0 && missing_.empty())
        conclude();
}

void FlightInquiry::conclude() {
    timer_.cancel();
    const std::size_t silent = missing_.size();
    missing_.clear();
    const std::vector<flight::RecordedRank> answers = std::exchange(answers_, {});
    for (const Answer& then : std::exchange(thens_, {}))
        then(std::vector(answers), silent);
}

FlightFindings FlightInquiry::take_failure(const std::string& reason,
                                           std::optional<int> failed_rank) {
    auto ranks = std::exchange(at_failure_, {});
    drop_impossible_calls(ranks);
    const FlightPicture picture = draw_flight_picture(ranks);
    if (picture.groups.empty() || world_size_ == 1)
        return {};
    FlightFindings findings = write_picture(picture, reason);
    if (failed_rank)
        findings.culprit = flight_culprit(picture, *failed_rank);
    return findings;
}

FlightFindings FlightInquiry::write_picture(const FlightPicture& picture,
                                            const std::string& reason) {
    FlightFindings findings;
    findings.lines = flight_lines(picture, kLines);
    if (picture.groups.empty())
        return findings;
    try {
        const OwnedFolder folder =
            OwnedFolder::make(run_dir_).folder("generation-" + std::to_string(generation_));
        const fs::path name = next_name(folder.path());
        const auto now = std::chrono::system_clock::now();
        folder.replace(name, flight_json(picture, findings.lines, generation_, reason, now));
        findings.path = folder.path() / name;
    } catch (const Error& error) {
        findings.lines.push_back(std::string("the file with all of it is missing: ") +
                                 error.what());
    }
    return findings;
}

}  // namespace autolaunch::launcher
