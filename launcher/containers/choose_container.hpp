#pragma once
#include "containers/container_facts.hpp"
#include "plan/container_choice.hpp"
#include "plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the choice is made of, besides the node.
struct ContainerNeeds {
    ContainerSpec spec;
    std::string run_dir, workdir;
    bool workdir_is_given = false;            ///< by trainer.workdir
    std::string checkpoint_dir;               ///< absolute; empty: none is named
    std::vector<std::string> tier_dirs = {};  ///< further places of checkpoints, the same
    std::string restore_dir = {};             ///< the same
    std::vector<std::string> key_files = {};  ///< of checkpoints, absolute
    bool uses_gpus = false;
    bool uses_ports = false;                         ///< several nodes: HCAs may be
    std::vector<std::string> secret_variables = {};  ///< that hold secrets themselves
    std::vector<std::string> variables = {};  ///< that the user or the plan has set for ranks
};

/// What ranks run in. Throws Error{invalid_argument} where the node has no such runtime, or cannot
/// tell whether the image is the one that is wanted. Pure.
ContainerChoice choose_container(const ContainerNeeds& needs, const ContainerFacts& facts);

/// What there is to say of it: folders that ranks do not see, GPUs that nothing passes on. Pure.
struct ContainerWords {
    std::vector<std::string> warnings, notes;
};
ContainerWords container_words(const ContainerNeeds& needs, const ContainerFacts& facts,
                               const ContainerChoice& choice);

/// Why a plan cannot be carried out in that container; empty: it can. Pure.
std::string why_not_in_container(const LaunchPlan& plan, const ContainerChoice& choice);

/// "name:tag" with a digest in the tag's place. Pure.
std::string with_digest(const std::string& image, const std::string& digest);

/// The line that starts a step in the image by pyxis: "srun --container-image=… …". Pure.
std::string pyxis_options(const ContainerSpec& spec);

}  // namespace autolaunch::launcher
