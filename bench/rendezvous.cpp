// rendezvous: how long many nodes take to join a job and to fence, and what that costs the head.
//
// This process is the head. It forks simulators, each with thousands of agents: the launcher's own
// MemberJoin and Member, every one with its own TCP connection over the loopback and its own TLS
// session. What is simulated is the latency of a network: each agent delays what it sends by a
// one-way latency, drawn once per agent between half and one and a half of the one given. Before it
// dials it waits for the seven one-way trips of a connection (SYN, SYN-ACK, two preambles, two
// flights of TLS, Join), so the head sees them as late as over a network; a Welcome, a command and
// a FenceDone are acted on one trip late, and a Fence leaves one trip late.
//
// Then, with --losses, a rank of one node dies, again and again: that agent tells the head, which
// tells all to leave the generation, hears from each that its ranks have, and begins the next: the
// head's own tally and table, each of its decisions. Nothing is simulated of the ranks themselves,
// which leave and start in no time, nor of the 10 ms in which a stop signal may come.
//
// And with --lost-nodes, so many agents end at once, which the kernel tells the head: it stops the
// ranks of the others, and begins the next generation of those that are left, as its own choice of
// nodes says. The second that the head waits for the ranks of a lost node to be dead is not in it.
// With --silence-ms those agents stand still instead (SIGSTOP, in a process of their own), and are
// lost when nothing was heard of them for so long.
//
// Prints one line of JSON.
#include "allocation/hostlist.hpp"
#include "control/control_security.hpp"
#include "control/job_key.hpp"
#include "rendezvous/environment_comparison.hpp"
#include "rendezvous/head_join.hpp"
#include "rendezvous/member_join.hpp"
#include "rendezvous/welcome.hpp"
#include "restart_policy/membership.hpp"
#include "supervise/generation_tally.hpp"
#include "supervise/job_table.hpp"
#include "tcp_traffic.hpp"

#include <autolaunch/error.hpp>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

struct Options {
    int nodes = 1024;  // the head included
    int ranks_per_node = 8;
    int simulators = 2;
    long latency_us = 0;
    long start_within_ms = 0;
    int fences = 3;
    int losses = 0;
    int lost_nodes = 0;   // at once, at the end
    long silence_ms = 0;  // after which they are lost; 0: they end
    // Processes with agents: one more for those that stand still.
    int processes() const { return simulators + (silence_ms > 0 ? 1 : 0); }
    bool is_of(int node, int process) const {
        const bool stands_still = silence_ms > 0 && node >= nodes - lost_nodes;
        return stands_still ? process == simulators : (node - 1) % simulators == process;
    }
    std::size_t blob_bytes = 0;
    int timeout_s = 120;
    std::string folder = "/tmp";  // for the key file
};

/// What the simulators tell the head's process, in memory that both see.
struct Shared {
    std::atomic<std::uint64_t> last_welcome_ns{0}, last_fence_ns{0};
    std::atomic<int> joined{0}, fenced{0}, failed{0};
    std::atomic<std::uint64_t> expand_ns{0};  // of one roster
    std::atomic<std::uint64_t> agent_cpu_us{0};
    // Of one loss: when the agent sent it, when the last one had the next generation, how many do;
    // and the generation in which a rank is to die.
    std::atomic<std::uint64_t> died_ns{0}, last_start_ns{0};
    std::atomic<int> started{0}, dies_in{-1};
    std::atomic<bool> nodes_die{false};  // and not a rank
};

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

void raise_to(std::atomic<std::uint64_t>& highest, std::uint64_t value) {
    std::uint64_t seen = highest.load();
    while (seen < value && !highest.compare_exchange_weak(seen, value)) {
    }
}

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::size_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t pages = 0;
    file >> pages >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<std::string> node_names(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i)
        names.push_back(fmt::format("node{:05}", i));
    return names;
}

