#pragma once
#include "control/member.hpp"
#include "hand_over/mover_process.hpp"
#include "plan/launch_plan.hpp"
#include "report/event.hpp"
#include "stage_out/out_folder.hpp"
#include "stage_out/out_words.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What the head wants of all nodes when the last generation has ended.
struct OutRound {
    int generation = 0;  ///< the newest that began
    OutEnd end = OutEnd::unknown;
    std::chrono::milliseconds within{0};
    std::map<int, std::string> nodes;  ///< that had ranks in it, and are there: their names
    std::function<void(Happening)> report;
    std::function<void()> then;  ///< once, from within the loop
};
/// Something stays on a node's disk.
struct OutFailure {
    int exit_code = 0;
    std::string node, what;
};

/// What ranks write on this node's own disk: folders from before the first generation on, the same
/// over all of them; and at the job's end the copying, by a process beside the agent. The head asks
/// all nodes for it, and knows what came of it before it says how the job ended. A node that leaves
/// before that (it was drained, or has lost the head) copies its own by itself.
///
/// Owner: the agent; outlives the generations. Threads: its one, the main one. Blocks: while the
/// copier is started and ended, while the local disk makes some folders, and finish_alone().
class StageOut {
public:
    StageOut(asio::io_context& io, const LaunchPlan& plan, Member& member, std::string node);
    StageOut(const StageOut&) = delete;
    StageOut& operator=(const StageOut&) = delete;
    ~StageOut();

    /// Who is told of what happens on this node alone, from within the loop.
    void set_report(std::function<void(Happening)> report) { report_ = std::move(report); }
    /// A generation begins here: the head may ask from then on.
    void listen(int generation);
    /// Before its ranks start; once for all. Throws ExitError.
    void make_folders();
    /// Adds where they are to what a rank is started with; what the user has set himself stays.
    void give(std::vector<std::string>& environment) const;
    /// Its helper's process, to be left alone; 0: there is none.
    pid_t pid() const { return copier_ ? copier_->pid() : 0; }
    int started() const { return started_; }

    // On the head.
    void begin_round(OutRound round);
    bool is_in_round() const { return round_.has_value(); }
    /// Somebody stops the job meanwhile: less time.
    void hurry(std::chrono::milliseconds within);
    /// A node is gone, and what is on it stays there.
    void lose(int node, const std::string& name);
    /// One that was gone before the round.
    void leave_lost(const std::string& name);
    const std::vector<OutFailure>& failures() const { return failures_; }

    /// When this agent leaves: what nobody has asked it for. The exit code; 0: nothing is left that
    /// should have gone. `say` gets lines for the console.
    int finish_alone(OutEnd end, std::chrono::milliseconds most,
                     const std::function<void(const std::string&)>& say);
    /// finish_alone() is to end at once.
    void cut();

private:
    enum class State { idle, copying, over };

    void hear(int node, std::string_view text);
    void hear_ask(int head, const OutAsk& ask);
    void hear_node(int node, const OutWord& word);
    void copy(OutEnd end, std::chrono::milliseconds within);
    void hear_copier(const std::string& line);
    void limit(std::chrono::milliseconds within);
    void run_out_of_time();
    void copier_is_lost(const std::string& why);
    void give_up_rest(const std::string& why, const std::string& hint, int exit_code);
    void tell(OutWord word);
    void send(OutWord word);
    void settle();
    void show(const std::string& node, const OutProgress& progress);
    void finish(const std::string& node, const OutWord& word, const OutDone& done);
    void leave(const std::string& node, DataLeft left);
    void end_round_if_over();
    std::string command_for(const std::string& job) const;
    const OutItem* item_of(const std::string& name) const;

    asio::io_context& io_;
    const LaunchPlan& plan_;
    Member& member_;
    const std::string node_;
    std::function<void(Happening)> report_ = [](Happening) {};
    int generation_ = -1;
    State state_ = State::idle;
    int started_ = 0;
    std::optional<OutFolder> folder_;
    std::optional<MoverProcess> copier_;
    asio::steady_timer deadline_, round_deadline_;
    std::chrono::steady_clock::time_point until_{};
    int asked_by_ = -1;                          ///< the head that has asked last
    std::vector<OutDone> told_;                  ///< for one that follows it
    bool is_alone_ = false;                      ///< finish_alone() has the word
    std::map<std::string, OutProgress> wanted_;  ///< that are not done yet, by name
    // On the head.
    std::optional<OutRound> round_;
    std::set<int> waiting_;
    std::vector<OutFailure> failures_;
    std::chrono::steady_clock::time_point shown_at_{};
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
