#include "input/job_input.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kDrainBytes = std::size_t{64} << 10;

bool is_same_file(const std::string& path, int fd) {
    struct stat named {
    }, open{};
    return !path.empty() && ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
           named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

InputSituation situation_of(const LaunchPlan& plan, int fd) {
    InputSituation situation;
    situation.wish = plan.spec.trainer.input;
    situation.on_head = plan.node_rank == 0;
    situation.can_restart = plan.spec.restart.max_restarts > 0;
    situation.world_size = plan.world_size;
    // -c /dev/stdin: what came in there was the spec.
    if (!is_same_file(plan.spec.spec_file, fd))
        situation.kind = kind_of_input(fd);
    return situation;
}

bool is_here(const LaunchPlan& plan, int rank) {
    return std::any_of(plan.ranks.begin(), plan.ranks.end(),
                       [rank](const RankPlan& planned) { return planned.rank == rank; });
}

bool has_bytes_to_read(int fd, InputKind kind) {
    if (kind == InputKind::file) {
        struct stat status {};
        return ::fstat(fd, &status) == 0 && status.st_size > ::lseek(fd, 0, SEEK_CUR);
    }
    int waiting = 0;
    return kind == InputKind::stream && ::ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0;
}

UniqueFd open_terminal() { return UniqueFd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)); }

void check_debug_rank(const LaunchPlan& plan, bool in_stand_in) {
    const std::optional<int> rank = plan.spec.debug_rank;
    if (!rank || !is_here(plan, *rank))
        return;
    if (in_stand_in && *rank != plan.ranks.front().rank)
        throw Error(
            ErrorCode::invalid_argument,
            "rank " + std::to_string(*rank) + " runs in a task of its own, which has no terminal",
            "start one task a node: srun --ntasks-per-node=1");
    if (!open_terminal())
        throw Error(ErrorCode::invalid_argument,
                    "rank " + std::to_string(*rank) +
                        " is to get the terminal, but its node's autolaunch has none",
                    "start autolaunch in a terminal of that node, with ssh -t, or with srun --pty "
                    "for a rank of the first node");
}

}  // namespace

void check_input(const LaunchPlan& plan, bool in_stand_in) {
    const InputSituation situation = situation_of(plan, STDIN_FILENO);
    if (const InputObjection objection = object_to_input(situation); !objection.what.empty())
        throw Error(ErrorCode::invalid_argument, objection.what, objection.hint);
    const bool is_wanted =
        situation.wish.chosen && situation.wish.to != InputSpec::To::none && situation.on_head;
    if (is_wanted && is_same_file(plan.spec.spec_file, STDIN_FILENO))
        throw Error(ErrorCode::invalid_argument,
                    "stdin is to go to a rank, but the spec was read from it",
                    "give the spec as a file, or leave trainer.stdin and --stdin out");
    check_debug_rank(plan, in_stand_in);
}

JobInput::JobInput(const Place& place, int fd, std::size_t most_kept)
    : place_(place), fd_(fd), most_kept_(most_kept), situation_(situation_of(place.plan, fd)) {
    if (situation_.kind == InputKind::file)
        start_ = ::lseek(fd_, 0, SEEK_CUR);
    const std::optional<int> debugged = place_.plan.spec.debug_rank;
    if (debugged && is_here(place_.plan, *debugged)) {
        debug_terminal_ = open_terminal();
        terminal_rank_ = *debugged;
        terminal_.emplace(place_.io, debug_terminal_.get(), place_.shell);
    } else if (situation_.kind == InputKind::terminal && is_on_head() &&
               situation_.wish.to == InputSpec::To::rank && situation_.wish.chosen) {
        terminal_rank_ = situation_.wish.rank;
        terminal_.emplace(place_.io, fd_, place_.shell);
    }
    if (debugged && is_on_head() && has_bytes_to_read(fd_, situation_.kind))
        warn("stdin is not read: rank " + std::to_string(*debugged) + " has the terminal instead");
    if (!is_on_head()) {
        drain_copy();
        warn_of_unread();
    }
}

JobInput::~JobInput() { end(); }

bool JobInput::has_any() const {
    return is_on_head() && situation_.wish.to != InputSpec::To::none &&
           ((source_ && source_->has_read()) ||
            (situation_.kind == InputKind::file && has_bytes_to_read(fd_, InputKind::file)));
}

void JobInput::with_terminal(void (LentTerminal::*call)()) {
    if (terminal_)
        ((*terminal_).*call)();
}

void JobInput::warn(const std::string& text) { place_.member.report(control::NodeWarning{text}); }

// srun sends all of its stdin to every task, and stops at the first task that lets it pile up: the
// copies that nobody needs must be read all the same.
void JobInput::drain_copy() {
    if (place_.plan.slurm_job_id.empty() || !can_pile_up(fd_))
        return;
    if (!drain_)
        drain_ = std::make_unique<InputReader>(place_.io, fd_);
    for (;;) {
        drained_.clear();
        const InputState state = drain_->read(drained_, kDrainBytes);
        if (state == InputState::ended)
            return;
        if (state == InputState::nothing_yet)
            return drain_->wait([this] { drain_copy(); });
    }
}

void JobInput::warn_of_unread() {
    if (place_.plan.slurm_job_id.empty() && situation_.wish.to != InputSpec::To::none &&
        has_bytes_to_read(fd_, situation_.kind))
        warn("its stdin is not read: what comes in at the first node's autolaunch counts");
}

