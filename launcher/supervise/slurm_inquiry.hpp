#pragma once
#include "allocation/slurm_command.hpp"
#include "spawn/command_wait.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What only Slurm knows of a job that has started: how long it had waited for its nodes, and how
/// long after its limit it may run. Asked once; no job waits for it, or fails without it.
///
/// Owner: the StopPlanner. Threads: the one that runs the context. Blocks: as SlurmCommand.
class SlurmInquiry {
public:
    struct Callbacks {
        std::function<void(std::chrono::seconds)> waited;
        std::function<void(std::chrono::minutes)> over_time;
    };

    SlurmInquiry(asio::io_context& io, std::string slurm_job_id, Callbacks callbacks);

    /// Does nothing outside Slurm, and when called again.
    void begin();
    /// Nobody wants to know any more.
    void stop();

private:
    void ask(std::vector<std::string> question, void (SlurmInquiry::*then)(const std::string&));
    void take_job(const std::string& answer);
    void take_partition(const std::string& answer);
    void take_config(const std::string& answer);

    std::string job_, partition_;
    Callbacks callbacks_;
    std::optional<SlurmCommand> question_;
    CommandWait wait_;
    bool asked_ = false;
};

}  // namespace autolaunch::launcher
