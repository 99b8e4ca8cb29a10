#pragma once
#include "plan/container_choice.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What is known of a rank's container only when it is started.
struct ContainerStart {
    std::vector<std::string> environment;  ///< of the rank, "NAME=value", secrets included
    std::vector<ContainerBind> binds;      ///< the agent's sockets, files with secrets
    std::string name, label;               ///< of the container, and of all of this agent; podman's
    std::string pid_file;                  ///< that podman is to write; empty: none
    bool has_input = false;                ///< stdin is more than /dev/null
};

/// The command that runs `argv` in the container. Of variables there are names in it, and no value:
/// command lines are seen by every user of the node. Pure.
std::vector<std::string> container_argv(const ContainerChoice& choice, const ContainerStart& start,
                                        const std::vector<std::string>& argv);

/// The environment of that command, from which the runtime takes the variables of the rank. Pure.
std::vector<std::string> container_environment(const ContainerChoice& choice,
                                               std::vector<std::string> environment);

/// Whether ranks in a container get a variable of that name: all but those that say where things
/// are on the node (PATH, HOME, LD_LIBRARY_PATH and their like) and those that nobody can name
/// (functions of bash). Pure.
bool reaches_container(const ContainerChoice& choice, std::string_view name);

}  // namespace autolaunch::launcher
