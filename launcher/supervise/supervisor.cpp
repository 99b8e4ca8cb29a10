#include "supervise/supervisor.hpp"

#include "base/text.hpp"
#include "report/exit_codes.hpp"
#include "spawn/file_limit.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kOutputInterval = std::chrono::milliseconds(20);
// A scheduler signals ranks and agent one after the other; this is how much later than theirs ours may come.
constexpr auto kDoubtTime = std::chrono::milliseconds(250);
constexpr auto kKillTimeout = std::chrono::seconds(30);
constexpr std::array kStopSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};

std::vector<int> stop_signals(const JobSpec& spec) {
    return spec.stop_signals.empty() ? std::vector<int>(kStopSignals.begin(), kStopSignals.end()) : spec.stop_signals;
}

bool contains(const std::vector<int>& numbers, int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

std::vector<int> handled_signals(const JobSpec& spec) {
    std::vector<int> signals = stop_signals(spec);
    for (const int signal : {SIGUSR1, SIGUSR2, SIGCHLD})
        if (!contains(signals, signal)) signals.push_back(signal);
    return signals;
}

int exit_code_of(const SpawnError& error) {
    switch (error.error_number()) {
        case ENOENT:
        case ENOTDIR:
            return error.stage() == SpawnStage::workdir ? exit_code::kNoInput : exit_code::kNotFound;
        case EACCES:
        case ENOEXEC:
        case EPERM:
            return exit_code::kCannotExecute;
        default:
            return exit_code::kSystem;
    }
}

std::chrono::milliseconds since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

// "2 set, 3 kept from your environment, 1 warning"; empty when there is nothing to say.
std::string describe_nccl(const NcclEnvironment& nccl) {
    std::string text;
    const auto add = [&](std::size_t count, const std::string& what) {
        if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + what;
    };
    add(nccl.set.size(), " set");
    add(nccl.kept.size(), " kept as you set them");
    add(nccl.warnings.size(), nccl.warnings.size() == 1 ? " warning" : " warnings");
    return text;
}

}  // namespace

Supervisor::Supervisor(const LaunchPlan& plan, const RunDirectory& run_dir, Coordinator& coordinator,
                       SupervisorOutput output, UniqueFd keeper_gone)
    : plan_(plan),
      run_dir_(run_dir),
      coordinator_(coordinator),
      output_(output),
      keeper_gone_(io_),
      grace_timer_(io_),
      restart_timer_(io_),
      output_timer_(io_),
      doubt_timer_(io_),
      generation_number_(run_dir.first_generation()) {
    if (keeper_gone) keeper_gone_.assign(keeper_gone.release());
}

int Supervisor::run(const EnvironmentMap& inherited) {
    inherited_ = {inherited, raise_file_limit()};
    started_at_ = std::chrono::steady_clock::now();
    ::signal(SIGPIPE, SIG_IGN);
    signals_.emplace(io_, handled_signals(plan_.spec), [this](int signal) { on_signal(signal); });
    watch_keeper();
    announce();
    start_generation();
    refresh_output();
    io_.run();
    return finish();
}

void Supervisor::announce() {
    JobStarted started;
    started.job_name = plan_.job_name;
    started.run_id = plan_.run_id;
    started.run_dir = plan_.run_dir;
    started.hostname = plan_.hostname;
    started.node_count = static_cast<int>(plan_.node_names.size());
    started.ranks_per_node = static_cast<int>(plan_.ranks.size());
    started.world_size = plan_.world_size;
    started.max_restarts = plan_.spec.restart.max_restarts;
    started.placement = describe_placement(plan_);
    started.nccl = describe_nccl(plan_.nccl);
    started.warnings = plan_.warnings;
    report(started);
}

void Supervisor::dispatch(JobEvent event) {
    const JobTransition next = transition(state_, event);
    state_ = next.next;
    act(next.action);
}

