#include "cli/checkpoint_places.hpp"

#include "plan/plan_checkpoint.hpp"

#include <filesystem>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

CheckpointRequest with_spec(CheckpointRequest request, const JobSpec& spec,
                            const std::string& current) {
    const fs::path workdir = fs::path(current) / spec.trainer.workdir;
    const CheckpointSpec& said = spec.checkpoint;
    if (request.paths.empty()) {
        const CheckpointSettings settings = checkpoint_settings(said, workdir);
        if (!said.checkpoint_dir.empty())
            request.paths.push_back((workdir / said.checkpoint_dir).lexically_normal());
        for (const TierSettings& tier : tiers_of(settings))
            request.paths.push_back(tier.place);
    }
    CheckpointKeys& keys = request.keys;
    const bool opens = request.action == CheckpointAction::verify;
    if (opens && keys.identity_file.empty() && keys.identity_command.empty() &&
        !said.identity_file.empty())
        keys.identity_file = workdir / said.identity_file;
    if (keys.authentication_key_file.empty() && keys.authentication_key_command.empty() &&
        !said.authentication_key_file.empty())
        keys.authentication_key_file = workdir / said.authentication_key_file;
    return request;
}

}  // namespace autolaunch::launcher
