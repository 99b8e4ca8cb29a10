#include "sampler/node_sampler.hpp"

#include "base/deadline.hpp"
#include "base/environment.hpp"
#include "base/file_io.hpp"
#include "sampler/sampler.hpp"
#include "spawn/spawn.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <asio/buffer.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {
namespace {

using std::chrono::steady_clock;

constexpr auto kLate = std::chrono::seconds(2);
constexpr auto kPartingTime = std::chrono::milliseconds(1500),
               kKillTime = std::chrono::milliseconds(200);
// One that ends so soon has not hung: something that it asks ends it.
constexpr auto kEarly = std::chrono::seconds(60);
constexpr int kMostEarlyEnds = 3;
constexpr std::size_t kMostHeard = 4U << 20, kMostWarnings = 100;

std::vector<std::string> environment_lines() {
    std::vector<std::string> lines;
    for (const auto& [name, value] : environment_of_process())
        lines.push_back(name + '=' + value);
    return lines;
}

std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

NodeSampler::NodeSampler(asio::io_context& io, SamplerSettings settings, Handlers handlers)
    : settings_(std::move(settings)),
      handlers_(std::move(handlers)),
      socket_(io),
      start_timer_(io),
      watch_timer_(io),
      pause_(settings_.pause) {}

void NodeSampler::set_gpus(std::vector<WatchedGpu> gpus, std::map<int, std::string> gpu_of_rank) {
    settings_.order.gpus = std::move(gpus);
    settings_.gpu_of_rank = std::move(gpu_of_rank);
}

void NodeSampler::note(const Happening& happening, int generation) {
    if (!settings_.enabled || over_)
        return;
    facts_.generation = generation;
    const auto of_rank = [this](int rank) {
        return std::find_if(facts_.ranks.begin(), facts_.ranks.end(),
                            [rank](const RankFacts& facts) { return facts.rank == rank; });
    };
    if (const auto* started = std::get_if<RankStarted>(&happening)) {
        if (const auto known = of_rank(started->rank); known != facts_.ranks.end())
            facts_.ranks.erase(known);
        marks_.erase(started->rank);
        input_.erase(started->rank);
        const auto gpu = settings_.gpu_of_rank.find(started->rank);
        facts_.ranks.push_back({.rank = started->rank,
                                .pid = started->pid,
                                .gpu = gpu == settings_.gpu_of_rank.end() ? "" : gpu->second});
        if (!std::exchange(wanted_, true))
            start_soon(settings_.first);
    } else if (const auto* ended = std::get_if<RankExited>(&happening)) {
        if (const auto known = of_rank(ended->rank); known != facts_.ranks.end())
            facts_.ranks.erase(known);
    } else if (const auto* step = std::get_if<StepReported>(&happening)) {
        note_step(*step);
    } else if (const auto* saved = std::get_if<CheckpointPublished>(&happening)) {
        facts_.checkpoint_step = saved->step;
        facts_.checkpoint_stall_seconds = saved->stall_seconds;
        facts_.checkpoint_save_seconds = saved->save_seconds;
        facts_.checkpoint_time_ms = now_ms();
        ++facts_.checkpoints;
    }
}

// Where a rank does not say how long a step took: the time between two reports, over the steps
// between them.
void NodeSampler::note_step(const StepReported& step) {
    const auto now = steady_clock::now();
    const auto known =
        std::find_if(facts_.ranks.begin(), facts_.ranks.end(),
                     [&](const RankFacts& facts) { return facts.rank == step.rank; });
    const auto [mark, is_first] = marks_.try_emplace(step.rank, StepMark{step.step, now});
    const StepMark before = std::exchange(mark->second, {step.step, now});
    std::optional<double> seconds = step.seconds;
    if (!seconds && !is_first && step.step > before.step)
        seconds = std::chrono::duration<double>(now - before.at).count() /
                  static_cast<double>(step.step - before.step);
    if (seconds)
        facts_.steps.add(step.rank, *seconds, now_ms());
    if (known == facts_.ranks.end())
        return;
    if (step.input_seconds && std::isfinite(*step.input_seconds) && !is_first) {
        const double passed = std::chrono::duration<double>(now - before.at).count();
        InputTime& input = input_[step.rank];
        input.waited += std::clamp(*step.input_seconds, 0.0, passed);
        input.passed += passed;
    }
    known->step = step.step;
    known->loss = step.loss;
    known->step_seconds = seconds;
    known->tokens_per_second.reset();
    if (step.tokens && seconds && *seconds > 0)
        known->tokens_per_second = static_cast<double>(*step.tokens) / *seconds;
}

// Of all reports since the sampler was told before; a step that is longer than that goes on as the
// one before it.
void NodeSampler::tell_input() {
    for (RankFacts& rank : facts_.ranks)
        if (const auto found = input_.find(rank.rank);
            found != input_.end() && found->second.passed > 0) {
            rank.input_ratio = found->second.waited / found->second.passed;
            found->second = {};
        }
}

void NodeSampler::start_soon(std::chrono::milliseconds time) {
    start_timer_.expires_after(time);
    start_timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
        if (!error && !alive.expired() && !over_)
            start();
    });
}