void Supervisor::act(JobAction action) {
    switch (action) {
        case JobAction::none:
            return;
        case JobAction::ask_ranks_to_stop:
            return ask_ranks_to_stop(RankEvent::user_stop, signal_name(outcome_.stop_signal.value_or(SIGTERM)));
        case JobAction::terminate_ranks:
            return ask_ranks_to_stop(RankEvent::peer_failed, "a rank failed");
        case JobAction::kill_ranks:
            return kill_ranks();
        case JobAction::wait_to_restart:
            return wait_to_restart();
        case JobAction::start_generation:
            return start_generation();
        case JobAction::finish:
            io_.stop();
            return;
    }
}

void Supervisor::start_generation() {
    failure_seen_ = kill_sent_ = over_ = in_doubt_ = false;
    outcome_.cannot_start_code.reset();
    outcome_.first_failure.reset();
    generation_.reset();  // its ports are free before the next ones are taken
    try {
        start_ranks();
        dispatch(JobEvent::started);
    } catch (const SpawnError& error) {
        const bool hopeless = exit_code_of(error) != exit_code::kSystem;
        cannot_start(exit_code_of(error), error.what(), error.hint(), !hopeless);
    } catch (const Error& error) {
        cannot_start(generation_ ? exit_code::kCannotCreate : exit_code::kUnavailable, error.what(), error.hint(),
                     false);
    }
    end_generation_if_over();
}

void Supervisor::start_ranks() {
    const auto begin = std::chrono::steady_clock::now();
    generation_ = std::make_unique<Generation>(
        io_, plan_, coordinator_, generation_number_, run_dir_.trainer_config_path(),
        Generation::Callbacks{.report = [this](Happening happening) { report(std::move(happening)); },
                              .rank_ended = [this] { on_rank_ended(); }});
    generation_->start(inherited_);
    report(GenerationStarted{.generation = generation_number_, .startup = since(begin)});
}

void Supervisor::cannot_start(int exit_code, const std::string& what, const std::string& hint, bool restart_helps) {
    outcome_.cannot_start_code = exit_code;
    report(SpawnFailed{.rank = generation_ ? generation_->starting_rank() : 0, .what = what, .hint = hint});
    failed_at_ = std::chrono::steady_clock::now();
    dispatch(restart_helps && restart_left() ? JobEvent::rank_failed : JobEvent::rank_failed_for_good);
}

void Supervisor::ask_ranks_to_stop(RankEvent how, const std::string& reason) {
    if (generation_ == nullptr || generation_->all_ended()) return;
    report(StopRequested{reason});
    generation_->apply_to_all(how);
    grace_timer_.expires_after(plan_.spec.restart.grace_period);
    grace_timer_.async_wait([this](const std::error_code& error) {
        if (!error) dispatch(JobEvent::grace_over);
    });
}

void Supervisor::kill_ranks() {
    if (generation_ == nullptr || kill_sent_) return;
    kill_sent_ = true;
    generation_->apply_to_all(RankEvent::kill);
    grace_timer_.expires_after(kKillTimeout);
    grace_timer_.async_wait([this](const std::error_code& error) {
        if (!error) give_up();
    });
}

// SIGKILL had no effect: the ranks hang in the kernel (a dead file system, a driver). Waiting longer helps nobody.
void Supervisor::give_up() {
    std::string pids;
    for (const pid_t pid : generation_->live_pids()) pids += " " + std::to_string(pid);
    report(WarningRaised{"these processes did not end 30 s after SIGKILL, and hang in the kernel:" + pids});
    gave_up_code_ = exit_code::kSystem;
    io_.stop();
}

void Supervisor::wait_to_restart() {
    ++restarts_;
    ++generation_number_;
    restart_timer_.expires_after(plan_.spec.restart.backoff);
    restart_timer_.async_wait([this](const std::error_code& error) {
        if (!error) dispatch(JobEvent::wait_over);
    });
}

