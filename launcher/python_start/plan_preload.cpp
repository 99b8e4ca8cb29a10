#include "python_start/plan_preload.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "python_start/python_command.hpp"
#include "python_start/script_imports.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

using How = PreloadSpec::How;

constexpr const char* kPythonLibrary = "autolaunch-python.so";

std::string find_python_library() {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (error)
        return {};
    for (const char* place : {"../libexec/autolaunch", "python_start", "."})
        if (const fs::path path = folder / place / kPythonLibrary;
            ::access(path.c_str(), R_OK) == 0)
            return path.lexically_normal();
    return {};
}

std::string why_not_in_this_job(const LaunchPlan& plan) {
    const auto& ranks = plan.ranks;
    if (plan.spec.logging.stdio == "pty")
        return "with logging.stdio pty each rank has a terminal of its own from its start";
    if (std::any_of(ranks.begin(), ranks.end(),
                    [&](const RankPlan& rank) { return rank.argv != ranks.front().argv; }))
        return "the ranks here have several command lines";
    if (std::any_of(ranks.begin(), ranks.end(),
                    [](const RankPlan& rank) { return !rank.wrap.empty(); }))
        return "a command is wrapped around ranks";
    if (plan.tasks_here > 1)
        return "the scheduler starts one task a rank";
    const auto preload = plan.spec.trainer.env.find("LD_PRELOAD");
    if (preload != plan.spec.trainer.env.end() && preload->second.empty())
        return "trainer.env sets LD_PRELOAD to nothing";
    return {};
}

std::vector<PreloadedImport> as_statements(const std::vector<std::string>& modules) {
    std::vector<PreloadedImport> imports;
    for (const std::string& module : modules)
        imports.push_back({1, "import " + module});
    return imports;
}

std::vector<PreloadedImport> of_script(const fs::path& script) {
    std::error_code ignored;
    const fs::path folder = fs::weakly_canonical(script, ignored).parent_path();
    const auto is_local = [&](const std::string& name) {
        std::error_code error;
        return fs::exists(folder / name, error) || fs::exists(folder / (name + ".py"), error);
    };
    return leading_imports(read_file(script), is_local);
}

void take_script(PreloadChoice& choice, const std::string& workdir) {
    choice.automatic = true;
    if (choice.script == "-m" || choice.script == "-c") {
        choice.reason = choice.script + " has no script to read; list the modules";
        return;
    }
    const fs::path script = fs::path(workdir) / choice.script;
    try {
        choice.imports = of_script(script);
    } catch (const Error& error) {
        choice.reason = error.what();
        return;
    }
    choice.reason = choice.imports.empty()
                        ? choice.script + " does not begin with imports of packages"
                        : choice.script + " begins with them";
}

}  // namespace

void plan_preload(LaunchPlan& plan, const EnvironmentMap& environment) {
    const PreloadSpec& wanted = plan.spec.trainer.preload;
    PreloadChoice& choice = plan.preload;
    if (wanted.how == How::off || plan.ranks.empty())
        return;
    choice.reason = why_not_in_this_job(plan);
    choice.library = find_python_library();
    const RankPlan& rank = plan.ranks.front();
    const PythonCommand command =
        python_command(rank.argv, rank_environment(plan, rank, {}, environment), plan.workdir);
    if (!command.why_not.empty())
        choice.reason = "the program " + command.why_not;
    else if (choice.library.find_first_of(" :$") != std::string::npos || choice.library.empty())
        choice.reason = fmt::format(
            "{} is not beside autolaunch, or in a folder that LD_PRELOAD "
            "cannot name",
            kPythonLibrary);
    choice.script = command.script;
    if (!choice.reason.empty()) {
        if (wanted.how == How::listed)
            throw Error(ErrorCode::invalid_argument,
                        "trainer.preload: nothing can be preloaded: " + choice.reason,
                        "leave trainer.preload and --preload out, or say off");
        plan.warnings.push_back("trainer.preload: every rank starts by itself: " + choice.reason);
        return;
    }
    if (wanted.how == How::listed) {
        choice.imports = as_statements(wanted.modules);
        choice.reason = "as trainer.preload lists them";
    } else {
        take_script(choice, plan.workdir);
        if (choice.imports.empty())
            plan.warnings.push_back("trainer.preload: every rank starts by itself: " +
                                    choice.reason);
    }
}

}  // namespace autolaunch::launcher
