#include "cli/lint_files.hpp"

#include "base/file_io.hpp"
#include "cli/usage_error.hpp"
#include "lint/lint.hpp"
#include "report/exit_codes.hpp"

#include <filesystem>
#include <iterator>
#include <system_error>

namespace autolaunch::launcher {

namespace {

bool folder_exists(const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
}

}  // namespace

LintOutcome lint_files(const CommandLine& line, const std::map<std::string, std::string>& environment) {
    if (line.rules) return {line.markdown ? rules_markdown() : rules_text(), exit_code::kSuccess};
    LintRequest request;
    if (!line.lint_kind.empty()) {
        request.kind = kind_from_name(line.lint_kind);
        if (!request.kind)
            throw UsageError("--kind " + line.lint_kind + ": expected script, spec, gres.conf or slurm.conf");
    }
    if (!line.slurm_conf.empty()) request.cluster_text = read_file(line.slurm_conf);
    request.environment = environment;
    request.folder_exists = folder_exists;
    std::vector<LintFinding> all;
    for (const auto& file : line.program) {
        request.file = file;
        request.text = read_file(file);
        auto found = lint(request);
        all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
    }
    return {line.json ? findings_json(all) : findings_text(all),
            has_mistakes(all) ? exit_code::kFindings : exit_code::kSuccess};
}

}  // namespace autolaunch::launcher
