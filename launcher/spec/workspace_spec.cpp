#include "spec/job_spec.hpp"

namespace autolaunch::launcher {

Workspace workspace_of(const WorkspaceSpec& spec) {
    Workspace made;
    made.open_parents = spec.open_parents;
    if (spec.group_number)
        made.group = static_cast<gid_t>(*spec.group_number);
    if (spec.mode)
        made.folder = static_cast<mode_t>(*spec.mode);
    if (spec.most)
        made.folder &= static_cast<mode_t>(*spec.most);
    // An administrator's limit opens nothing that the umask closes.
    made.exact = spec.mode || spec.group_number || made.folder != Workspace().folder;
    return made;
}

}  // namespace autolaunch::launcher
