#pragma once
#include "readings/node_measures.hpp"
#include "readings/sample.hpp"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the nodes of a job measure, on its head: the newest of each, made into what the whole job
/// does and which nodes are unlike the others. Memory is bounded by the number of nodes.
///
/// Owner: the head. Threads: one. Pure.
class JobMeasures {
public:
    using Time = std::chrono::steady_clock::time_point;

    void add(const std::string& node, const NodeMeasures& measures, Time now);
    /// The node has no part in the job any more.
    void remove(const std::string& node) { nodes_.erase(node); }

    /// `nodes`: those that take part. Measures that are older than two of their spans, and 30 s,
    /// count no more: such a node is odd, where it had been heard before.
    JobSample sample(const std::vector<std::string>& nodes, Time now) const;

private:
    struct Newest {
        NodeMeasures measures;
        Time at;
    };
    std::map<std::string, Newest> nodes_;
};

}  // namespace autolaunch::launcher
