#pragma once
#include "lint/subject.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

enum class LintSeverity { info, warning, error };

/// What one rule found at one place.
struct RuleHit {
    int line = 0;
    std::string message;
    std::string fix = {};  ///< empty: the rule's own
};
using RuleHits = std::vector<RuleHit>;

struct Rule {
    std::string_view name;
    LintSeverity severity;
    std::string_view summary;  ///< one line, for the list
    std::string_view why;
    std::string_view fix;
    RuleHits (*check)(const Subject&);  ///< pure
};

// The table, a part for each subject. docs/lint.md is made from it.
std::span<const Rule> slurm_rules();
std::span<const Rule> launch_rules();
std::span<const Rule> elastic_rules();
std::span<const Rule> address_rules();
std::span<const Rule> shell_rules();
std::span<const Rule> array_rules();
std::span<const Rule> nccl_rules();
std::span<const Rule> conf_rules();
std::span<const Rule> spec_rules();

std::vector<Rule> all_rules();

}  // namespace autolaunch::launcher
