#pragma once
#include "lint/rule.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What mistakes are in this script or spec? Reads text, executes nothing. docs/lint.md lists the
// rules.

inline constexpr std::size_t kMaxLintBytes = std::size_t{4} << 20;

struct LintRequest {
    std::string file;              ///< as the user named it; a spec's includes are relative to it
    std::string text;              ///< its content
    std::optional<FileKind> kind;  ///< else by content
    std::map<std::string, std::string> environment;  ///< for ${VAR} of a spec
    std::string cluster_text;                        ///< of --slurm-conf; empty without
    std::function<bool(const std::string&)> folder_exists = {};
    std::function<SaveTimes(const std::string& runs)> save_times = {};  ///< of the newest run there
    /// Of a spec that a script names.
    std::function<std::optional<ResourceSpec>(const std::string& spec)> resources_of = {};
};

struct LintFinding {
    std::string file;
    int line = 0;
    LintSeverity severity = LintSeverity::info;
    std::string rule, message, why, fix;
    Edits edits = {};  ///< the fix as changes of the file, where it follows from the text
};

/// By line. Lines that say `autolaunch-lint: ignore=RULE,…` silence those rules on themselves and
/// on the next line. Throws Error{invalid_argument} for a file above kMaxLintBytes; reads the files
/// that a spec includes; otherwise pure.
std::vector<LintFinding> lint(const LintRequest& request);

/// By content: #! and #SBATCH, KEY=VALUE lines of Slurm, expressions of Prometheus, sections of a
/// spec; the name decides where the content does not. `other` where neither does.
FileKind guess_kind(const std::string& file, std::string_view text);
/// "script", "spec", "gres.conf", "slurm.conf", "document", "metrics".
std::optional<FileKind> kind_from_name(std::string_view name);
std::string kind_names();
/// Of text that may be a part of slurm.conf or gres.conf; `other` for slurmdbd.conf.
std::optional<FileKind> kind_of_conf(std::string_view text);

const char* lint_severity_name(LintSeverity severity);
bool has_mistakes(const std::vector<LintFinding>& findings);  ///< warnings or errors

std::string findings_text(const std::vector<LintFinding>& findings);
std::string findings_json(const std::vector<LintFinding>& findings);
std::string rules_text();
std::string rules_markdown();
std::string rules_json();  ///< docs/lint.md ends with it

}  // namespace autolaunch::launcher
