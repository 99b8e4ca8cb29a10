#pragma once
#include "spec/job_spec.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Within what the number of a job's nodes may change.
struct MemberLimits {
    std::optional<int> fewest = {};  ///< take part; nothing: every node is needed (node_limits.hpp)
    int most = 1;                    ///< take part
    int most_spares = 0;             ///< wait beside them
    int group = 1;                   ///< nodes that take part together or not at all
};

/// Those of the spec, of a job that began with `at_start` nodes and their spares. Pure.
MemberLimits member_limits(const JobSpec& spec, int at_start);

/// The nodes of one generation.
struct World {
    std::vector<int> ranks_per_node;  ///< by node; 0: takes no part
    std::vector<int> order;           ///< the nodes that take part, in the order of their ranks
    bool changed = false;             ///< not those of the generation before
    /// Names: not there any more or not fit; took no part in the generation before; wait.
    std::vector<std::string> without = {}, joining = {}, spares = {};

    int world_size() const;
};

/// Which of a job's nodes the next generation is of, and which wait as spares. A node is a number,
/// never given again: one that returns is a new one, of the same name. Nodes have seats, which say
/// in what order ranks are numbered: who stays keeps its seat, and who comes in takes a free one.
/// `limits.group` seats that follow each other are one group, which is whole or has no ranks.
///
/// Pure: it knows no sockets and no clocks. Owner: the head. Threads: one. Blocks: never.
class Membership {
public:
    struct Node {
        std::string name;
        int ranks = 1;  ///< that it starts where it takes part
    };
    enum class Standing { arriving, fit, lost, unfit, drained };

    /// The first `at_start` nodes take part. `head` is the one that the job cannot do without.
    Membership(MemberLimits limits, const std::vector<Node>& nodes, int at_start, int head = 0);

    /// As another head has left it: those of `order` have taken part, on the seats in that order,
    /// and `gone` are lost. Agents of `unfit` nodes, by name with the reason, may be there.
    void restore(const std::vector<int>& order, const std::vector<int>& gone,
                 const std::map<std::string, std::string>& unfit);
    /// By name, with the reason.
    const std::map<std::string, std::string>& unfit() const { return unfit_; }

    /// It is gone, or its scheduler has given it up. False: that was known.
    bool lose(int node);
    /// Somebody wants it out of the job. Why that cannot be; empty: the next generation is without.
    std::string drain(int node);
    /// It stays out for the rest of the job where the job can do without it. What is said of that.
    std::string leave_out(int node, const std::string& why);
    /// The same, by name with the reason, of nodes that are not there too; each is said once.
    std::vector<std::string> leave_out(const std::map<std::string, std::string>& unfit);
    /// It may take part again, if it was left out. True: its agent is there, and waits as a spare.
    bool take_back(const std::string& name);
    /// A node that has come to the running job. Why it is refused; empty: it has the last number
    /// (size() - 1), and arrives. Its name must not be present().
    std::string admit(const Node& node);
    /// It has arrived, and waits as a spare until the next generation. That is of more nodes for it
    /// where some are missing, or where all spares are there.
    void ready(int node);
    void set_head(int node) { head_ = node; }

    const Node& node(int number) const { return of(number).node; }
    int size() const { return static_cast<int>(members_.size()); }
    /// A node of that name is in the job.
    bool present(const std::string& name) const;
    /// In the newest generation.
    bool takes_part(int node) const;
    bool is_fit(int node) const { return of(node).standing == Standing::fit; }
    Standing standing(int node) const { return of(node).standing; }
    int lost_nodes() const;
    int spares_left() const { return fit_nodes() - taking_part(); }
    /// Enough are left without it.
    bool can_do_without(int node) const;
    bool can_do_without(const std::string& name) const;
    /// After lose(): the newest generation was of it, or the next one has too few without it.
    bool is_missed(int node) const;
    /// The next generation would be of more nodes than the newest is.
    bool can_grow() const;
    /// The newest of that name.
    std::optional<int> find(const std::string& name) const;

    /// The next generation's nodes; takes_part() is of them from now on.
    World choose();

private:
    struct Member {
        Node node;
        Standing standing = Standing::fit;
        bool kept_unfit = false;  ///< the job cannot do without it, which was said
    };
    static constexpr int kFree = -1;
    using Seats = std::vector<int>;  ///< the node on each

    const Member& of(int node) const { return members_[static_cast<std::size_t>(node)]; }
    Member& of(int node) { return members_[static_cast<std::size_t>(node)]; }
    int count(Standing standing) const;
    int fit_nodes() const { return count(Standing::fit); }
    int taking_part() const;
    bool is_enough(int fit) const;
    Seats next_seats() const;
    std::vector<int> groups_to_keep(const Seats& seats) const;
    World describe(const Seats& before) const;

    MemberLimits limits_;
    std::vector<Member> members_;
    std::map<std::string, std::string> unfit_;  ///< names of nodes, also of lost ones, and why
    Seats seats_;
    int wanted_;  ///< nodes; grows where more come than wait as spares
    int head_;
};

}  // namespace autolaunch::launcher
