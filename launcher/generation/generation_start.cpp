#include "generation/generation.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "generation/contained_ranks.hpp"
#include "logs/line_prefix.hpp"
#include "session/environment.hpp"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <utility>

// How its ranks are started.

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostTracedPorts = 64;

// The shell makes way for the command, so that the rank's pid stays the one that was started.
std::vector<std::string> wrapped(const RankPlan& rank) {
    if (rank.wrap.empty())
        return rank.argv;
    const bool sets_variables =
        rank.wrap.substr(0, rank.wrap.find(' ')).find('=') != rank.wrap.npos;
    std::vector<std::string> argv{
        "/bin/sh", "-c", (sets_variables ? "exec env " : "exec ") + rank.wrap + " \"$@\"", "sh"};
    argv.insert(argv.end(), rank.argv.begin(), rank.argv.end());
    return argv;
}

// Of torchrun's template, where there is one.
std::string prefix_of(const LaunchPlan& plan, const RankPlan& rank) {
    return expand_prefix(plan.spec.logging.prefix_template,
                         {{"role_name", rank.role},
                          {"rank", std::to_string(rank.rank)},
                          {"local_rank", std::to_string(rank.local_rank)},
                          {"hostname", plan.hostname}});
}

}  // namespace

// What must be gone at the job's end. The store, with its port, is the head's.
void Generation::leave_trace() {
    if (node_.traces == nullptr)
        return;
    JobTraces& traces = *node_.traces;
    if (traces.last_generation < 0)
        traces.first_generation = number_;
    traces.last_generation = number_;
    if (node_.member.node_rank() != node_.member.head_node())
        return;
    if (traces.ports.size() == kMostTracedPorts)
        traces.ports.erase(traces.ports.begin());
    traces.ports.push_back(sockets_.facts.master_port);
}

bool Generation::can_start(const Inheritance& inherited, std::function<void()> then) {
    if (ranks_.empty())
        return true;
    starting_rank_ = ranks_.front().plan().rank;
    if (node_.secrets != nullptr && !node_.secrets->is_settled(number_, then))
        return false;
    if (node_.stage_in != nullptr && !node_.stage_in->is_settled(number_, then))
        return false;
    if (node_.stage_out != nullptr)
        node_.stage_out->make_folders();
    if (node_.packages != nullptr && !have_packages(then))
        return false;
    if (node_.python == nullptr)
        return true;
    const bool settled = node_.python->is_settled(
        [this, &inherited] { return interpreter_spec(inherited); }, std::move(then));
    report_python();
    return settled;
}

// Once, in the first generation: each interpreter of the job sees the same.
bool Generation::have_packages(const std::function<void()>& then) {
    HandOver& packages = *node_.packages;
    const bool settled = packages.is_settled(
        number_, [this] { return wanted_packages(plan_); }, then);
    if (settled && node_.python != nullptr)
        node_.python->use_copies(copies_of(packages, package_cache(plan_)));
    report_packages();
    return settled;
}

// Also while ranks run: whoever serves files in pieces may die.
void Generation::report_packages() {
    if (node_.packages == nullptr)
        return;
    for (std::string& note : node_.packages->take_notes())
        callbacks_.report(WarningRaised{std::move(note)});
}

// As the first rank's, without what belongs to a rank alone; the interpreter compares the rest.
ChildSpec Generation::interpreter_spec(const Inheritance& inherited) {
    ChildSpec spec = child_of(ranks_.front(), {}, {}, inherited);
    spec.stdin_fd = spec.stdout_fd = spec.stderr_fd = -1;
    if (!plan_.output.preload.empty())
        spec.environment.push_back(std::string(env::kStdout) + '=');
    if (plan_.mpi.mode != MpiMode::none && mpi_ == nullptr)
        start_mpi(inherited);
    if (mpi_)  // libraries read who has started them
        mpi_->prepare(ranks_.front().plan().local_rank, spec);
    return spec;
}

