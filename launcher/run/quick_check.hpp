#pragma once
#include "doctor/check_runner.hpp"
#include "doctor/rail_probe.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Between two generations: whether this node's GPUs and what reaches them are fit, by those of the
/// doctor's checks that take seconds, and whether a neighbour answers, as the doctor asks rails.
///
/// Owner: run_job. Threads: the one that runs the context. Blocks: never. One check at a time; a
/// later one takes the place of one that is under way, which is not answered.
class QuickCheck {
public:
    using Done = std::function<void(std::vector<std::string> failures, bool reached)>;

    QuickCheck(asio::io_context& io, NodeSources sources);
    /// `address` is numeric; empty: nobody is looked for. Answers within kLimit.
    void start(const std::string& address, Done done);

    static constexpr std::chrono::seconds kLimit{6};

private:
    void go_on();
    void finish();

    NodeSources sources_;
    asio::steady_timer timer_;
    std::optional<CheckRunner> runner_;
    std::optional<RailProbe> probe_;
    Done done_;
    bool is_examined_ = false, has_asked_ = false;
};

}  // namespace autolaunch::launcher
