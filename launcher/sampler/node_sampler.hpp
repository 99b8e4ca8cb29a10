#pragma once
#include "base/unique_fd.hpp"
#include "report/event.hpp"
#include "sampler/sampler_messages.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace autolaunch::launcher {

/// How a node is measured, and what becomes of that.
struct SamplerSettings {
    bool enabled = false;
    SamplerOrder order = {};
    std::map<int, std::string> gpu_of_rank = {};  ///< PCI addresses
    std::chrono::milliseconds first{0};           ///< after ranks run: none of a short job's
    std::chrono::milliseconds silence{30'000};    ///< then it hangs, and is ended
    std::chrono::milliseconds pause{1'000};       ///< before it is started anew; doubled each time
    std::chrono::milliseconds longest_pause{60'000};
    std::string program = "/proc/self/exe";  ///< for tests
};

/// The agent's side of the process that measures its node: starts it once ranks run, tells it what
/// they reported, ends it when it hangs, and starts another, which is counted.
///
/// Owner: the agent, for the whole job. Threads: the main one. Blocks: for a start, and end() for a
/// second or two at most.
class NodeSampler {
public:
    struct Handlers {
        std::function<void(const std::string& text)> warn;
        std::function<void(const NodeMeasures&)> measured;
    };
    NodeSampler(asio::io_context& io, SamplerSettings settings, Handlers handlers);
    NodeSampler(const NodeSampler&) = delete;
    NodeSampler& operator=(const NodeSampler&) = delete;
    ~NodeSampler() { end(); }

    /// What the head knows of the whole job; nothing on other nodes.
    void set_job(std::function<std::optional<JobFacts>()> job) { job_ = std::move(job); }
    /// What happens on this node, as the report gets it.
    void note(const Happening& happening, int generation);
    /// Of another generation, perhaps: where ranks' GPUs are.
    void set_gpus(std::vector<WatchedGpu> gpus, std::map<int, std::string> gpu_of_rank);
    /// Lets it take back what others read of it, and ends it.
    void end();

    pid_t pid() const { return pid_; }          ///< -1: there is none
    int restarts() const { return restarts_; }  ///< for it hung, or was killed
    int started() const { return started_; }

private:
    void tell_input();
    void start_soon(std::chrono::milliseconds time);
    void start();
    void read();
    void take_lines();
    void take(const SamplerOutput& said);
    void send(const std::string& line);
    void watch();
    void lost(const std::string& why);
    void kill();
    void warn_once(const std::string& text);
    void note_step(const StepReported& step);

    SamplerSettings settings_;
    Handlers handlers_;
    std::function<std::optional<JobFacts>()> job_;
    asio::posix::stream_descriptor socket_;
    asio::steady_timer start_timer_, watch_timer_;
    pid_t pid_ = -1;
    UniqueFd pidfd_;
    std::chrono::steady_clock::time_point begun_, heard_at_;
    std::chrono::milliseconds pause_;
    bool wanted_ = false, over_ = false;
    int restarts_ = 0, started_ = 0, early_ends_ = 0;
    std::string heard_;
    std::array<char, 16384> bytes_{};
    std::set<std::string> warned_;
    AgentFacts facts_;
    struct StepMark {
        std::int64_t step = 0;
        std::chrono::steady_clock::time_point at;
    };
    std::map<int, StepMark> marks_;  ///< by rank
    struct InputTime {
        double waited = 0, passed = 0;  ///< seconds, since the sampler was told before
    };
    std::map<int, InputTime> input_;  ///< by rank: those that report it
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
