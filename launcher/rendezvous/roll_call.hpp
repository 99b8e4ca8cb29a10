#pragma once
#include "allocation/roster.hpp"
#include "control/control_message.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace autolaunch::launcher {

/// What the head knows of the job before anybody has come.
struct Expectation {
    std::vector<std::string>
        node_names;  ///< in node-rank order, the head's first; empty: only their number is known
    int node_count = 1;
    int fewest_nodes = 0;           ///< that the job may start with; 0: all of them
    bool keeps_node_order = false;  ///< no reordering by topology
    std::string spec_name;          ///< of the spec, for people: "train.yaml"; empty: "the options"
    std::string run_name;
    control::Join head;  ///< what the head itself brings
};

/// Why the job cannot start as it is, for the failing nodes' users: a sentence, and what to do.
struct Objection {
    std::string what, hint;
};

/// Who of the expected nodes has come, whether all run the same thing, and in which order they
/// count. Pure: it knows connections by a number.
///
/// Owner: the head, during the join. Threads: its one. Blocks: never.
class RollCall {
public:
    using Visitor = std::uint64_t;

    explicit RollCall(Expectation expectation);

    /// A node says who it is. `address` is where it comes from, for people.
    void enter(Visitor visitor, const std::string& address, const control::Join& join);
    /// Its connection ended: it may come again.
    void leave(Visitor visitor);

    std::size_t present() const {
        return by_place_.size() + 1;
    }  // the head is there from the first
    bool complete() const { return present() == static_cast<std::size_t>(expectation_.node_count); }
    /// The job may start without those who are missing.
    bool enough() const {
        return complete() || (expectation_.fewest_nodes > 0 &&
                              present() >= static_cast<std::size_t>(expectation_.fewest_nodes));
    }
    bool has_objections() const { return !objections_.empty(); }
    /// What stands against starting, all nodes of a kind in one sentence; empty: nothing.
    std::vector<Objection> objections() const;
    /// "node[3-4]"; where no names are known: "node ranks 2-3".
    std::string missing() const;

    struct Start {
        Roster roster;                  ///< self is 0
        std::vector<Visitor> visitors;  ///< by node rank; [0] means nothing
    };
    /// Once there are enough, and without objections.
    Start start() const;

private:
    struct Present {
        Visitor visitor = 0;
        std::string name, address, topology_address;
        int ranks = 1;
    };
    enum class Kind { program_version, program, spec, twice, stranger, impossible };

    std::optional<int> place_of(const control::Join& join) const;
    void compare(const control::Join& join);
    void object(Kind kind, const std::string& node, const std::string& detail);
    Objection objection(Kind kind, const std::map<std::string, std::string>& details) const;
    std::vector<int> places() const;
    std::vector<int> places_in_order() const;

    Expectation expectation_;
    std::unordered_map<std::string, int> place_by_name_;
    std::map<int, Present>
        by_place_;  // the place is the index in node_names, or the node rank that was chosen
    std::unordered_map<Visitor, int> place_by_visitor_;
    int next_free_place_ = 1;                                        // where neither is known
    std::map<Kind, std::map<std::string, std::string>> objections_;  // node and detail
};

}  // namespace autolaunch::launcher
