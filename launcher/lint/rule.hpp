#pragma once
#include "lint/edits.hpp"
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
    Edits edits = {};      ///< the fix as changes of the text, where it follows from the text
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
std::span<const Rule> habit_rules();
std::span<const Rule> elastic_rules();
std::span<const Rule> address_rules();
std::span<const Rule> checkpoint_rules();
std::span<const Rule> shell_rules();
std::span<const Rule> array_rules();
std::span<const Rule> nccl_rules();
std::span<const Rule> conf_rules();
std::span<const Rule> spec_rules();
std::span<const Rule> gpu_rules();
std::span<const Rule> admin_rules();
std::span<const Rule> metric_rules();
std::span<const Rule> file_rules();

std::vector<Rule> all_rules();

/// Of a file that is of no kind that is known here.
inline constexpr std::string_view kUnknownFileRule = "unknown-file";

}  // namespace autolaunch::launcher
