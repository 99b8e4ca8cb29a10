#pragma once
#include "base/text.hpp"
#include "lint/lint.hpp"
#include "require.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Any file that a user has: findings at lines that it has, whose changes can be made or not, and
/// which are JSON. Of which kind it is says its name, which is the first line. Aborts where that is
/// not so. How many were found.
inline std::size_t check_lint_bytes(std::string_view bytes) {
    using fuzz::require;
    const std::size_t end = bytes.find('\n');
    if (end == bytes.npos)
        return 0;
    LintRequest request;
    request.file = "given/" + std::string(bytes.substr(0, end));
    request.text = bytes.substr(end + 1);
    request.folder_exists = [](const std::string&) { return true; };
    const auto kind = guess_kind(request.file, request.text);
    if (kind == FileKind::spec && request.text.find("include") != std::string::npos)
        return 0;  // it would read other files
    if (kind != FileKind::slurm_conf)
        request.cluster_text = "NodeName=n[1-2] CPUs=8 Gres=gpu:2\nPartitionName=a Nodes=ALL\n";
    const auto findings = lint(request);
    const auto lines = static_cast<int>(split(request.text, '\n').size());
    for (const LintFinding& finding : findings) {
        require(finding.line >= 0 && finding.line <= lines && !finding.rule.empty());
        if (!finding.edits.empty())
            require(apply_edits(request.text, finding.edits).has_value());
    }
    require(nlohmann::json::accept(findings_json(findings)));
    findings_text(findings);
    return findings.size();
}

}  // namespace autolaunch::launcher