void JobInput::find_source(bool is_wanted) {
    if (!is_wanted)
        return;
    if (!source_)
        source_ = std::make_unique<InputSource>(
            place_.io, fd_, situation_.can_restart,
            InputSource::Handlers{
                .on_spent = [this] { place_.member.report(control::InputSpent{}); },
                .on_failure =
                    [this](const std::string& why) { warn("stdin cannot be read: " + why); }},
            most_kept_);
    if (!source_->begin())
        throw Error(ErrorCode::unsupported,
                    "what came in on stdin cannot be given to the ranks once more: it was more "
                    "than is kept of a pipe",
                    "give a file: < FILE");
}

void JobInput::begin(int generation) {
    end();
    generation_ = generation;
    for (const RankPlan& rank : place_.plan.ranks)
        ranks_.emplace(rank.rank, prepare(rank.rank));
    if (is_on_head())
        feed_nodes();
    std::vector<InputSink*> sinks;
    for (const auto& [rank, input] : ranks_)
        if (input.pipe)
            sinks.push_back(input.pipe.get());
    if (!is_on_head() && !sinks.empty())
        relayed_ = std::make_unique<RelayedInput>(sender(0));
    for (const auto& [node, sink] : nodes_)
        sinks.push_back(sink.get());
    if (!nodes_.empty() || relayed_)
        listen();
    find_source(is_on_head() && !sinks.empty() && situation_.kind != InputKind::nothing);
    InputSupply* supply = source_.get();
    if (relayed_)
        supply = relayed_.get();
    if (supply != nullptr && !sinks.empty())
        pump_ = std::make_unique<InputPump>(place_.io, *supply, std::move(sinks));
    else
        for (InputSink* sink : sinks)
            sink->finish();
    run();
}

JobInput::RankInput JobInput::prepare(int rank) {
    RankInput input;
    input.way = way_of_input(situation_, rank);
    if (input.way == InputWay::descriptor && situation_.kind == InputKind::file &&
        ::lseek(fd_, start_, SEEK_SET) < 0)
        throw SystemError(errno, "rewind stdin for rank " + std::to_string(rank));
    if (input.way == InputWay::own_file) {
        const std::string path = "/proc/self/fd/" + std::to_string(fd_);
        input.own_file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!input.own_file || ::lseek(input.own_file.get(), start_, SEEK_SET) < 0)
            input.way = InputWay::pipe;  // another user's file, which we may read and not open
    }
    if (input.way == InputWay::pipe)
        input.pipe = std::make_unique<PipeSink>(place_.io, [this] { run(); });
    return input;
}

void JobInput::feed_nodes() {
    for (const int node : nodes_fed(situation_.wish, place_.roster))
        nodes_.emplace(node, std::make_unique<NodeSink>(sender(node), [this] { run(); }));
    // Of a terminal the one who reads must be in its foreground.
    if (nodes_.empty() || !terminal_)
        return;
    ::signal(SIGTSTP, SIG_IGN);  // Ctrl-Z must not stop the agent
    terminal_->lend(::getpgrp());
}

NodeSink::Send JobInput::sender(int node) {
    return [this, node, generation = generation_](std::string message) {
        place_.member.relay(control::RelayChannel::input, generation, node, std::move(message));
    };
}

void JobInput::listen() {
    place_.member.on_relay(control::RelayChannel::input, generation_,
                           [this, generation = generation_](int node, std::string_view message) {
                               if (generation == generation_)
                                   hear(node, message);
                           });
}

// Who says what makes no sense is not listened to any more.
void JobInput::hear(int node, std::string_view message) {
    const auto sink = nodes_.find(node);
    try {
        if (relayed_ && node == 0)
            relayed_->hear(message);
        else if (sink != nodes_.end())
            sink->second->hear(message);
    } catch (const Error& error) {
        warn(std::string("stdin breaks off: ") + error.what());
        if (relayed_)
            relayed_->give_up();
        else
            sink->second->give_up();
        run();
    }
}

void JobInput::run() {
    if (pump_)
        pump_->run();
}

int JobInput::descriptor_for(int rank) const {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end())
        return -1;
    switch (found->second.way) {
        case InputWay::nothing:
            return -1;
        case InputWay::descriptor:
            return fd_;
        case InputWay::own_file:
            return found->second.own_file.get();
        case InputWay::pipe:
            return found->second.pipe->reading_end();
    }
    return -1;
}

int JobInput::terminal_for(int rank) const {
    return debug_terminal_ && rank == terminal_rank_ ? debug_terminal_.get() : -1;
}

bool JobInput::has_terminal(int rank) const { return terminal_ && rank == terminal_rank_; }

void JobInput::was_started(int rank, pid_t pid) {
    const auto found = ranks_.find(rank);
    if (found != ranks_.end() && found->second.pipe)
        found->second.pipe->was_given();
    if (has_terminal(rank))
        terminal_->lend(pid);
}

void JobInput::rank_ended(int rank) {
    if (has_terminal(rank))
        terminal_->take_back();
    const auto found = ranks_.find(rank);
    if (found == ranks_.end() || !found->second.pipe)
        return;
    found->second.pipe->close();
    run();
}

void JobInput::end() {
    pump_.reset();
    relayed_.reset();
    nodes_.clear();
    ranks_.clear();
    generation_ = -1;
    if (terminal_)
        terminal_->take_back();
}

}  // namespace autolaunch::launcher
