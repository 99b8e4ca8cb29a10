#pragma once
#include "control/control_message.hpp"
#include "control/head.hpp"
#include "flight_view/flight_lines.hpp"
#include "flight_view/flight_picture.hpp"

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
    /// What the nodes answered, and how many have not.
    using Answer = std::function<void(std::vector<flight::RecordedRank>&&, std::size_t)>;

    /// `show` gets what SIGUSR2 asked for. All must outlive it.
    FlightInquiry(asio::io_context& io, Head& head, std::filesystem::path run_dir,
                  ShowFindings show);

    void begin_generation(int generation, int node_count, int world_size);
    /// Signals to several nodes at once, as schedulers send them, make one inquiry.
    void asked();
    /// For `then`, which gets what all nodes answer in time. An inquiry that is under way serves
    /// it.
    void ask(Answer then);
    /// What a person is to know of it, and the file with all of it.
    FlightFindings write_picture(const FlightPicture& picture, const std::string& reason);
    void heard(int node, control::FlightRead&& read);
    void node_lost(int node);
    /// What nodes told of this generation's failure, in which `failed_rank` was the first; nothing
    /// where no rank had a communicator. Once.
    FlightFindings take_failure(const std::string& reason, std::optional<int> failed_rank = {});
    void stop() { timer_.cancel(); }

private:
    using Clock = std::chrono::steady_clock;

    void conclude();

    Head& head_;
    const std::filesystem::path run_dir_;
    const ShowFindings show_;
    asio::steady_timer timer_;
    int generation_ = 0, world_size_ = 0;
    std::set<int> nodes_;           ///< that are left
    std::set<int> missing_;         ///< that have not answered yet; empty: no inquiry is under way
    int request_ = 0;               ///< the newest
    Clock::time_point asked_at_{};  ///< by SIGUSR2
    std::vector<Answer> thens_;     ///< who wants the answers
    std::vector<flight::RecordedRank> answers_, at_failure_;
};

}  // namespace autolaunch::launcher