JobIdentity identity() {
    JobIdentity identity{"bench/rendezvous", {}};
    for (std::uint16_t i = 0; i < 16; ++i)
        identity.ports.push_back(static_cast<std::uint16_t>(24'100 + 7 * i));
    return identity;
}

/// As where MUNGE hands the key over, it is random and lives no longer than the job, so TLS needs
/// no second secret. It goes through a file here: a daemon that opens thousands of credentials on
/// one machine would be what is measured.
KeyPlan key_plan(const std::string& folder) {
    KeyPlan plan;
    plan.shared_file = folder + "/key";
    return plan;
}

HeadKey head_key(const std::string& folder) {
    JobKey::Bytes bytes{};
    std::random_device random;
    for (auto& byte : bytes)
        byte = static_cast<std::uint8_t>(random());
    const JobKey key(JobKey::Source::run_directory, bytes);
    return {key, {}, KeyFile(key_plan(folder).shared_file, key), "a file"};
}

control::Join introduce(const std::string& name, int node, int ranks) {
    control::Join join;
    join.version = "bench";
    join.node_name = name;
    join.hostname = name;
    join.ranks = ranks;
    join.topology_address = fmt::format("core.leaf{}.{}", node / 32, name);
    join.environment_digest = digest_of(describe_environment({}));
    return join;
}

ControlConnectionOptions connection_options(const Options& given) {
    ControlConnectionOptions options;
    options.handshake_timeout = std::chrono::seconds(60);
    options.silence_limit = given.silence_ms > 0 ? std::chrono::milliseconds(given.silence_ms)
                                                 : std::chrono::milliseconds(60'000);
    return options;
}

// ---- the agents

class Simulator;

/// One node's agent, as far as the control plane goes.
class Agent {
public:
    Agent(Simulator& simulator, int node);
    void start();

private:
    void later(long trips, std::function<void()> act) { after(latency_ * trips, std::move(act)); }
    void after(microseconds pause, std::function<void()> act);
    void on_joined(MemberJoin::Outcome&& outcome);
    void fence(int generation);
    void begin_after_loss(int generation);
    void lose_rank(int generation);
    bool is_lost_node() const;

    Simulator& simulator_;
    int node_;
    int newest_ = -1;  // generation
    microseconds latency_;
    asio::steady_timer timer_;
    std::shared_ptr<MemberJoin> join_;
    std::unique_ptr<Member> member_;
};

/// The agents of one process.
class Simulator {
public:
    Simulator(const Options& options, Shared& shared, int index)
        : options_(options),
          shared_(shared),
          random_(static_cast<unsigned>(index + 1)),
          names_(node_names(options.nodes)),
          security_(ControlSecurity::for_node(io_, identity(), key_plan(options.folder))) {
        for (int node = 1; node < options.nodes; ++node)
            if (options.is_of(node, index))
                agents_.push_back(std::make_unique<Agent>(*this, node));
    }
    /// `go` is readable when the agents may start.
    void run(int go) {
        char byte = 0;
        if (::read(go, &byte, 1) != 1)
            return;
        start(0);
        io_.run();
        shared_.agent_cpu_us += static_cast<std::uint64_t>(cpu_seconds() * 1e6);
    }
    /// One after another, and between them what has happened meanwhile: each would have a machine
    /// of its own.
    void start(std::size_t index) {
        if (index == agents_.size())
            return;
        agents_[index]->start();
        asio::post(io_, [this, index] { start(index + 1); });
    }
    /// When the agent starts, after the first: a scheduler does not start all tasks in one instant.
    microseconds draw_start() {
        std::uniform_int_distribution<long> spread(0, options_.start_within_ms * 1000);
        return microseconds(spread(random_));
    }
    microseconds draw_latency() {
        std::uniform_int_distribution<long> spread(options_.latency_us / 2,
                                                   options_.latency_us * 3 / 2);
        return microseconds(spread(random_));
    }

    const Options& options_;
    Shared& shared_;
    asio::io_context io_{1};
    std::minstd_rand random_;
    std::vector<std::string> names_;
    std::shared_ptr<ControlSecurity> security_;
    std::vector<std::unique_ptr<Agent>> agents_;
};

Agent::Agent(Simulator& simulator, int node)
    : simulator_(simulator),
      node_(node),
      latency_(simulator.draw_latency()),
      timer_(simulator.io_) {}

void Agent::after(microseconds pause, std::function<void()> act) {
    if (pause.count() == 0)
        return act();
    timer_.expires_after(pause);
    timer_.async_wait([act = std::move(act)](const asio::error_code& error) {
        if (!error)
            act();
    });
}

void Agent::start() {
    constexpr int kAgentsPerAddress = 8192;  // a source address has 28,000 ports
    MemberJoin::Options options;
    options.search.hosts = {{"127.0.0.1", "the head", false}};
    options.search.ports = identity().ports;
    options.search.connection = connection_options(simulator_.options_);
    options.search.own_address =
        asio::ip::address_v4(asio::ip::address_v4::uint_type{0x7f000101} +
                             static_cast<unsigned>(node_ / kAgentsPerAddress));
    options.head_name = simulator_.names_[0];
    options.node_count = simulator_.options_.nodes;
    options.join = introduce(simulator_.names_[static_cast<std::size_t>(node_)], node_,
                             simulator_.options_.ranks_per_node);
    options.environment = describe_environment({});
    options.timeout = std::chrono::seconds(simulator_.options_.timeout_s);
    join_ = std::make_shared<MemberJoin>(simulator_.io_, simulator_.security_, std::move(options));
    after(simulator_.draw_start() + 7 * latency_, [this] {
        join_->start([this](MemberJoin::Outcome&& outcome) { on_joined(std::move(outcome)); });
    });
}

void Agent::on_joined(MemberJoin::Outcome&& outcome) {
    if (outcome.error) {
        ++simulator_.shared_.failed;
        try {
            std::rethrow_exception(outcome.error);
        } catch (const Error& error) {
            fmt::print(stderr, "node {}: {}\n{}\n", node_, error.what(), error.hint());
        }
        return;
    }
    member_ = std::move(outcome.member);
    join_.reset();
    member_->set_handlers(
        {.on_command =
             [this](const control::Command& command) {
                 const auto* start = std::get_if<control::StartGeneration>(&command);
                 const auto* leave = std::get_if<control::LeaveGeneration>(&command);
                 const auto* stop = std::get_if<control::StopRanks>(&command);
                 if (leave != nullptr || stop != nullptr) {
                     const int generation = leave != nullptr ? leave->generation : stop->generation;
                     later(2, [this, generation] {
                         control::RanksEnded ended;
                         ended.generation = generation;
                         member_->report(ended);
                     });
                 } else if (start != nullptr && simulator_.shared_.dies_in >= 0) {
                     member_->begin_generation(start->generation);
                     later(1, [this, number = start->generation] { begin_after_loss(number); });
                 } else if (start != nullptr) {
                     member_->begin_generation(start->generation);
                     later(2, [this, number = start->generation] { fence(number); });
                 } else if (std::holds_alternative<control::Finish>(command)) {
                     member_.reset();
                 }
             },
         .on_head_lost = [this](const std::string&) { ++simulator_.shared_.failed; }});
    // The roster is expanded once a process: on real nodes each does it on its own cores, at the
    // same time.
    if (node_ <= simulator_.options_.simulators) {
        const std::uint64_t start = now_ns();
        const Roster roster = read_welcome(outcome.welcome);
        raise_to(simulator_.shared_.expand_ns, now_ns() - start);
        if (roster.world_size() != simulator_.options_.nodes * simulator_.options_.ranks_per_node)
            ++simulator_.shared_.failed;
    }
    later(1, [this] {
        raise_to(simulator_.shared_.last_welcome_ns, now_ns());
        ++simulator_.shared_.joined;
        later(1, [this] { fence(0); });
    });
}

void Agent::fence(int generation) {
    member_->fence(
        generation, "fence", {}, std::string(simulator_.options_.blob_bytes, 'x'),
        [this](std::vector<std::pair<int, std::string>>&& blobs) {
            if (simulator_.options_.blob_bytes > 0 && blobs.size() + 1 < simulator_.names_.size())
                ++simulator_.shared_.failed;
            later(1, [this] {
                raise_to(simulator_.shared_.last_fence_ns, now_ns());
                ++simulator_.shared_.fenced;
            });
        });
}

void Agent::begin_after_loss(int generation) {
    Shared& shared = simulator_.shared_;
    raise_to(shared.last_start_ns, now_ns());
    control::GenerationRunning running;
    running.generation = generation;
    member_->report(running);
    ++shared.started;
    newest_ = generation;
    if (node_ == simulator_.options_.nodes / 2 || is_lost_node())
        lose_rank(generation);
}

// The last ones.
bool Agent::is_lost_node() const {
    return node_ >= simulator_.options_.nodes - simulator_.options_.lost_nodes;
}

// Once the head wants it; the node, where nodes are to be lost.
void Agent::lose_rank(int generation) {
    Shared& shared = simulator_.shared_;
    if (generation != newest_)
        return;  // the timer had gone off already
    if (shared.dies_in == generation && shared.nodes_die) {
        if (!is_lost_node())
            return;
        std::uint64_t none = 0;
        shared.died_ns.compare_exchange_strong(none, now_ns());
        if (simulator_.options_.silence_ms > 0)
            ::raise(SIGSTOP);  // all of this process
        return member_.reset();
    }
    if (shared.dies_in != generation || node_ != simulator_.options_.nodes / 2) {
        timer_.expires_after(std::chrono::milliseconds(1));
        timer_.async_wait([this, generation](const asio::error_code& error) {
            if (!error && member_)
                lose_rank(generation);
        });
        return;
    }
    control::RankFailed failed;
    failed.generation = generation;
    failed.hostname = simulator_.names_[static_cast<std::size_t>(node_)];
    failed.stderr_tail = std::string(500, 'x');
    simulator_.shared_.died_ns = now_ns();
    later(1, [this, failed] { member_->report(failed); });
}

// ---- the head

/// Milliseconds of one run, and what it cost.
struct Figures {
    double join_ms = 0, start_ms = 0;  // last Welcome; last FenceDone of the fence that follows
    std::vector<double> fence_ms;      // a command to all, a fence of all
    double head_cpu_s = 0;             // until the first fence was done
    double head_fences_cpu_s = 0;      // of all later ones
    std::vector<double> loss_ms;       // from a death to the last node's next generation
    double head_losses_cpu_s = 0;
    double lost_nodes_ms = 0, head_lost_nodes_cpu_s = 0;
    std::size_t resident_before = 0, resident_joined = 0, resident_end = 0;
    bench::TcpTraffic joined, fenced;
};

class HeadProcess {
public:
    HeadProcess(const Options& options, Shared& shared)
        : options_(options),
          shared_(shared),
          security_(ControlSecurity::for_head(identity(), head_key(options.folder))) {}

    Figures run(int go);

private:
    std::shared_ptr<HeadJoin> make_join();
    void fence(int generation);
    void go_through_losses(Figures& figures);
    void lose_nodes(Figures& figures);
    void begin_next_world();
    void on_node_lost(int node);
    void on_report(int node, control::Report&& report);
    void decide(JobEvent event);
    void run_until(const std::atomic<int>& count, int expected, const bool& own);

    const Options& options_;
    Shared& shared_;
    asio::io_context io_{1};
    std::shared_ptr<ControlSecurity> security_;
    HeadJoin::Outcome outcome_;
    bool fenced_ = false;
    // Of losses:
    JobState state_ = JobState::starting;
    int generation_ = 0;
    std::unique_ptr<GenerationTally> tally_;
    std::optional<Membership> members_;
};

std::shared_ptr<HeadJoin> HeadProcess::make_join() {
    HeadJoin::Options options;
    options.ports = identity().ports;
    options.connection = connection_options(options_);
    options.expectation.node_names = node_names(options_.nodes);
    options.expectation.node_count = options_.nodes;
    options.expectation.head =
        introduce(options.expectation.node_names[0], 0, options_.ranks_per_node);
    options.expectation.run_name = "bench";
    options.environment = describe_environment({});
    options.timeout = std::chrono::seconds(options_.timeout_s);
    return std::make_shared<HeadJoin>(io_, security_, std::move(options));
}

void HeadProcess::fence(int generation) {
    fenced_ = false;
    outcome_.member->begin_generation(generation);
    outcome_.member->fence(generation, "fence", {}, std::string(options_.blob_bytes, 'x'),
                           [this](auto&&) { fenced_ = true; });
}

void HeadProcess::run_until(const std::atomic<int>& count, int expected, const bool& own) {
    const auto limit = Clock::now() + std::chrono::seconds(options_.timeout_s);
    while ((count < expected || !own) && shared_.failed == 0 && Clock::now() < limit)
        io_.run_for(std::chrono::milliseconds(1));
    if (count < expected || !own)
        throw Error(ErrorCode::timeout, fmt::format("{} of {} agents, {} failed", count.load(),
                                                    expected, shared_.failed.load()));
}

void HeadProcess::decide(JobEvent event) {
    const JobTransition next = transition(state_, event);
    state_ = next.next;
    if (next.action == JobAction::terminate_ranks && members_)
        outcome_.head->command(
            control::StopRanks{.generation = generation_, .reason = "a node was lost"});
    else if (next.action == JobAction::terminate_ranks)
        outcome_.head->command(control::LeaveGeneration{generation_, "rank 3 failed", 30'000});
    if (next.action == JobAction::wait_to_restart)
        decide(JobEvent::wait_over);
    if (next.action == JobAction::start_generation && members_)
        return begin_next_world();
    if (next.action == JobAction::start_generation) {
        ++generation_;
        tally_ = std::make_unique<GenerationTally>(generation_, options_.nodes, Clock::now());
        outcome_.head->command(control::StartGeneration{generation_, "10.0.0.1", 29500, {}});
    }
}

void HeadProcess::on_report(int node, control::Report&& report) {
    const auto now = Clock::now();
    if (const auto* running = std::get_if<control::GenerationRunning>(&report)) {
        if (running->generation != generation_)
            return;
        tally_->running(node, *running, now);
        if (tally_->all_running())
            decide(JobEvent::started);
    } else if (auto* failed = std::get_if<control::RankFailed>(&report)) {
        tally_->failed(node, std::move(*failed), now);
        decide(JobEvent::rank_failed);
    } else if (auto* ended = std::get_if<control::RanksEnded>(&report)) {
        if (ended->generation != generation_)
            return;
        tally_->ended(node, std::move(*ended), now);
        if (tally_->all_ended())
            decide(JobEvent::all_ended);
    }
}

void HeadProcess::begin_next_world() {
    ++generation_;
    tally_ = std::make_unique<GenerationTally>(generation_, options_.nodes, Clock::now());
    const World world = members_->choose();
    for (int node = 0; node < options_.nodes; ++node)
        if (!members_->takes_part(node))
            tally_->leave_out(node);
    outcome_.head->command(control::StartGeneration{.generation = generation_,
                                                    .master_address = "10.0.0.1",
                                                    .master_port = 29500,
                                                    .ranks_per_node = world.ranks_per_node,
                                                    .order = world.order});
}

void HeadProcess::on_node_lost(int node) {
    if (!members_ || !members_->lose(node) || !members_->is_missed(node))
        return;
    tally_->lost(node);
    decide(JobEvent::node_missed);
    if (tally_->all_ended())
        decide(JobEvent::all_ended);
}

void HeadProcess::lose_nodes(Figures& figures) {
    std::vector<Membership::Node> nodes;
    for (const std::string& name : node_names(options_.nodes))
        nodes.push_back({name, options_.ranks_per_node});
    members_.emplace(MemberLimits{.fewest = 1, .most = options_.nodes}, nodes, options_.nodes);
    members_->choose();
    shared_.started = 0;
    shared_.died_ns = 0;
    shared_.nodes_die = true;
    const double cpu = cpu_seconds();
    shared_.dies_in = generation_;
    run_until(shared_.started, options_.nodes - 1 - options_.lost_nodes, true);
    while (state_ != JobState::running)
        io_.run_for(std::chrono::milliseconds(1));
    figures.head_lost_nodes_cpu_s = cpu_seconds() - cpu;
    figures.lost_nodes_ms = static_cast<double>(shared_.last_start_ns - shared_.died_ns) / 1e6;
}

// The head's own node answers at once.
void HeadProcess::go_through_losses(Figures& figures) {
    outcome_.head->set_handlers(
        {.on_report = [this](int node,
                             control::Report&& report) { on_report(node, std::move(report)); },
         .on_node_lost =
             [this](int node, const std::string&) {
                 if (members_)
                     on_node_lost(node);
                 else
                     ++shared_.failed;
             }});
    outcome_.member->set_handlers(
        {.on_command =
             [this](const control::Command& command) {
                 if (const auto* start = std::get_if<control::StartGeneration>(&command)) {
                     control::GenerationRunning running;
                     running.generation = start->generation;
                     outcome_.member->report(running);
                 } else if (std::holds_alternative<control::LeaveGeneration>(command) ||
                            std::holds_alternative<control::StopRanks>(command)) {
                     control::RanksEnded ended;
                     ended.generation = generation_;
                     outcome_.member->report(ended);
                 }
             },
         .on_head_lost = {}});
    shared_.dies_in = 0;
    generation_ = options_.fences;
    state_ = JobState::waiting;
    decide(JobEvent::wait_over);
    for (int loss = 0; loss < options_.losses; ++loss) {
        const bool own = true;
        run_until(shared_.started, options_.nodes - 1, own);
        while (state_ != JobState::running)
            io_.run_for(std::chrono::milliseconds(1));
        shared_.started = 0;
        const double cpu = cpu_seconds();
        shared_.dies_in = generation_;
        run_until(shared_.started, options_.nodes - 1, own);
        while (state_ != JobState::running)
            io_.run_for(std::chrono::milliseconds(1));
        figures.head_losses_cpu_s += cpu_seconds() - cpu;
        figures.loss_ms.push_back(static_cast<double>(shared_.last_start_ns - shared_.died_ns) /
                                  1e6);
    }
}

Figures HeadProcess::run(int go) {
    Figures figures;
    bool joined = false;
    const auto join = make_join();
    figures.resident_before = resident_bytes();
    const std::uint64_t start = now_ns();
    const double cpu = cpu_seconds();
    join->start([&](HeadJoin::Outcome&& outcome) {
        outcome_ = std::move(outcome);
        joined = true;
        figures.resident_joined = resident_bytes();
        if (!outcome_.error)
            fence(0);
    });
    for (int i = 0; i < options_.processes(); ++i)
        if (::write(go, "g", 1) != 1)
            throw SystemError(errno, "start the simulators");
    run_until(shared_.fenced, options_.nodes - 1, fenced_);
    const auto ms_since = [](std::uint64_t from, std::uint64_t to) {
        return static_cast<double>(to - from) / 1e6;
    };
    figures.join_ms = ms_since(start, shared_.last_welcome_ns);
    figures.start_ms = ms_since(start, shared_.last_fence_ns);
    figures.head_cpu_s = cpu_seconds() - cpu;
    figures.joined = bench::read_tcp_traffic(options_.nodes + 64);
    const double fences_from = cpu_seconds();
    for (int generation = 1; generation <= options_.fences; ++generation) {
        shared_.fenced = 0;
        const std::uint64_t begin = now_ns();
        outcome_.head->command(control::StartGeneration{generation, "10.0.0.1", 29500, {}});
        fence(generation);
        run_until(shared_.fenced, options_.nodes - 1, fenced_);
        figures.fence_ms.push_back(ms_since(begin, shared_.last_fence_ns));
    }
    figures.head_fences_cpu_s = cpu_seconds() - fences_from;
    figures.fenced = bench::read_tcp_traffic(options_.nodes + 64);
    figures.resident_end = resident_bytes();
    if (options_.losses > 0)
        go_through_losses(figures);
    if (options_.lost_nodes > 0)
        lose_nodes(figures);
    outcome_.head->command(control::Finish{});
    const auto limit = Clock::now() + std::chrono::seconds(options_.timeout_s);
    while (!outcome_.head->all_left() && Clock::now() < limit)
        io_.run_for(std::chrono::milliseconds(1));
    return figures;
}

void print(const Options& options, const Shared& shared, const Figures& figures) {
    const double nodes = options.nodes;
    const auto kib_per_node = [&](std::size_t bytes) {
        return static_cast<double>(bytes - figures.resident_before) / 1024 / nodes;
    };
    double best_fence = figures.fence_ms.empty() ? 0 : figures.fence_ms[0];
    std::string fences;
    for (const double ms : figures.fence_ms) {
        best_fence = std::min(best_fence, ms);
        fences += fmt::format("{}{:.1f}", fences.empty() ? "" : ", ", ms);
    }
    std::string losses;
    for (const double ms : figures.loss_ms)
        losses += fmt::format("{}{:.1f}", losses.empty() ? "" : ", ", ms);
    const double per_fence = std::max(1, options.fences);
    fmt::print(
        "{{\"nodes\": {}, \"ranks\": {}, \"latency_us\": {}, \"join_ms\": {:.1f}, \"start_ms\": "
        "{:.1f}, "
        "\"expand_ms\": {:.2f}, \"fence_ms\": [{}], \"head_cpu_s\": {:.3f}, \"agents_cpu_s\": "
        "{:.3f}, "
        "\"head_fence_cpu_s\": {:.4f}, "
        "\"head_kib_per_node\": {:.2f}, \"head_kib_per_node_at_rest\": {:.2f}, "
        "\"join_bytes_in\": {}, \"join_bytes_out\": {}, \"join_segments_in\": {}, "
        "\"join_segments_out\": {}, "
        "\"fence_bytes_in\": {:.0f}, \"fence_bytes_out\": {:.0f}, \"loss_ms\": [{}], "
        "\"head_loss_cpu_s\": {:.4f}, \"lost_nodes\": {}, \"lost_nodes_ms\": {:.1f}, "
        "\"head_lost_nodes_cpu_s\": {:.3f}, \"head_mib\": {:.1f}}}\n",
        options.nodes, options.nodes * options.ranks_per_node, options.latency_us, figures.join_ms,
        figures.start_ms, static_cast<double>(shared.expand_ns) / 1e6, fences, figures.head_cpu_s,
        static_cast<double>(shared.agent_cpu_us) / 1e6, figures.head_fences_cpu_s / per_fence,
        kib_per_node(figures.resident_joined), kib_per_node(figures.resident_end),
        figures.joined.bytes_in, figures.joined.bytes_out, figures.joined.segments_in,
        figures.joined.segments_out,
        static_cast<double>(figures.fenced.bytes_in - figures.joined.bytes_in) / per_fence,
        static_cast<double>(figures.fenced.bytes_out - figures.joined.bytes_out) / per_fence,
        losses, figures.head_losses_cpu_s / std::max(1, options.losses), options.lost_nodes,
        figures.lost_nodes_ms, figures.head_lost_nodes_cpu_s,
        static_cast<double>(resident_bytes()) / (1 << 20));
}

Options parse(int argc, char** argv) {
    Options options;
    if (const char* folder = std::getenv("TMPDIR"))
        options.folder = folder;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        const long value = std::atol(argv[i + 1]);
        if (name == "--nodes")
            options.nodes = static_cast<int>(value);
        else if (name == "--ranks")
            options.ranks_per_node = static_cast<int>(value);
        else if (name == "--simulators")
            options.simulators = static_cast<int>(value);
        else if (name == "--latency-us")
            options.latency_us = value;
        else if (name == "--start-within-ms")
            options.start_within_ms = value;
        else if (name == "--fences")
            options.fences = static_cast<int>(value);
        else if (name == "--losses")
            options.losses = static_cast<int>(value);
        else if (name == "--lost-nodes")
            options.lost_nodes = static_cast<int>(value);
        else if (name == "--silence-ms")
            options.silence_ms = value;
        else if (name == "--blob")
            options.blob_bytes = static_cast<std::size_t>(value);
        else if (name == "--timeout")
            options.timeout_s = static_cast<int>(value);
        else
            throw Error(ErrorCode::invalid_argument, fmt::format("unknown option {}", name));
    }
    if (options.lost_nodes > 0)
        options.losses = std::max(options.losses, 1);  // the generation that they are lost from
    if (argc % 2 == 0 || options.nodes < 2 || options.simulators < 1 ||
        options.lost_nodes > options.nodes - 2)
        throw Error(ErrorCode::invalid_argument,
                    "rendezvous --nodes N>=2 [--ranks R] [--simulators S] "
                    "[--latency-us L] [--start-within-ms M] [--fences F] [--losses L] "
                    "[--lost-nodes N [--silence-ms MS]] [--blob BYTES] [--timeout "
                    "SECONDS]");
    return options;
}

/// A connection a node, on either side.
void need_descriptors(int nodes) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto needed = static_cast<rlim_t>(nodes) + 128;
    if (limit.rlim_max < needed)
        throw Error(ErrorCode::system, fmt::format("{} descriptors are needed, {} are allowed",
                                                   needed, limit.rlim_max));
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int argc, char** argv) {
    const Options options = parse(argc, argv);
    need_descriptors(options.nodes);
    ::signal(SIGPIPE, SIG_IGN);
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw SystemError(errno, "share memory");
    auto& shared = *new (memory) Shared;
    int go[2];
    if (::pipe(go) != 0)
        throw SystemError(errno, "make a pipe");
    std::vector<pid_t> children;
    for (int index = 0; index < options.processes(); ++index) {
        const pid_t pid = ::fork();
        if (pid < 0)
            throw SystemError(errno, "fork");
        if (pid > 0) {
            children.push_back(pid);
            continue;
        }
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(go[1]);
        Simulator(options, shared, index).run(go[0]);
        ::_exit(0);
    }
    ::close(go[0]);
    std::exception_ptr failure;
    try {
        const Figures figures = HeadProcess(options, shared).run(go[1]);
        if (options.silence_ms > 0)
            ::kill(children.back(), SIGKILL);
        for (const pid_t pid : children)
            ::waitpid(pid, nullptr, 0);
        print(options, shared, figures);
    } catch (...) {
        failure = std::current_exception();
        for (const pid_t pid : children)
            ::kill(pid, SIGKILL);
    }
    if (failure)
        std::rethrow_exception(failure);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const Error& error) {
        fmt::print(stderr, "rendezvous: {}\n{}\n", error.what(), error.hint());
    } catch (const std::exception& error) {
        fmt::print(stderr, "rendezvous: {}\n", error.what());
    }
    return 1;
}