void NodeSampler::start() try {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw SystemError(errno, "make a pair of sockets");
    UniqueFd ours(ends[0]);
    const UniqueFd its(ends[1]), nowhere = open_file("/dev/null", O_RDWR);
    ChildSpec spec;
    spec.argv = {settings_.program, kSamplerArgument};
    spec.environment = environment_lines();
    spec.workdir = "/";
    spec.stdin_fd = its.get();
    spec.stdout_fd = spec.stderr_fd = nowhere.get();
    spec.deaf = true;
    Child child = spawn_child(spec);
    pid_ = child.pid;
    pidfd_ = std::move(child.pidfd);
    ++started_;
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    socket_.assign(ours.release());
    heard_.clear();
    begun_ = heard_at_ = steady_clock::now();
    settings_.order.restarts = facts_.sampler_restarts = restarts_;
    settings_.order.asks_nvidia = early_ends_ < kMostEarlyEnds;
    send(to_line(settings_.order));
    send(to_line(facts_));
    read();
    watch();
} catch (const Error& error) {
    lost(error.what());
}

void NodeSampler::send(const std::string& line) {
    if (!socket_.is_open())
        return;
    const ssize_t sent =
        ::send(socket_.native_handle(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // One that hangs does not read either; half a line would spoil the next.
    if (sent >= 0 && static_cast<std::size_t>(sent) < line.size())
        lost("it does not read");
}

void NodeSampler::read() {
    socket_.async_read_some(
        asio::buffer(bytes_),
        [this, alive = std::weak_ptr(alive_)](const std::error_code& error, std::size_t count) {
            if (error == asio::error::operation_aborted || alive.expired() || over_)
                return;
            if (error || heard_.size() > kMostHeard)
                return lost("it has ended");
            heard_at_ = steady_clock::now();
            heard_.append(bytes_.data(), count);
            read();
            take_lines();
        });
}

void NodeSampler::take_lines() {
    for (std::size_t end = 0; (end = heard_.find('\n')) != std::string::npos;) {
        const SamplerOutput said = parse_sampler_output(std::string_view(heard_).substr(0, end));
        heard_.erase(0, end + 1);
        take(said);
    }
}

void NodeSampler::take(const SamplerOutput& said) {
    if (std::get_if<SamplerAsks>(&said) != nullptr) {
        facts_.job = job_ ? job_() : std::nullopt;
        tell_input();
        send(to_line(facts_));
    } else if (const auto* warning = std::get_if<SamplerWarning>(&said)) {
        warn_once(warning->text);
    } else if (const auto* measured = std::get_if<SamplerMeasured>(&said)) {
        handlers_.measured(measured->measures);
    }
}

void NodeSampler::watch() {
    watch_timer_.expires_at(heard_at_ + settings_.silence);
    watch_timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
        if (error || alive.expired() || over_ || pid_ < 0)
            return;
        // This agent itself stood still, in a suspended job: it has not listened.
        if (steady_clock::now() > watch_timer_.expiry() + kLate)
            heard_at_ = steady_clock::now();
        if (steady_clock::now() < heard_at_ + settings_.silence)
            return watch();
        lost(fmt::format("it has said nothing for {:.0f} s",
                         std::chrono::duration<double>(settings_.silence).count()));
    });
}

void NodeSampler::lost(const std::string& why) {
    const bool is_early = steady_clock::now() - begun_ < kEarly;
    early_ends_ = is_early ? early_ends_ + 1 : 0;
    kill();
    if (over_)
        return;
    ++restarts_;
    warn_once(fmt::format("what measures this node was started anew: {}; {}/samples has a gap", why,
                          settings_.order.run_dir));
    if (early_ends_ == kMostEarlyEnds && !settings_.order.gpus.empty())
        warn_once("it ended soon each time: NVIDIA's driver is not asked any more");
    start_soon(pause_);
    pause_ = is_early ? std::min(pause_ * 2, settings_.longest_pause) : settings_.pause;
}

void NodeSampler::warn_once(const std::string& text) {
    if (warned_.size() < kMostWarnings && warned_.insert(text).second)
        handlers_.warn(text);
}

// One that is in the kernel dies when it can, and nobody waits for it.
void NodeSampler::kill() {
    std::error_code ignored;
    watch_timer_.cancel();
    socket_.close(ignored);
    if (pid_ < 0)
        return;
    ::kill(pid_, SIGKILL);
    const Deadline soon = Deadline::after(kKillTime);
    while (!reap_child(pid_, pidfd_.get()) && !soon.passed())
        ::usleep(1000);
    pid_ = -1;
    pidfd_.reset();
}

void NodeSampler::end() {
    if (std::exchange(over_, true))
        return;
    start_timer_.cancel();
    std::error_code ignored;
    socket_.close(ignored);  // it takes back its files, and exits
    const Deadline soon = Deadline::after(kPartingTime);
    while (pid_ >= 0 && !soon.passed()) {
        if (reap_child(pid_, pidfd_.get()))
            pid_ = -1;
        else
            ::usleep(1000);
    }
    kill();
}

}  // namespace autolaunch::launcher
