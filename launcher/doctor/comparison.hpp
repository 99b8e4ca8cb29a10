#pragma once
#include "doctor/finding.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A finding, and the nodes that it is about.
struct NodesFinding {
    std::vector<std::string> nodes;  ///< in the order of node ranks
    Finding finding;
};

/// A fact in which the nodes of a job should agree.
struct ComparedFact {
    std::string_view key;
    std::string_view
        label;  ///< "driver", for "driver 535.104 where …"; empty: the check's name says it
    std::string_view check;  ///< whose severity and fix it has
    Severity severity;
};
std::span<const ComparedFact> compared_facts();

/// How a node's clock stands to the head's, and how far off that may be: half of the round trip
/// that told it.
struct ClockReading {
    std::chrono::microseconds offset{0}, uncertainty{0};
};

/// What only several nodes together show: "driver 535.104 where 15 others have 550.54", of node07.
/// The value of most nodes is the right one; where no value has more nodes than any other, every
/// node is named with its own. A node that does not know a fact is not counted. Pure; linear in
/// nodes and facts.
std::vector<NodesFinding> compare_nodes(std::span<const NodeReport> reports);
/// Clocks more than 100 ms off, as far as the readings can tell. By node rank, nothing where there
/// is no reading. Pure.
std::vector<NodesFinding> compare_clocks(std::span<const NodeReport> reports,
                                         std::span<const std::optional<ClockReading>> clocks);

/// The nodes' own findings, equal ones of several nodes together, in the order in which they were
/// first made. Pure.
std::vector<NodesFinding> gather_findings(std::span<const NodeReport> reports);
/// Worst first, otherwise as they are.
void sort_worst_first(std::vector<NodesFinding>& findings);

/// "node07", "node[03,07]", "node[1-4] and 12 others": short enough for a line. Pure.
std::string name_nodes(std::span<const std::string> nodes);

}  // namespace autolaunch::launcher
