#pragma once
#include "control/control_message.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The head's account of fences: who has contributed what, and which are complete. Pure: it knows
/// nodes by their rank, and the head does the talking. A contribution costs what it brings; nothing
/// is gone through once a node.
///
/// Owner: the head. Threads: its one. Blocks: never.
class FenceTable {
public:
    explicit FenceTable(int node_count) : node_count_(node_count) {}

    /// Another node has come: of no fence before the next generation.
    void grow(int node_count) { node_count_ = node_count; }

    struct Completed {
        std::string name;
        std::vector<int> nodes;                          ///< who waits for it; empty: all
        std::vector<std::pair<int, std::string>> blobs;  ///< those that are not empty, by node rank
    };
    /// Counts `node`'s contribution, and hands out the fence when it was the last. Throws
    /// Error{mismatch} for what a correct node never sends: a fence it is not in, a second
    /// contribution, another set of nodes than the others'.
    std::optional<Completed> contribute(int node, control::Fence&& fence);

    /// Forgets the fences of generations before this one, and drops what still comes for them.
    /// Nodes with 0 `ranks_per_node` take no part in it, nor in any fence; empty: as before.
    void begin_generation(int generation, const std::vector<int>& ranks_per_node = {});
    std::size_t pending() const { return pending_.size(); }

private:
    struct Pending {
        std::vector<int> nodes;
        std::vector<bool> seen;  // by node rank
        std::size_t missing = 0;
        std::vector<std::pair<int, std::string>> blobs;
    };
    Pending open(const control::Fence& fence) const;

    int node_count_;
    std::vector<bool> left_out_;  // by node rank; empty: none
    int generation_ = 0;
    std::map<std::pair<int, std::string>, Pending> pending_;  // by generation and name
};

}  // namespace autolaunch::launcher
