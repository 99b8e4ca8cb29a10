#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The one runtime that starts a rank beside its own process, and keeps records of containers.
inline constexpr char kPodman[] = "podman";

/// What ranks see of the node in their container, and why.
struct ContainerBind {
    std::string source, target;
    bool writable = false;
    std::string reason;

    bool operator==(const ContainerBind&) const = default;
};

/// What ranks run in (docs/guides/containers.md).
struct ContainerChoice {
    std::string runtime;      ///< apptainer, enroot, podman, pyxis; empty: ranks run on the node
    std::string program;      ///< the runtime's file; empty with pyxis, where Slurm has started it
    std::string image;        ///< as the runtime is given it
    std::string file_digest;  ///< that the image's file must have; empty: it is not looked at
    std::vector<ContainerBind> binds;      ///< by target: what is below another comes later
    std::vector<std::string> options;      ///< of the runtime, besides binds and variables
    std::vector<std::string> kept_out;     ///< variables that do not reach ranks, besides the usual
    std::vector<std::string> let_in;       ///< those that do although they are among the usual
    std::vector<std::string> environment;  ///< "NAME=value" for the runtime itself
    std::string workdir;                   ///< inside; empty: the image's own
    std::string cuda_compat;  ///< inside: where libraries are looked for first, or empty
    std::string reason;       ///< for the runtime

    /// autolaunch starts them inside; with pyxis they are there already.
    bool wraps() const { return !program.empty(); }
};

}  // namespace autolaunch::launcher