void Supervisor::on_rank_ended() {
    last_end_at_ = std::chrono::steady_clock::now();
    const RankExited& ended = generation_->exits().back();
    if (is_failure(ended) && !failure_seen_ && state_ != JobState::stopping) {
        const auto signals = stop_signals(plan_.spec);
        const bool doubtful =
            std::any_of(signals.begin(), signals.end(), [&](int signal) { return looks_stopped_by(ended, signal); });
        if (!doubtful) {
            on_first_failure();
        } else if (!in_doubt_) {
            in_doubt_ = true;
            doubt_timer_.expires_after(kDoubtTime);
            doubt_timer_.async_wait([this](const std::error_code& error) {
                if (error) return;
                on_first_failure();
                end_generation_if_over();
            });
        }
    }
    end_generation_if_over();
}

void Supervisor::on_first_failure() {
    in_doubt_ = false;
    doubt_timer_.cancel();
    failure_seen_ = true;
    failed_at_ = std::chrono::steady_clock::now();
    outcome_.first_failure = generation_->first_failure();
    dispatch(restart_left() ? JobEvent::rank_failed : JobEvent::rank_failed_for_good);
}

void Supervisor::on_signal(int signal) {
    if (signal == SIGCHLD) return reap_orphans(generation_ ? generation_->live_pids() : std::vector<pid_t>{});
    if (!contains(stop_signals(plan_.spec), signal)) {
        if (generation_ == nullptr) return;
        return signal == SIGUSR1 ? generation_->request_checkpoint(signal) : generation_->forward(signal);
    }
    const bool again = stop_asked_;
    stop_asked_ = true;
    in_doubt_ = false;
    doubt_timer_.cancel();
    if (state_ != JobState::failing && !outcome_.stop_signal) outcome_.stop_signal = signal;
    dispatch(again ? JobEvent::stop_asked_again : JobEvent::stop_asked);
    end_generation_if_over();
}

// Posted, because a rank's or a signal's handler may be below us on the stack.
void Supervisor::end_generation_if_over() {
    if (over_ || in_doubt_ || (generation_ && !generation_->all_ended()) || state_ == JobState::waiting) return;
    over_ = true;
    asio::post(io_, [this] {
        grace_timer_.cancel();
        if (generation_) {
            generation_->finish(output_.console);
            if (const auto step = generation_->checkpoint_step()) checkpoint_step_ = step;
            outcome_.has_checkpoint = checkpoint_step_.has_value();
            if (failure_seen_) report_generation_failure();
            const auto& exits = generation_->exits();
            outcome_.every_rank_exited_zero =
                exits.size() == plan_.ranks.size() &&
                std::all_of(exits.begin(), exits.end(), [](const RankExited& e) { return e.exit_code == 0; });
        }
        dispatch(JobEvent::all_ended);
    });
}

void Supervisor::report_generation_failure() {
    GenerationFailed failed = generation_->describe_failure();
    failed.stopped_others_in = std::chrono::duration_cast<std::chrono::milliseconds>(last_end_at_ - failed_at_);
    failed.max_restarts = plan_.spec.restart.max_restarts;
    failed.checkpoint_step = checkpoint_step_;
    if (state_ == JobState::restarting) failed.restart_number = restarts_ + 1;
    report(std::move(failed));
}

void Supervisor::watch_keeper() {
    if (!keeper_gone_.is_open()) return;
    keeper_gone_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& error) {
        if (error) return;
        outcome_.keeper_gone = true;
        dispatch(JobEvent::keeper_gone);
        end_generation_if_over();
    });
}

void Supervisor::refresh_output() {
    if (generation_) generation_->follow_logs(output_.console);
    output_.reporter.tick();
    output_.console.pump();
    output_timer_.expires_after(kOutputInterval);
    output_timer_.async_wait([this](const std::error_code& error) {
        if (!error) refresh_output();
    });
}

void Supervisor::report(Happening happening) {
    output_.reporter.handle(
        {.at = std::chrono::system_clock::now(), .generation = generation_number_, .what = std::move(happening)});
}

int Supervisor::finish() {
    ExitDecision decision = decide_exit(outcome_);
    if (gave_up_code_) decision = {*gave_up_code_, "failed: processes that hang in the kernel are left"};
    report(JobEnded{
        .exit_code = decision.code, .outcome = decision.outcome, .restarts = restarts_, .ran = since(started_at_)});
    return decision.code;
}

}  // namespace autolaunch::launcher
