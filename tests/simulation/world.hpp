#pragma once
#include "checkpoint/commit/generation_start.hpp"
#include "generation/rank_table.hpp"
#include "simulation/invariants.hpp"
#include "simulation/planted_fault.hpp"
#include "simulation/schedule.hpp"
#include "stopping/stranded.hpp"
#include "succession/succession.hpp"
#include "supervise/job_table.hpp"
#include "supervise/node_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <variant>
#include <vector>

namespace simulation {

using autolaunch::launcher::RankEvent;
using autolaunch::launcher::RankState;
using autolaunch::launcher::RecordPointer;
using autolaunch::launcher::Voter;

class Agent;

inline constexpr int kLease = 2000, kMargin = 500, kBeat = 400, kPatience = 200, kGiveUp = 15'000;
/// Ms after a standstill, and its agent has killed its ranks.
inline constexpr int kKnowsBy = 60;
inline constexpr int kMostRanks = 2;

/// What an agent says to the head of its ranks, again and again.
struct Status {
    Voter from;
    autolaunch::launcher::Term term;  ///< that it obeys
    int generation = -1;
    bool running = false, ended = false, exited_zero = false;
    std::optional<autolaunch::launcher::Cause> failed;
};
/// And the head to agents.
struct Order {
    int generation = -1;
    bool kill = false;
};
/// One that was started again.
struct Hello {
    Voter from;
};
using Parcel = std::variant<autolaunch::launcher::succession::Message, Status, Order, Hello>;

/// The process of a rank.
struct Process {
    RankState state = RankState::planned;
    int generation = -1;
    std::uint32_t serial = 0;  ///< of what was announced for an earlier one nothing comes true
    bool is_deaf = false;      ///< it takes no notice of SIGTERM

    bool lives() const { return state != RankState::planned && state != RankState::ended; }
};

struct Machine {
    bool is_on = true;
    std::uint32_t start = 0;  ///< how often an agent was started here
    Voter voter;
    std::int64_t paused_until = 0, agent_paused_until = 0;
    std::int64_t stalled_until = 0;  ///< it stood still, and may not know yet what it has missed
    double rate = 1;                 ///< of its clock
    std::int64_t offset = 0, wake_at = -1;
    std::array<Process, kMostRanks> processes;
    std::unique_ptr<Agent> agent;  ///< null: none
};

enum class Kind : std::uint8_t {
    deliver,
    wake,
    start_rank,
    exit_rank,
    fail_rank,
    node_timer,
    job_timer,
    step,
    publish,
    note_start,
    requeue,
    keeper,
    link_lost,
    witness,
    hello,
    blow,
};

struct Event {
    std::int64_t at = 0;
    std::uint32_t order = 0;
    Kind kind = Kind::wake;
    std::int8_t machine = -1, other = 0;
    std::uint32_t start = 0;  ///< of the agent, or the serial number of what it is about
    std::int32_t number = 0, more = 0;
    bool operator<(const Event& later) const {
        return at != later.at ? at > later.at : order > later.order;
    }
};

/// Machines, a network, a shared file system and time: a queue of events of one schedule.
class World {
public:
    World(const Schedule& schedule, Planted planted, bool tells = false);
    ~World();
    /// To the end of the job. Throws Violation.
    void start();
    void run();
    void describe();

    const Schedule& schedule() const { return schedule_; }
    Planted planted() const { return planted_; }
    std::int64_t now() const { return now_; }
    /// A head writes its log, in the folder that all share.
    void write_log(int term, int generation, const std::string& event);
    /// It has given up for want of a majority, and may ask the scheduler for another start.
    void strand(int node, autolaunch::launcher::Stranded&& stranded, RecordPointer newest);
    autolaunch::launcher::succession::Moment clock(int machine) const;
    Machine& machine(int node) { return machines_[static_cast<std::size_t>(node)]; }
    Invariants& invariants() { return invariants_; }
    Dice& dice() { return dice_; }
    std::uint64_t events() const { return handled_; }

    void after(int ms, Event event);
    void send(int from, const Voter& to, Parcel&& parcel);
    void wake(int node);
    void apply(int node, int rank, RankEvent event);
    void claim(int node, int formed);
    void train(const RecordPointer& record);
    bool tells() const { return tells_; }
    void tell(const std::string& what) const;
    /// Nothing strikes any more, and the network works.
    bool is_calm() const;
    bool is_quiet() const { return blows_done_ == schedule_.blows.size(); }

private:
    void handle(const Event& event);
    bool is_deferred(const Event& event);
    void deliver(const Event& event);
    void strike(const BlowAt& blow);
    void stop_agent(int node);
    void start_agent(int node);
    void pause(int node, int ms);
    void exit_rank(int node, int rank, bool zero);
    void step(int generation);
    void try_to_requeue(int stranded);
    bool is_apart(int from, int node) const;
    bool refuses(const Voter& voter) const;
    bool may_go_on_elsewhere(int node) const;
    bool lives_elsewhere(int node) const;
    void load(int node);
    void check();
    int head_now() const;

    Schedule schedule_;
    Planted planted_;
    bool tells_;
    Dice dice_;
    Invariants invariants_;
    std::vector<Machine> machines_;
    std::vector<std::vector<bool>> cut_;  ///< from, to
    std::priority_queue<Event> queue_;
    std::vector<Parcel> parcels_;
    std::vector<std::int32_t> free_parcels_;
    std::int64_t now_ = 0;
    std::uint32_t order_ = 0;
    std::uint64_t handled_ = 0, sent_ = 0;
    std::size_t blows_done_ = 0;

    std::vector<autolaunch::Published> published_;     ///< that are in the directory
    std::vector<autolaunch::GenerationStart> starts_;  ///< and what fences them
    int looking_ = -1, noted_ = -1;                    ///< generations
    std::vector<std::pair<int, Voter>> witness_;       ///< Electorate::formed: whose file
    RecordPointer joined_;
    RecordPointer training_;  ///< the newest generation that trains
    std::int64_t step_ = 0;

    struct Waiting {
        int node = 0;
        std::uint32_t start = 0;
        std::int64_t since = 0;
        std::vector<std::int64_t> apart_since;  ///< of each node; -1: it is not
        autolaunch::launcher::Stranded what;
        RecordPointer newest;
    };
    std::vector<Waiting> stranded_;
    autolaunch::launcher::LogOfHeads log_;
    bool requeued_ = false;
};

/// What is wrong; nothing: all went well.
std::optional<std::string> run_schedule(const Schedule& schedule, Planted planted = Planted::none,
                                        std::uint64_t* events = nullptr, bool tells = false);
/// The fewest blows with which it still goes wrong.
std::vector<std::size_t> shrink(const Schedule& schedule, Planted planted);

}  // namespace simulation
