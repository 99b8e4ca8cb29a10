#include "containers/choose_container.hpp"

#include "base/dotted_version.hpp"
#include "base/refuse.hpp"
#include "base/text.hpp"
#include "spec/container_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

constexpr const char* kSearched[] = {"apptainer", "podman", "enroot"};

bool is_below(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder.ends_with('/') ? folder : folder + '/');
}

/// The nearest bind that shows `path`; the end where none does.
template <class Binds>
auto bind_over(Binds& binds, const std::string& path) {
    auto nearest = binds.end();
    for (auto bind = binds.begin(); bind != binds.end(); ++bind)
        if (is_below(path, bind->target) &&
            (nearest == binds.end() || bind->target.size() > nearest->target.size()))
            nearest = bind;
    return nearest;
}

// What another shows already, in the same place and with the same rights, is not bound again.
std::vector<ContainerBind> without_repeats(std::vector<ContainerBind> binds) {
    std::stable_sort(binds.begin(), binds.end(),
                     [](const auto& a, const auto& b) { return a.target < b.target; });
    std::vector<ContainerBind> kept;
    for (ContainerBind& bind : binds) {
        const auto over = bind_over(kept, bind.target);
        const bool is_shown = over != kept.end() &&
                              bind.source == over->source + bind.target.substr(over->target.size());
        if (is_shown && bind.target == over->target)
            over->writable = over->writable || bind.writable;
        else if (!is_shown || over->writable != bind.writable)
            kept.push_back(std::move(bind));
    }
    return kept;
}

bool compat_is_of_no_use(const ContainerFacts& facts) {
    return !facts.nvidia_driver.empty() &&
           dotted_numbers(facts.cuda_compat) <= dotted_numbers(facts.nvidia_driver);
}

void add(std::vector<ContainerBind>& binds, const std::string& path, bool writable,
         const std::string& reason) {
    if (!path.empty())
        binds.push_back({path, path, writable, reason});
}

std::vector<ContainerBind> choose_binds(const ContainerNeeds& needs, const ContainerFacts& facts) {
    std::vector<ContainerBind> binds;
    for (const std::string& text : needs.spec.mounts)
        if (const auto mount = container_mount_from(text))
            binds.push_back({mount->source, mount->target, mount->writable, "container.mounts"});
    add(binds, needs.run_dir, true, "the run directory");
    add(binds, "/dev/shm", true, "shared memory of the ranks of a node");
    if (needs.workdir_is_given)
        add(binds, needs.workdir, true, "trainer.workdir");
    add(binds, needs.checkpoint_dir, true, "checkpoint.checkpoint_dir");
    for (const std::string& tier : needs.tier_dirs)
        add(binds, tier, true, "a further place of checkpoints");
    add(binds, needs.restore_dir, false, "checkpoint.restore_from");
    for (const std::string& file : needs.key_files)
        add(binds, file, false, "a key of checkpoints");
    add(binds, facts.temporary, true, "TMPDIR");
    add(binds, facts.python_folder, false, "import autolaunch");
    for (const std::string& file : facts.nccl_files)
        add(binds, file, false, "NCCL's settings");
    return without_repeats(std::move(binds));
}

void choose_runtime(ContainerChoice& choice, const ContainerNeeds& needs,
                    const ContainerFacts& facts) {
    choice.runtime = needs.spec.runtime;
    choice.reason = "container.runtime";
    for (const char* name : kSearched)
        if (choice.runtime.empty() && facts.programs.contains(name)) {
            choice.runtime = name;
            choice.reason = "the first of apptainer, podman and enroot that this node has";
        }
    if (choice.runtime == "pyxis")
        return;
    const auto found = facts.programs.find(choice.runtime);
    if (found == facts.programs.end())
        refuse(choice.runtime.empty()
                   ? "container.image: this node has no apptainer, podman or enroot in PATH"
                   : fmt::format("container.runtime: this node has no {} in PATH", choice.runtime),
               "load its module, or install it on every node of the job");
    choice.program = found->second;
    if (choice.runtime == kPodman && !facts.programs.contains("crun"))
        refuse(
            "podman here has no crun, without which the ranks of a node are apart from each "
            "other (each a process namespace of its own) and outside the job's cgroup",
            "apt-get install crun, or dnf install crun");
}

