#include "policy/job_workspace.hpp"

#include "base/text.hpp"
#include "base/workspace.hpp"
#include "exit_codes/exit_error.hpp"
#include "policy/user_groups.hpp"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::uint32_t kGroupAtMost = 02750, kOwnerAlone = 0700;

SpecError mistake(const JobSpec& spec, const char* key, std::string message) {
    SpecError error;
    error.file = spec.spec_file.empty() ? "the command line" : spec.spec_file;
    error.key = key;
    error.message = std::move(message);
    return error;
}

void find_own_group(JobSpec& spec, std::vector<SpecError>& errors) {
    WorkspaceSpec& workspace = spec.workspace;
    if (workspace.group.empty())
        return;
    const GroupLookup group = group_number(workspace.group);
    if (group.answer == DatabaseAnswer::no_answer)
        throw ExitError(exit_code::kUnavailable, ErrorCode::system,
                        "whether there is a group " + workspace.group +
                            " (workspace.group) is not known: the system's database of groups "
                            "gave no answer",
                        "try again when `getent group " + workspace.group + "` answers");
    if (group.answer == DatabaseAnswer::none)
        return errors.push_back(mistake(
            spec, "workspace.group",
            "this node has no group " + workspace.group + ": getent group " + workspace.group));
    if (::geteuid() != 0 && !process_has_group(group.number))
        return errors.push_back(mistake(spec, "workspace.group",
                                        "you are not in the group " + workspace.group +
                                            " (id -Gn): name one of yours, or log in anew once you "
                                            "have been added to it"));
    workspace.group_number = group.number;
}

void isolate(JobSpec& spec, const JobSite& site, std::vector<SpecError>& errors) {
    const SiteSetting* setting = site.settings().find("data_security.data_isolation");
    const auto isolation = setting == nullptr ? std::nullopt : isolation_from(setting->value);
    if (!isolation || *isolation == Isolation::none)
        return;
    WorkspaceSpec& workspace = spec.workspace;
    workspace.most = *isolation == Isolation::only_owner ? kOwnerAlone : kGroupAtMost;
    workspace.most_by = "data_security.data_isolation: " + setting->value.text + " (" +
                        place_of(setting->value.at) + ")";
    if (workspace.mode && (*workspace.mode & ~*workspace.most) != 0)
        errors.push_back(mistake(spec, "workspace.mode",
                                 mode_text(*workspace.mode) + " lets in more than " +
                                     workspace.most_by +
                                     " does: " + mode_text(*workspace.most & 0777) + " at most"));
}

}  // namespace

void settle_workspace(JobSpec& spec, const JobSite& site, std::vector<SpecError>& errors) {
    find_own_group(spec, errors);
    isolate(spec, site, errors);
}

}  // namespace autolaunch::launcher
