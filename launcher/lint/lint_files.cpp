#include "lint/lint_files.hpp"

#include "base/read_at_most.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "lint/lint.hpp"
#include "lint/spec_file.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace autolaunch::launcher {

namespace {

bool folder_exists(const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
}

SaveTimes save_times(const std::string& runs) {
    return SaveTimes::read(std::filesystem::path(runs) / "latest");
}

std::optional<ResourceSpec> resources_of(const std::string& spec,
                                         const std::map<std::string, std::string>& environment) {
    try {
        const SpecFile file = read_spec_file(spec, read_at_most(spec, kMaxLintBytes), environment);
        return file.readable() ? std::optional(file.result.spec.resources) : std::nullopt;
    } catch (const Error&) {  // it is elsewhere: the script is not looked at where it runs
        return std::nullopt;
    }
}

}  // namespace

LintOutcome lint_files(const LintFilesRequest& asked,
                       const std::map<std::string, std::string>& environment) {
    if (asked.rules)
        return {asked.json       ? rules_json()
                : asked.markdown ? rules_markdown()
                                 : rules_text(),
                exit_code::kSuccess};
    LintRequest request;
    if (!asked.kind.empty()) {
        request.kind = kind_from_name(asked.kind);
        if (!request.kind)
            throw UsageError("--kind " + asked.kind + ": expected " + kind_names());
    }
    if (!asked.slurm_conf.empty())
        request.cluster_text = read_at_most(asked.slurm_conf, kMaxLintBytes);
    request.environment = environment;
    request.folder_exists = folder_exists;
    request.save_times = save_times;
    request.resources_of = [&](const std::string& spec) { return resources_of(spec, environment); };
    std::vector<LintFinding> all;
    for (const auto& file : asked.files) {
        request.file = file;
        request.text = read_at_most(file, kMaxLintBytes);
        auto found = lint(request);
        all.insert(all.end(), std::make_move_iterator(found.begin()),
                   std::make_move_iterator(found.end()));
    }
    const bool unread = std::any_of(all.begin(), all.end(), [](const LintFinding& finding) {
        return finding.rule == kUnknownFileRule;
    });
    return {asked.json ? findings_json(all) : findings_text(all), unread ? exit_code::kBadData
                                                                  : has_mistakes(all)
                                                                      ? exit_code::kFindings
                                                                      : exit_code::kSuccess};
}

}  // namespace autolaunch::launcher
