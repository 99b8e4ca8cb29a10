#include "containers/container_argv.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace autolaunch::launcher {

namespace {

using Argv = std::vector<std::string>;

// Where things are on the node, and who is at its terminal. The image says otherwise.
constexpr std::array<std::string_view, 32> kOfNode = {"PATH",
                                                      "HOME",
                                                      "SHELL",
                                                      "PWD",
                                                      "OLDPWD",
                                                      "SHLVL",
                                                      "_",
                                                      "BASH_ENV",
                                                      "ENV",
                                                      "MAIL",
                                                      "HOSTNAME",
                                                      "LD_PRELOAD",
                                                      "LD_AUDIT",
                                                      "PYTHONHOME",
                                                      "PYTHONPATH",
                                                      "VIRTUAL_ENV",
                                                      "PYTHONSTARTUP",
                                                      "PYTHONUSERBASE",
                                                      "MANPATH",
                                                      "INFOPATH",
                                                      "CPATH",
                                                      "C_INCLUDE_PATH",
                                                      "LIBRARY_PATH",
                                                      "PKG_CONFIG_PATH",
                                                      "PERL5LIB",
                                                      "MODULEPATH",
                                                      "LOADEDMODULES",
                                                      "_LMFILES_",
                                                      "CUDA_HOME",
                                                      "CUDA_PATH",
                                                      "ROCM_PATH",
                                                      "LD_LIBRARY_PATH"};
constexpr std::array<std::string_view, 11> kPrefixesOfNode = {
    "XDG_",    "DBUS_",     "SSH_",        "CONDA_", "LMOD_", "CONTAINERS_",
    "ENROOT_", "APPTAINER", "SINGULARITY", "_CE_",   "GPG_"};

bool has(const Argv& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_plain_name(std::string_view name) {
    return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return static_cast<unsigned char>(c) < 0x80 &&
                      (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
           });
}

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('=')); }

void append(Argv& argv, const Argv& more) { argv.insert(argv.end(), more.begin(), more.end()); }

std::vector<ContainerBind> all_binds(const ContainerChoice& choice, const ContainerStart& start) {
    std::vector<ContainerBind> binds = choice.binds;
    binds.insert(binds.end(), start.binds.begin(), start.binds.end());
    std::stable_sort(binds.begin(), binds.end(),
                     [](const auto& a, const auto& b) { return a.target < b.target; });
    return binds;
}

const char* rights(const ContainerBind& bind) { return bind.writable ? "rw" : "ro"; }

Argv names_to_pass(const ContainerChoice& choice, const Argv& environment) {
    Argv names;
    for (const std::string& line : environment)
        if (const auto name = name_of(line); reaches_container(choice, name))
            names.emplace_back(name);
    return names;
}

Argv podman_argv(const ContainerChoice& choice, const ContainerStart& start, const Argv& argv) {
    Argv line = {choice.program, "run", "--rm", "--name=" + start.name};
    if (!start.pid_file.empty())
        line.push_back("--pidfile=" + start.pid_file);
    line.push_back("--label=autolaunch=" + start.label);
    append(line, choice.options);
    if (start.has_input)
        line.emplace_back("--interactive");
    for (const ContainerBind& bind : all_binds(choice, start))
        line.push_back("--volume=" + bind.source + ':' + bind.target + ':' + rights(bind));
    for (const std::string& name : names_to_pass(choice, start.environment))
        line.push_back("--env=" + name);
    if (!choice.workdir.empty())
        line.push_back("--workdir=" + choice.workdir);
    line.push_back(choice.image);
    append(line, argv);
    return line;
}

Argv apptainer_argv(const ContainerChoice& choice, const ContainerStart& start, const Argv& argv) {
    Argv line = {choice.program, "exec"};
    append(line, choice.options);
    for (const ContainerBind& bind : all_binds(choice, start))
        line.push_back("--bind=" + bind.source + ':' + bind.target + ':' + rights(bind));
    if (!choice.workdir.empty())
        line.push_back("--pwd=" + choice.workdir);
    line.push_back(choice.image);
    append(line, argv);
    return line;
}

// It has no option for the folder: its shell goes there.
Argv enroot_argv(const ContainerChoice& choice, const ContainerStart& start, const Argv& argv) {
    Argv line = {choice.program, "start"};
    append(line, choice.options);
    for (const ContainerBind& bind : all_binds(choice, start)) {
        line.emplace_back("--mount");
        line.push_back(bind.source + ':' + bind.target + ":none:x-create=auto,rbind," +
                       rights(bind));
    }
    for (const std::string& name : names_to_pass(choice, start.environment)) {
        line.emplace_back("--env");
        line.push_back(name);
    }
    line.push_back(choice.image);
    if (!choice.workdir.empty())
        append(line, {"/bin/sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", choice.workdir});
    append(line, argv);
    return line;
}

// By the image's shell, which alone knows what the image itself has in LD_LIBRARY_PATH.
Argv with_cuda_compat(const ContainerChoice& choice, const Argv& argv) {
    if (choice.cuda_compat.empty())
        return argv;
    Argv line = {"/bin/sh", "-c",
                 "LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export LD_LIBRARY_PATH; "
                 "shift; exec \"$@\"",
                 "sh", choice.cuda_compat};
    append(line, argv);
    return line;
}

}  // namespace

bool reaches_container(const ContainerChoice& choice, std::string_view name) {
    if (!is_plain_name(name) || has(choice.kept_out, name))
        return false;
    if (has(choice.let_in, name))
        return true;
    return std::find(kOfNode.begin(), kOfNode.end(), name) == kOfNode.end() &&
           std::none_of(kPrefixesOfNode.begin(), kPrefixesOfNode.end(),
                        [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> container_argv(const ContainerChoice& choice, const ContainerStart& start,
                                        const std::vector<std::string>& argv) {
    const Argv inside = with_cuda_compat(choice, argv);
    if (choice.runtime == kPodman)
        return podman_argv(choice, start, inside);
    if (choice.runtime == "apptainer")
        return apptainer_argv(choice, start, inside);
    if (choice.runtime == "enroot")
        return enroot_argv(choice, start, inside);
    return argv;
}

// apptainer takes all of its own environment in, and lets the image's settings win over it, but
// not over APPTAINERENV_*. What is not to come in is taken away, but for what it needs itself.
std::vector<std::string> container_environment(const ContainerChoice& choice,
                                               std::vector<std::string> environment) {
    for (const std::string& line : choice.environment)
        if (std::none_of(environment.begin(), environment.end(),
                         [&](const std::string& other) { return name_of(other) == name_of(line); }))
            environment.push_back(line);
    if (choice.runtime != "apptainer")
        return environment;
    constexpr std::array<std::string_view, 5> kOfApptainer = {"PATH", "HOME", "LD_LIBRARY_PATH",
                                                              "XDG_RUNTIME_DIR", "SHELL"};
    Argv inside;
    for (const std::string& line : environment)
        if (reaches_container(choice, name_of(line)))
            inside.push_back("APPTAINERENV_" + line);
    std::erase_if(environment, [&](const std::string& line) {
        const auto name = name_of(line);
        return !reaches_container(choice, name) && !name.starts_with("APPTAINER") &&
               !name.starts_with("SINGULARITY") &&
               std::find(kOfApptainer.begin(), kOfApptainer.end(), name) == kOfApptainer.end();
    });
    for (std::string& line : inside)
        if (std::none_of(environment.begin(), environment.end(),
                         [&](const std::string& other) { return name_of(other) == name_of(line); }))
            environment.push_back(std::move(line));
    return environment;
}

}  // namespace autolaunch::launcher
