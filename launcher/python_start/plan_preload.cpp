#include "python_start/plan_preload.hpp"

#include "base/file_io.hpp"
#include "base/network_file_system.hpp"
#include "base/text.hpp"
#include "python_start/preload_record.hpp"
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

/// Why nothing can be preloaded into the plan's program, whatever it imports.
std::string why_not_at_all(const LaunchPlan& plan, const EnvironmentMap& environment,
                           PreloadChoice& choice) {
    if (plan.spec.container.wraps_ranks())
        return "ranks run in a container, of whose files an interpreter on the node has none";
    const RankPlan& rank = plan.ranks.front();
    const PythonCommand command =
        python_command(rank.argv, rank_environment(plan, rank, {}, environment), plan.workdir);
    if (!command.why_not.empty())
        return "the program " + command.why_not;
    choice.script = command.script;
    choice.module = command.module;
    choice.workdir = plan.workdir;
    choice.interpreter = (fs::path(plan.workdir) / command.interpreter).lexically_normal();
    choice.from_node = plan.spec.trainer.preload_from == "node";
    choice.cache = plan.spec.trainer.preload_cache;
    choice.is_shared = is_network_file_system(fs::path(choice.interpreter).parent_path());
    choice.library = find_python_library();
    if (choice.library.find_first_of(" :$") != std::string::npos || choice.library.empty())
        return fmt::format(
            "{} is not beside autolaunch, or in a folder that LD_PRELOAD cannot name",
            kPythonLibrary);
    return why_not_in_this_job(plan);
}

/// Of a program that no run has looked at, as it is now: what its own text shows.
void take_script(PreloadChoice& choice, const std::string& why_unknown) {
    choice.automatic = choice.script != "-c";
    if (!choice.automatic) {
        choice.reason = "-c has no file to read; list the modules";
        return;
    }
    const std::string name = choice.script == "-m" ? "-m " + choice.module : choice.script;
    if (choice.script != "-m") {
        try {
            choice.imports = of_script(fs::path(choice.workdir) / choice.script);
        } catch (const Error& error) {
            choice.automatic = false;
            choice.reason = error.what();
            return;
        }
    }
    const std::string known = !why_unknown.empty()     ? why_unknown
                              : choice.imports.empty() ? name + " has not been run so"
                                                       : name + " begins with them";
    choice.reason = known + "; the interpreter looks in its files";
}

void take_record(PreloadChoice& choice, const PreloadWalk& walk) {
    choice.imports = walk.imports;
    choice.automatic = !walk.imports.empty();
    if (choice.is_shared)
        choice.reads = walk.reads;
    choice.reason =
        fmt::format("as in the last run; {}",
                    walk.end.ends_with("all of it") ? walk.end : "no more: " + walk.end);
    if (choice.is_shared && choice.from_node)
        choice.reason += "; one node reads what they need, and hands it on";
}

void decide_automatic(LaunchPlan& plan) {
    PreloadChoice& choice = plan.preload;
    const bool is_asked = plan.spec.trainer.preload.how == How::automatic;
    std::string why_unknown;
    const auto walk = find_preload_record(choice, why_unknown);
    if (!is_asked && (!walk || !walk->trouble.empty() || walk->imports.empty())) {
        choice.reason = "not asked for";
        if (walk || !why_unknown.empty())
            choice.reason += "; with --preload auto: " + (!walk                   ? why_unknown
                                                          : walk->trouble.empty() ? walk->end
                                                                                  : walk->trouble);
        return;
    }
    if (walk)
        take_record(choice, *walk);
    else
        take_script(choice, why_unknown);
    if (!choice.automatic)
        plan.warnings.push_back("trainer.preload: every rank starts by itself: " + choice.reason);
    else if (!is_asked)
        plan.notes.push_back(
            fmt::format("imports are preloaded as in the last run of {} with "
                        "--preload auto (--preload off: not)",
                        choice.script == "-m" ? choice.module : choice.script));
}

// What an earlier run of them has read is the same for every program.
void take_list(PreloadChoice& choice, const std::vector<std::string>& modules) {
    choice.imports = as_statements(modules);
    choice.listed = true;
    std::string ignored;  // then nothing is read ahead, and this run records it
    if (const auto walk = choice.is_shared ? find_preload_record(choice, ignored) : std::nullopt) {
        choice.reads = walk->reads;
        choice.reason += choice.from_node ? "; one node reads what they need, and hands it on"
                                          : "; what they need is read ahead";
    }
}

}  // namespace

void plan_preload(LaunchPlan& plan, const EnvironmentMap& environment) {
    const PreloadSpec& wanted = plan.spec.trainer.preload;
    PreloadChoice& choice = plan.preload;
    if (wanted.how == How::off || plan.ranks.empty())
        return;
    choice.records = preload_records_folder(environment);
    if (wanted.how == How::unset &&
        (choice.records.empty() || ::access(choice.records.c_str(), F_OK) != 0))
        return;
    const std::string why_not = why_not_at_all(plan, environment, choice);
    if (why_not.empty() && wanted.how != How::listed)
        return decide_automatic(plan);
    choice.reason = why_not.empty() ? "as trainer.preload lists them" : why_not;
    if (why_not.empty())
        take_list(choice, wanted.modules);
    else if (wanted.how == How::listed)
        throw Error(ErrorCode::invalid_argument,
                    "trainer.preload: nothing can be preloaded: " + why_not,
                    "leave trainer.preload and --preload out, or say off");
    else if (wanted.how == How::automatic)
        plan.warnings.push_back("trainer.preload: every rank starts by itself: " + why_not);
}

}  // namespace autolaunch::launcher
