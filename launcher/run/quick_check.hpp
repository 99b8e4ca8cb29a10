#pragma once
#include "control/node_check.hpp"
#include "doctor/check_runner.hpp"
#include "doctor/rail_probe.hpp"
#include "run/link_trial.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Between two generations: whether this node's GPUs and what reaches them are fit, by those of the
/// doctor's checks that take seconds; whether its neighbours answer, as the doctor asks rails; and
/// what becomes of data that all send to the next one at once.
///
/// Owner: run_job. Threads: the one that runs the context. Blocks: never. One check at a time; a
/// later one takes the place of one that is under way, which is not answered.
class QuickCheck {
public:
    using Done = std::function<void(NodeCheckResult result)>;

    /// `address` is this node's, as the others reach it.
    QuickCheck(asio::io_context& io, NodeSources sources, std::string address);
    /// Answers within kLimit.
    void start(const NodeCheckAsk& ask, Done done);

    static constexpr std::chrono::seconds kLimit{6};

private:
    void try_link(const NodeCheckAsk& ask);
    void go_on();
    void finish();
    bool reached(const std::string& address) const;

    asio::io_context& io_;
    NodeSources sources_;
    std::string address_;
    asio::steady_timer timer_;
    std::optional<CheckRunner> runner_;
    std::optional<RailProbe> probe_;
    std::vector<std::string> asked_;  ///< by probe_
    std::optional<LinkTrial> trial_;  ///< beyond our own end: the one before may still send
    std::optional<LinkTrial::Result> tried_;
    Deadline data_until_ = Deadline::after(std::chrono::seconds(0));
    NodeCheckAsk ask_;
    Done done_;
    int number_ = 0;  ///< of the check that is under way
    bool is_examined_ = false, has_asked_ = false, is_trying_ = false;
};

}  // namespace autolaunch::launcher
