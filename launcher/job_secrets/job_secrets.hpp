#pragma once
#include "control/member.hpp"
#include "job_secrets/secret_files.hpp"
#include "job_secrets/secret_supply.hpp"
#include "plan/launch_plan.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The secrets of a job on one node, read anew for each generation: files by this node, the rest
/// from the head, which asks once for all nodes. On the head's own node it is also who asks.
///
/// Owner: the agent; outlives the generations. Threads: the agent's one. Blocks: as files do.
class JobSecrets {
public:
    using Environment = std::map<std::string, std::string>;
    struct Handlers {
        /// What is to be masked from now on.
        std::function<void(const std::vector<std::string>&)> learned;
        std::function<void(const std::string&)> warn;
    };

    /// `sockets`: the agent's folder of sockets, which the folder of secrets is called after.
    JobSecrets(asio::io_context& io, const LaunchPlan& plan, Member& member,
               const std::filesystem::path& sockets, Environment environment);

    void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }
    /// On the head, before ranks of that generation are started: other nodes may ask.
    void serve(int generation);
    /// True once all that this node's ranks get is there; `then` is called after a false. Throws
    /// ExitError where one is not to be had.
    bool is_settled(int generation, std::function<void()> then);
    /// Adds its secrets to what the rank is started with. After is_settled() alone.
    void give(const RankPlan& rank, std::vector<std::string>& environment) const;
    /// Values that are masked where texts of ranks are shown.
    const std::vector<std::string>& masks() const { return masks_; }
    /// A process of this agent that no rank has left; -1: there is none.
    pid_t asking() const { return supply_.pid(); }

private:
    enum class Asked { nothing, waits, done };

    void begin(int generation);
    void read_files();
    void ask_head();
    void take(const std::vector<SecretAnswer>& answers);
    void ask_sources();
    void answer_all();
    void answer(int node, const std::vector<std::string>& names);
    void head_is_silent(const std::string& why);
    void refuse_if_missing() const;
    void write_files();
    void learn(const std::string& name, const std::string& value);
    std::vector<SecretSpec> wanted_here() const;

    const LaunchPlan& plan_;
    Member& member_;
    Environment environment_;
    Handlers handlers_;
    SecretFiles files_;
    std::vector<std::string> masks_;
    std::set<std::string> said_short_;

    // Of this node's ranks.
    int generation_ = -1;
    Asked asked_ = Asked::nothing;
    std::map<std::string, std::string> values_;
    std::map<std::string, std::string> paths_;  ///< of those that are given as files
    int written_ = -1;                          ///< the generation that they are of
    std::vector<SecretAnswer> failed_;
    std::function<void()> then_;
    asio::steady_timer timer_;

    // Of the head.
    int served_ = -1;
    Asked supplied_ = Asked::nothing;
    SecretSupply supply_;
    std::map<std::string, SecretAnswer> answers_;
    std::vector<std::pair<int, std::vector<std::string>>> waiting_;  ///< nodes, with names
};

/// Of this node's ranks: what files they get secrets from, and whether these can be trusted, before
/// anything starts. Throws ExitError.
void check_secret_files(const LaunchPlan& plan, const JobSecrets::Environment& environment);

}  // namespace autolaunch::launcher
