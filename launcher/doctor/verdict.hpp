#pragma once
#include "doctor/comparison.hpp"
#include "doctor/finding.hpp"
#include "report/text_style.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the doctor says of a node, or of a job's nodes together.
struct Verdict {
    std::vector<NodeReport> reports;     ///< by node rank
    std::vector<NodesFinding> findings;  ///< worst first
    bool has(Severity at_least) const;
};
/// Puts what the nodes found and what their comparison showed together. Pure.
Verdict judge(std::vector<NodeReport> reports, std::vector<NodesFinding> of_all_nodes = {});

/// A line for each finding. Pure.
std::string finding_lines(const std::vector<NodesFinding>& findings, bool several_nodes,
                          const TextStyle& style);
/// The screen: a line for each finding, worst first, then what was fine and what was not looked at.
/// Pure.
std::string verdict_screen(const Verdict& verdict, const TextStyle& style);
/// The same for programs: docs/doctor.md has the form. Pure.
std::string verdict_json(const Verdict& verdict);
/// One line for `scontrol update … Reason=`: "[node_problem] memlock: 8 MiB, needs unlimited (+2
/// more)", without quotes, line ends or bytes beyond ASCII. Empty where nothing is as bad as
/// `at_least`. Pure.
std::string health_line(const Verdict& verdict, Severity at_least);

}  // namespace autolaunch::launcher
