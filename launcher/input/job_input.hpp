#pragma once
#include "control/member.hpp"
#include "input/input_plan.hpp"
#include "input/input_pump.hpp"
#include "input/input_source.hpp"
#include "input/lent_terminal.hpp"
#include "input/node_streams.hpp"
#include "input/pipe_sink.hpp"
#include "plan/launch_plan.hpp"

#include <asio/io_context.hpp>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

/// What this node's agent knows of stdin when it plans. Throws Error where the user's wish cannot
/// be granted: a terminal for all, what was the spec, a debugged rank without a terminal.
/// `in_stand_in`: ranks from 1 up run in tasks of their own.
void check_input(const LaunchPlan& plan, bool in_stand_in);

/// The stdin of this node's ranks, generation by generation. On the head it goes on feeding other
/// nodes after the last of its own ranks has ended.
///
/// Owner: the agent. Threads: its one, where SIGPIPE and SIGTTOU are ignored. Blocks: never.
class JobInput {
public:
    /// All must outlive it.
    struct Place {
        asio::io_context& io;
        const LaunchPlan& plan;
        Member& member;
        const Roster& roster;
        ShellJob shell = {};
    };
    /// Throws SystemError.
    explicit JobInput(const Place& place, int fd = 0,
                      std::size_t most_kept = InputSource::kKeptBytes);
    JobInput(const JobInput&) = delete;
    JobInput& operator=(const JobInput&) = delete;
    ~JobInput();

    /// Before the first rank of a generation starts. Throws Error when what was read in an earlier
    /// one cannot be given again.
    void begin(int generation);
    /// The node whose stdin is the job's is gone, or may be: ranks of later generations get none.
    void lose_source() { situation_.wish.to = InputSpec::To::none; }
    /// Something of it was read, or can be: without this node it is not there.
    bool has_any() const;
    /// What it starts with as its stdin; -1: nothing comes.
    int descriptor_for(int rank) const;
    /// The terminal, for a rank that is debugged: all its standard streams; else -1.
    int terminal_for(int rank) const;
    void was_started(int rank, pid_t pid);
    void rank_ended(int rank);
    /// Ctrl-C at the terminal reaches it, and not autolaunch.
    bool has_terminal(int rank) const;

    void on_child_change() { with_terminal(&LentTerminal::see_stop); }
    void on_continue() { with_terminal(&LentTerminal::go_on); }

private:
    struct RankInput {
        InputWay way = InputWay::nothing;
        UniqueFd own_file;
        std::unique_ptr<PipeSink> pipe;
    };

    void end();
    void with_terminal(void (LentTerminal::*call)());
    void warn(const std::string& text);
    void drain_copy();
    void warn_of_unread();
    void find_source(bool is_wanted);
    RankInput prepare(int rank);
    void feed_nodes();
    void listen();
    void hear(int node, std::string_view message);
    NodeSink::Send sender(int node);
    void run();
    bool is_on_head() const { return place_.member.node_rank() == 0; }

    const Place place_;
    const int fd_;
    const std::size_t most_kept_;
    InputSituation situation_;
    off_t start_ = 0;  ///< of a file, where it stood at first
    UniqueFd debug_terminal_;
    std::optional<LentTerminal> terminal_;
    int terminal_rank_ = -1;

    std::unique_ptr<InputSource> source_;  ///< on the head, once something is to be copied
    std::unique_ptr<InputReader> drain_;
    std::string drained_;

    int generation_ = -1;
    std::map<int, RankInput> ranks_;
    std::map<int, std::unique_ptr<NodeSink>> nodes_;
    std::unique_ptr<RelayedInput> relayed_;
    std::unique_ptr<InputPump> pump_;
};

}  // namespace autolaunch::launcher
