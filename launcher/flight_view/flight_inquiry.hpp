#pragma once
#include "control/control_message.hpp"
#include "control/head.hpp"
#include "flight_view/flight_lines.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What is shown of all ranks' flight recorders, and the file with the rest.
struct FlightFindings {
    std::vector<std::string> lines;
    FlightCulprit culprit = {};  ///< of a failure
    std::string path;            ///< empty: it could not be written, or there was nothing to write
};

/// The head's way to know where the ranks are: collects what nodes read from their ranks' flight
/// recorders, at a failure and when somebody asks, and writes it down.
///
/// Owner: JobSupervisor. Threads: the agent's one. Blocks: on the file system, where it writes.
class FlightInquiry {
public:
    using ShowFindings = std::function<void(const FlightFindings&)>;

    /// `show` gets what SIGUSR2 asked for. All must outlive it.
    FlightInquiry(asio::io_context& io, Head& head, std::filesystem::path run_dir,
                  ShowFindings show);

    void begin_generation(int generation, int node_count, int world_size);
    /// Signals to several nodes at once, as schedulers send them, make one inquiry.
    void asked();
    void heard(int node, control::FlightRead&& read);
    void node_lost(int node);
    /// What nodes told of this generation's failure, in which `failed_rank` was the first; nothing
    /// where no rank had a communicator. Once.
    FlightFindings take_failure(const std::string& reason, std::optional<int> failed_rank = {});
    void stop() { timer_.cancel(); }

private:
    using Clock = std::chrono::steady_clock;

    void conclude();
    FlightFindings write_down(std::vector<flight::RecordedRank>&& ranks, const std::string& reason,
                              bool at_failure, std::optional<int> failed_rank = {});

    Head& head_;
    const std::filesystem::path run_dir_;
    const ShowFindings show_;
    asio::steady_timer timer_;
    int generation_ = 0, world_size_ = 0;
    std::set<int> nodes_;    ///< that are left
    std::set<int> missing_;  ///< that have not answered yet; empty: no inquiry is under way
    int request_ = 0;        ///< the newest
    Clock::time_point asked_at_{};
    std::vector<flight::RecordedRank> answers_, at_failure_;
};

}  // namespace autolaunch::launcher