void Generation::report_python() {
    if (node_.python == nullptr)
        return;
    if (const auto ready = node_.python->take_ready())
        callbacks_.report(
            PythonPreloaded{.pid = node_.python->pid(),
                            .modules = ready->modules,
                            .took = ready->took,
                            .late = ready->late,
                            .as_before = plan_.spec.trainer.preload.how == PreloadSpec::How::unset,
                            .copies = ready->copies});
    for (std::string& note : node_.python->take_notes())
        callbacks_.report(WarningRaised{std::move(note)});
}

// For the next run, and for `plan`.
void Generation::record_python() {
    const auto walk = node_.python == nullptr ? std::nullopt : node_.python->take_walk();
    if (!walk)
        return;
    try {
        keep_preload_record(plan_, *walk);
    } catch (const Error& error) {
        callbacks_.report(
            WarningRaised{"trainer.preload: what was imported could not be recorded: " +
                          std::string(error.what())});
    }
}

bool Generation::start_next(const Inheritance& inherited) {
    const auto planned = [](const RankProcess& rank) { return rank.state() == RankState::planned; };
    const auto next = std::find_if(ranks_.begin(), ranks_.end(), planned);
    if (next == ranks_.end()) {
        report_python();
        record_python();
        return false;
    }
    starting_rank_ = next->plan().rank;
    if (plan_.mpi.mode != MpiMode::none && mpi_ == nullptr)
        start_mpi(inherited);
    start_rank(*next, inherited);
    return true;
}

void Generation::start_mpi(const Inheritance& inherited) {
    const auto kill = [this](int rank) {
        if (RankProcess* const found = find(rank))
            found->send(SIGKILL);
    };
    const MpiRanks::Context context{
        .io = node_.io,
        .plan = plan_,
        .roster = node_.roster,
        .member = node_.member,
        .socket_directory = node_.coordinator.socket_directory(),
        .generation = number_,
        .secret = secret_,
        .environment =
            rank_environment(plan_, plan_.ranks.front(), sockets_.facts, inherited.environment)};
    mpi_ = std::make_unique<MpiRanks>(
        context, patience(),
        MpiRanks::Callbacks{
            .warn = [this](const std::string& text) { callbacks_.report(WarningRaised{text}); },
            .kill = kill,
            .kill_all =
                [this, kill] {
                    for (const auto& rank : plan_.ranks)
                        kill(rank.rank);
                }});
}

ChildSpec Generation::child_of(const RankProcess& rank, const RankFiles& files,
                               const RankTerminals::Ends& terminals, const Inheritance& inherited) {
    const RankPlan& planned = rank.plan();
    const EnvironmentMap& environment = has_stand_in(planned.local_rank)
                                            ? stand_ins_->task(planned.local_rank).environment
                                            : inherited.environment;
    ChildSpec spec{.argv = wrapped(planned),
                   .environment = rank_environment(plan_, planned, sockets_.facts, environment),
                   .workdir = plan_.workdir,
                   .cpus = planned.binding.cpus,
                   .memory_nodes = planned.binding.memory_nodes,
                   .file_limit = inherited.file_limit,
                   .stdin_fd = no_input_.get(),
                   .stdout_fd = (terminals.out ? terminals.out : files.out).get(),
                   .stderr_fd = (terminals.err ? terminals.err : files.err).get()};
    spec.ignores_hangup = inherited.ignores_hangup;
    if (node_.stage_in != nullptr)
        node_.stage_in->give(spec.environment);
    if (node_.stage_out != nullptr)
        node_.stage_out->give(spec.environment);
    if (node_.input == nullptr)
        return spec;
    if (const int input = node_.input->descriptor_for(planned.rank); input >= 0)
        spec.stdin_fd = input;
    if (const int terminal = node_.input->terminal_for(planned.rank); terminal >= 0)
        spec.stdin_fd = spec.stdout_fd = spec.stderr_fd = terminal;
    return spec;
}

ChildMaker Generation::maker_for(int local_rank) const {
    if (node_.python != nullptr)
        return [python = node_.python](const ChildSpec& spec) { return python->start(spec); };
    if (node_.warm != nullptr)
        return [warm = node_.warm, local_rank](const ChildSpec& spec) {
            return warm->start(local_rank, spec);
        };
    return spawn_child;
}