// Of a registry's image its reference has it; of a file, its bytes.
void choose_image(ContainerChoice& choice, const ContainerNeeds& needs,
                  const ContainerFacts& facts) {
    const ContainerSpec& spec = needs.spec;
    choice.image = spec.image;
    if (spec.digest.empty())
        return;
    if (choice.runtime == "pyxis")
        refuse(
            "container.digest: with pyxis the step is in the image before autolaunch runs, and "
            "autolaunch inside cannot see what image that is",
            "leave digest out, or take apptainer, enroot or podman");
    if (facts.image_is_file) {
        choice.file_digest = spec.digest;
        return;
    }
    const bool names_registry = choice.runtime == kPodman || (choice.runtime == "apptainer" &&
                                                              spec.image.starts_with("docker://"));
    if (!names_registry)
        refuse(fmt::format("container.digest: {} cannot say which digest {} has", choice.runtime,
                           spec.image),
               choice.runtime == "enroot"
                   ? "name the .sqsh file (enroot import), whose SHA-256 it then is"
                   : "name a .sif file, whose SHA-256 it then is, or docker://…");
    choice.image = with_digest(spec.image, spec.digest);
}

void add_gpus(ContainerChoice& choice, const ContainerNeeds& needs, const ContainerFacts& facts) {
    const bool nvidia = !facts.nvidia_nodes.empty(), amd = !facts.amd_nodes.empty();
    if (!needs.uses_gpus)
        return;
    auto& options = choice.options;
    if (choice.runtime == "apptainer") {
        if (nvidia)
            options.emplace_back("--nv");
        if (amd)
            options.emplace_back("--rocm");
    } else if (choice.runtime == "enroot") {
        choice.environment = {"NVIDIA_VISIBLE_DEVICES=all",
                              "NVIDIA_DRIVER_CAPABILITIES=compute,utility"};
    } else if (choice.runtime == kPodman) {
        if (nvidia && !facts.cdi_file.empty()) {
            options.emplace_back("--device=nvidia.com/gpu=all");
        } else {
            for (const std::string& node : facts.nvidia_nodes)
                options.push_back("--device=" + node);
        }
        for (const std::string& node : facts.amd_nodes)
            options.push_back("--device=" + node);
    }
}

// apptainer has all of /dev.
void add_fabric(ContainerChoice& choice, const ContainerNeeds& needs, const ContainerFacts& facts) {
    if (!needs.uses_ports || facts.infiniband.empty())
        return;
    if (choice.runtime == kPodman)
        choice.options.push_back("--device=" + facts.infiniband);
    else if (choice.runtime == "enroot")
        choice.binds.push_back({facts.infiniband, facts.infiniband, true, "HCAs"});
}

// Ranks see each other's processes, and stay in the job's cgroup: crun alone can leave it out.
void add_podman_options(ContainerChoice& choice, const ContainerFacts& facts) {
    auto& options = choice.options;
    options = {"--runtime=crun",      "--runtime-flag=cgroup-manager=disabled",
               "--cgroups=no-conmon", "--log-driver=passthrough",
               "--pull=never",        "--entrypoint=",
               "--network=host",      "--pid=host",
               "--uts=host",          "--security-opt=label=disable"};
    if (facts.is_root) {
        options.push_back("--ulimit=nofile=" + facts.open_files);
        options.push_back("--ulimit=nproc=" + facts.processes);
    } else {
        options.emplace_back("--ulimit=host");
        options.emplace_back("--userns=keep-id");
        options.emplace_back("--group-add=keep-groups");
    }
}

// Not at the image's own place for it, where it would hide a newer one. A library that is older
// than the driver does not work with it (CUDA Compatibility, NVIDIA: forward compatibility only).
void choose_cuda_compat(ContainerChoice& choice, const ContainerNeeds& needs,
                        const ContainerFacts& facts) {
    constexpr char kInside[] = "/run/autolaunch/cuda-compat";
    const std::string& folder = needs.spec.cuda_compat;
    if (folder.empty())
        return;
    if (facts.cuda_compat.empty())
        refuse(
            fmt::format("container.cuda_compat: {} on this node has no libcuda.so.1 of a version",
                        folder),
            facts.newest_compat.empty()
                ? "install NVIDIA's package cuda-compat on every node of the job, or leave it out"
                : "this node has " + facts.newest_compat);
    if (compat_is_of_no_use(facts))
        return;
    choice.cuda_compat = kInside;
    choice.binds.push_back({folder, kInside, false, "container.cuda_compat"});
}

