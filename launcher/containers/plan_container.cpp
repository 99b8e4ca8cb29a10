#include "containers/plan_container.hpp"

#include "base/environment.hpp"
#include "base/refuse.hpp"
#include "containers/choose_container.hpp"
#include "plan/plan_checkpoint.hpp"
#include "plan/rank_environment.hpp"
#include "python_module/plan_python_module.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace autolaunch::launcher {

namespace {

constexpr const char* kPythonPath = "PYTHONPATH";

std::string absolute(const std::string& path, const std::string& workdir) {
    return path.empty() ? path
                        : (std::filesystem::path(workdir) / path).lexically_normal().string();
}

// Of a place of checkpoints, or of one in it; nothing of a bucket.
std::string folder_of(const std::filesystem::path& path) {
    if (!path.is_absolute())
        return {};
    return (path.filename().string().starts_with("step-") ? path.parent_path() : path).string();
}

// Files may be named as the user sees them.
std::string absolute_image(const std::string& image, const std::string& workdir) {
    const bool is_path =
        image.starts_with("./") || image.starts_with("../") ||
        (image.find("://") == image.npos && (image.ends_with(".sif") || image.ends_with(".sqsh")));
    return is_path ? absolute(image, workdir) : image;
}

ContainerNeeds needs_of(const LaunchPlan& plan) {
    ContainerNeeds needs{
        .spec = plan.spec.container,
        .run_dir = plan.run_dir,
        .workdir = plan.workdir,
        .workdir_is_given = !plan.spec.trainer.workdir.empty(),
        .checkpoint_dir = absolute(plan.spec.checkpoint.checkpoint_dir, plan.workdir)};
    const auto told = checkpoint_settings(plan.spec.checkpoint, plan.workdir);
    for (const TierSettings& tier : tiers_of(told))
        needs.tier_dirs.push_back(folder_of(tier.place));
    needs.restore_dir = folder_of(told.restore_from);
    needs.spec.image = absolute_image(needs.spec.image, plan.workdir);
    const CheckpointSpec& checkpoint = plan.spec.checkpoint;
    for (const std::string* file :
         {&checkpoint.signing_key, &checkpoint.identity_file, &checkpoint.authentication_key_file})
        if (!file->empty())
            needs.key_files.push_back(absolute(*file, plan.workdir));
    needs.uses_gpus = plan.gpu_count > 0;
    needs.uses_ports = plan.node_count > 1;
    for (const auto& [name, value] : plan.spec.trainer.env)
        needs.variables.push_back(name);
    for (const SecretSpec& secret : plan.spec.given_secrets) {
        needs.variables.push_back(secret.name);
        if (secret.as == SecretSpec::As::environment)
            needs.secret_variables.push_back(secret.name);
    }
    for (const StagedItem& item : plan.staging.items)
        needs.variables.push_back(item.variable);
    for (const OutItem& item : plan.staging.out)
        needs.variables.push_back(item.variable);
    needs.variables.emplace_back(kPythonPath);
    return needs;
}

// What the user has in his own is of the node.
void set_python_path(LaunchPlan& plan, const std::string& folder) {
    const auto users = plan.spec.trainer.env.find(kPythonPath);
    const std::string own = users == plan.spec.trainer.env.end() ? "" : users->second;
    for (RankPlan& rank : plan.ranks)
        for (VariableChoice& variable : rank.environment)
            if (variable.name == kPythonPath)
                variable.value = folder.empty() ? own : python_path(own, folder).value_or(own);
}

// Whoever asks for MPI knows that the image has one.
void set_mpi(LaunchPlan& plan) {
    if (plan.spec.trainer.mpi != "auto")
        return;
    plan.mpi.mode = MpiMode::none;
    plan.mpi.reason =
        "what the program in the image is linked with is not looked at; trainer.mpi: pmix says it";
}

// Each rank of a user's podman is in a user namespace of its own, across which the kernel lets
// nobody read memory; Open MPI would warn of it on every rank.
void set_single_copy(LaunchPlan& plan, const EnvironmentMap& found, bool is_root) {
    constexpr const char* kSingleCopy = "OMPI_MCA_btl_vader_single_copy_mechanism";
    if (plan.container.runtime != kPodman || is_root || plan.mpi.mode == MpiMode::none ||
        found.contains(kSingleCopy))
        return;
    for (RankPlan& rank : plan.ranks)
        rank.environment.push_back(
            {kSingleCopy, "none", "ranks are in user namespaces of their own: no CMA"});
}

}  // namespace

void plan_container(LaunchPlan& plan, const EnvironmentMap& environment) {
    if (plan.spec.container.image.empty() || plan.ranks.empty())
        return;
    const ContainerNeeds needs = needs_of(plan);
    EnvironmentMap found = settings_of_user(plan.spec, environment);
    for (const VariableChoice& choice : plan.nccl.set)
        found[choice.name] = choice.value;
    found["PATH"] = value_of(environment, "PATH");  // trainer.env's is the image's
    const ContainerFacts facts = read_container_facts(needs.spec, found);
    plan.container = choose_container(needs, facts);
    if (const std::string why = why_not_in_container(plan, plan.container); !why.empty())
        refuse(why.substr(0, why.find("; ")), why.substr(why.find("; ") + 2));
    ContainerWords words = container_words(needs, facts, plan.container);
    std::move(words.warnings.begin(), words.warnings.end(), std::back_inserter(plan.warnings));
    std::move(words.notes.begin(), words.notes.end(), std::back_inserter(plan.notes));
    if (!plan.container.wraps())
        return;
    set_python_path(plan, facts.python_folder);
    set_mpi(plan);
    set_single_copy(plan, found, facts.is_root);
}

}  // namespace autolaunch::launcher