void Generation::offer_to_spares(const RankProcess& rank, const ChildSpec& spec,
                                 std::vector<std::string> environment) {
    const int local_rank = rank.plan().local_rank;
    std::string why;
    if (node_.python != nullptr)
        why = "Python ranks are forked from a warm interpreter (trainer.preload)";
    else if (terminals_)
        why = "logging.stdio is pty, and a terminal is a rank's from its start";
    else if (with_input_.contains(rank.plan().rank))
        why = "it has the job's stdin from its start";
    else if (has_stand_in(local_rank))
        why = "it is started in another task of the scheduler";
    else if (spec.inherited_fd)
        why = "MPI gives it a descriptor at its start (PMI_FD)";
    if (!why.empty())
        return node_.warm->has_none(local_rank, why);
    node_.warm->rank_was_started(local_rank, spec, std::move(environment), rank.pid());
}

void Generation::see_spares() {
    if (node_.warm == nullptr)
        return;
    node_.warm->look();
    for (const auto& ready : node_.warm->take_ready())
        callbacks_.report(
            SpareReady{.local_rank = ready.local_rank, .pid = ready.pid, .took = ready.took});
    for (std::string& note : node_.warm->take_notes())
        callbacks_.report(WarningRaised{std::move(note)});
}

void Generation::start_rank(RankProcess& rank, const Inheritance& inherited) {
    if (!folder_)
        folder_ = open_generation_folder(plan_.run_dir, number_);
    give_back_room(plan_.run_dir, number_, rank.plan().rank);
    const RankFiles files = open_rank_files(*folder_, rank.plan().rank);
    const auto terminals = terminals_ ? terminals_->add_rank(files) : RankTerminals::Ends{};
    if (!no_input_)
        no_input_ = open_file("/dev/null", O_RDONLY);
    ChildSpec spec = child_of(rank, files, terminals, inherited);
    const bool has_input = spec.stdin_fd != no_input_.get();
    if (spec.stdin_fd != no_input_.get())
        with_input_.insert(rank.plan().rank);
    if (!plan_.output.preload.empty())
        spec.environment.push_back(std::string(env::kStdout) + '=' + file_identity(files.out));
    std::vector<std::string> without_mpi =
        node_.warm == nullptr ? std::vector<std::string>() : spec.environment;
    if (mpi_)
        mpi_->prepare(rank.plan().local_rank, spec);
    if (node_.secrets != nullptr)  // of this process alone: no interpreter and no spare has them
        node_.secrets->give(rank.plan(), spec.environment);
    if (plan_.container.wraps())
        contain(rank, spec, has_input);
    log_room_.add_rank(files);
    Child child;
    try {
        child = rank.start(spec, [this](RankProcess& ended) { on_end(ended); });
    } catch (...) {
        rank.apply(RankEvent::start_failed);
        throw;
    }
    rank.apply(RankEvent::started);
    if (node_.traces != nullptr)
        ++node_.traces->processes;
    if (mpi_)
        mpi_->was_started(rank.plan().rank, rank.plan().local_rank, rank.pid());
    if (node_.input != nullptr)
        node_.input->was_started(rank.plan().rank, rank.pid());
    follow_rank(rank, files);
    callbacks_.report(RankStarted{.rank = rank.plan().rank,
                                  .local_rank = rank.plan().local_rank,
                                  .pid = rank.pid(),
                                  .gpu = rank.plan().binding.gpu,
                                  .spare = node_.warm && node_.warm->was_spare(rank.pid())});
    if (node_.warm != nullptr)
        offer_to_spares(rank, spec, std::move(without_mpi));
    warn_about_placement(rank, child);
}

// Last of all: its environment is whole.
void Generation::contain(RankProcess& rank, ChildSpec& spec, bool has_input) {
    const RankPlace place{node_.coordinator.socket_directory(), number_, rank.plan().rank};
    spec = in_container(plan_, place, std::move(spec), has_input);
    if (plan_.container.runtime == kPodman)
        rank.set_pid_file(pid_file_of(place));
}

void Generation::follow_rank(const RankProcess& rank, const RankFiles& files) {
    follower_.add_rank(rank.plan().rank, rank.plan().local_rank, files,
                       prefix_of(plan_, rank.plan()));
}

}  // namespace autolaunch::launcher
