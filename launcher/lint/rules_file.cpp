// Files that lint cannot judge.

#include "lint/rule.hpp"

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

RuleHits unknown_file(const Subject& subject) {
    if (subject.kind != FileKind::other)
        return {};
    const auto& lines = subject.source.lines;
    const bool of_site = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
        return line.starts_with("contact:");
    });
    return {{1,
             "this is neither a script for sbatch or a shell, nor a spec, nor another kind of file "
             "that lint knows: nothing in it was looked at",
             of_site ? "autolaunch policy show --site FILE, where it is the administrator's file"
                     : ""}};
}

constexpr std::array<Rule, 1> kFileRules = {{
    {kUnknownFileRule, LintSeverity::error, "a file that is neither spec nor script",
     "lint looks at scripts, specs, slurm.conf, gres.conf, Markdown, Prometheus' rules and "
     "configuration, Grafana's dashboards, and dcgm-exporter's CSV.",
     "name another file, or say with --kind what it is", unknown_file},
}};

}  // namespace

std::span<const Rule> file_rules() { return kFileRules; }

}  // namespace autolaunch::launcher