void choose_options(ContainerChoice& choice, const ContainerNeeds& needs,
                    const ContainerFacts& facts) {
    if (choice.runtime == kPodman)
        add_podman_options(choice, facts);
    else if (choice.runtime == "apptainer")
        choice.options = {"--no-home", "--no-mount=home,cwd"};
    add_gpus(choice, needs, facts);
    add_fabric(choice, needs, facts);
    choice.options.insert(choice.options.end(), needs.spec.options.begin(),
                          needs.spec.options.end());
}

}  // namespace

std::string with_digest(const std::string& image, const std::string& digest) {
    if (!digest_of_reference(image).empty())
        return image;
    const std::size_t slash = image.rfind('/');
    const std::size_t colon = image.rfind(':');
    const bool has_tag =
        colon != image.npos && (slash == image.npos || colon > slash) && colon + 1 < image.size();
    return image.substr(0, has_tag ? colon : image.npos) + '@' + digest;
}

std::string pyxis_options(const ContainerSpec& spec) {
    std::vector<ContainerMount> mounts;
    for (const std::string& text : spec.mounts)
        if (auto mount = container_mount_from(text))
            mounts.push_back(std::move(*mount));
    return "--container-image=" + spec.image +
           (mounts.empty() ? "" : " --container-mounts=" + pyxis_mounts(mounts)) +
           " --no-container-mount-home";
}

ContainerChoice choose_container(const ContainerNeeds& needs, const ContainerFacts& facts) {
    ContainerChoice choice;
    choose_runtime(choice, needs, facts);
    choose_image(choice, needs, facts);
    if (!choice.wraps())
        return choice;
    choice.binds = choose_binds(needs, facts);
    choose_cuda_compat(choice, needs, facts);
    choose_options(choice, needs, facts);
    choice.let_in = needs.variables;
    if (facts.temporary.empty())
        choice.kept_out.emplace_back("TMPDIR");
    if (bind_over(choice.binds, needs.workdir) != choice.binds.end())
        choice.workdir = needs.workdir;
    return choice;
}

ContainerWords container_words(const ContainerNeeds& needs, const ContainerFacts& facts,
                               const ContainerChoice& choice) {
    ContainerWords words;
    if (choice.runtime == "pyxis") {
        words.notes.push_back(
            "container.runtime is pyxis: Slurm starts the whole step in the image, so autolaunch "
            "must be installed in it, and starts ranks as if there were none: srun " +
            pyxis_options(needs.spec) + " autolaunch …");
        return words;
    }
    if (choice.workdir.empty())
        words.notes.push_back(fmt::format(
            "ranks do not see {} in their container, and start in the image's own folder: "
            "trainer.workdir: . binds it, or a mount that has it",
            needs.workdir));
    if (!needs.spec.cuda_compat.empty() && choice.cuda_compat.empty())
        words.notes.push_back(fmt::format(
            "container.cuda_compat is not used: the driver of this node is {}, and the library {}, "
            "which only makes up for an older one",
            facts.nvidia_driver, facts.cuda_compat));
    if (choice.runtime == kPodman && !needs.secret_variables.empty())
        words.warnings.push_back(fmt::format(
            "podman keeps what variables hold in its own record of a container, in files of yours "
            "while the container is there: {} is a secret; as: file keeps it in memory",
            join(needs.secret_variables, ", ")));
    if (needs.uses_gpus && choice.runtime == kPodman && !facts.nvidia_nodes.empty() &&
        facts.cdi_file.empty())
        words.warnings.emplace_back(
            "podman is given NVIDIA's devices and not the driver's libraries, which the image must "
            "have in the driver's own version: sudo nvidia-ctk cdi generate "
            "--output=/etc/cdi/nvidia.yaml gives it both");
    return words;
}

std::string why_not_in_container(const LaunchPlan& plan, const ContainerChoice& choice) {
    if (!choice.wraps())
        return {};
    if (plan.spec.restart.warm_processes)
        return "restart.warm_processes: a spare's container cannot become a rank's, which is "
               "called after it; leave it out";
    if (plan.spec.trainer.mpi == "pmi1" && choice.runtime != "apptainer")
        return "trainer.mpi: pmi1 hands ranks an open descriptor, which " + choice.runtime +
               " does not pass on; take pmix (Open MPI), or apptainer";
    if (choice.runtime != kPodman)
        return {};
    if (plan.spec.logging.stdio == "pty")
        return "logging.stdio: pty: podman gives a terminal away only through a copy of its own; "
               "take file";
    if (plan.spec.debug_rank)
        return "--debug-rank: podman does not pass the terminal on; take apptainer, or start a "
               "debugger with trainer.wrap";
    return {};
}

}  // namespace autolaunch::launcher
