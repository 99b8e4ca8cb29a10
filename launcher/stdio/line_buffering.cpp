#include "stdio/line_buffering.hpp"

#include "base/environment.hpp"
#include "stdio/program_kind.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLibrary = "autolaunch-lines.so";
constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kAsanOptions = "ASAN_OPTIONS";
constexpr const char* kAsanOrder = "verify_asan_link_order";

// As the program lies: installed, built, side by side.
std::string find_library() {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (error)
        return {};
    for (const char* place : {"../libexec/autolaunch", "stdio", "."})
        if (const fs::path path = folder / place / kLibrary; ::access(path.c_str(), R_OK) == 0)
            return path.lexically_normal();
    return {};
}

std::string behind(const std::string& users, const std::string& ours) {
    return users.empty() ? ours : users + ':' + ours;
}

VariableChoice unless_set(const EnvironmentMap& found, const char* name, const char* value,
                          const char* reason) {
    const auto entry = found.find(name);
    return entry == found.end() ? VariableChoice{name, value, reason}
                                : VariableChoice{name, entry->second, "kept as you set it"};
}

void set(std::vector<VariableChoice>& environment, VariableChoice choice) {
    std::erase_if(environment, [&](const auto& old) { return old.name == choice.name; });
    environment.push_back(std::move(choice));
}

}  // namespace

OutputChoice choose_output(const OutputFacts& facts) {
    if (!facts.line_buffered)
        return {false, "", "logging.line_buffered is false"};
    if (facts.terminal)
        return {false, "", "stdio writes whole lines to a terminal by itself"};
    if (facts.none_preloaded)
        return {true, "", "trainer.env sets LD_PRELOAD to nothing"};
    if (!facts.against.empty())
        return {true, "", facts.against};
    if (facts.library.empty())
        return {true, "", fmt::format("there is no {} beside autolaunch", kLibrary)};
    // LD_PRELOAD is a list between these, and nothing quotes them.
    if (facts.library.find_first_of(" :$") != std::string::npos)
        return {
            true, "",
            fmt::format("{} has a blank, a colon or a dollar sign, which LD_PRELOAD cannot hold",
                        facts.library)};
    return {true, facts.library, "what C programs print is in the log at once"};
}

std::vector<VariableChoice> output_environment(const OutputChoice& choice,
                                               const EnvironmentMap& found) {
    std::vector<VariableChoice> variables;
    if (!choice.by_lines)
        return variables;
    if (!choice.preload.empty()) {
        const std::string users = value_of(found, kPreload);
        const bool is_there =
            users.find(choice.preload) != std::string::npos;  // of an outer launch
        variables.push_back({kPreload, is_there ? users : behind(users, choice.preload),
                             "C programs write whole lines to the log"});
        const std::string options = value_of(found, kAsanOptions);
        if (options.find(kAsanOrder) == std::string::npos)
            variables.push_back({kAsanOptions, behind(options, std::string(kAsanOrder) + "=0"),
                                 "what has AddressSanitizer starts behind a script, too, with the "
                                 "library in front"});
    }
    variables.push_back(unless_set(found, "GFORTRAN_UNBUFFERED_PRECONNECTED", "y",
                                   "Fortran programs write whole records to the log"));
    variables.push_back(
        unless_set(found, "PYTHONUNBUFFERED", "1", "Python holds back what it prints to a file"));
    return variables;
}

void plan_output(LaunchPlan& plan, const EnvironmentMap& environment) {
    const auto& users = plan.spec.trainer.env;
    OutputFacts facts;
    facts.line_buffered = plan.spec.logging.line_buffered;
    facts.terminal = plan.spec.logging.stdio == "pty";
    const auto preload = users.find(kPreload);
    facts.none_preloaded = preload != users.end() && preload->second.empty();
    facts.library = find_library();
    const EnvironmentMap found = settings_of_user(plan.spec, environment);
    std::map<std::string, std::string> against;  // by program: a job may have several
    for (RankPlan& rank : plan.ranks) {
        const auto [entry, is_new] = against.try_emplace(rank.argv.front());
        if (is_new && plan.spec.container.wraps_ranks())
            entry->second = why_not_preloaded(ProgramKind::contained);
        else if (is_new && facts.line_buffered && !facts.terminal)
            entry->second = why_not_preloaded(kind_of_program(
                rank.argv.front(), rank_environment(plan, rank, {}, environment), plan.workdir));
        facts.against = entry->second;
        const OutputChoice choice = choose_output(facts);
        if (&rank == &plan.ranks.front() || plan.output.preload.empty())
            plan.output = choice;
        for (VariableChoice& variable : output_environment(choice, found))
            set(rank.environment, std::move(variable));
    }
    const bool is_our_fault = plan.output.by_lines && plan.output.preload.empty() &&
                              facts.against.empty() && !facts.none_preloaded;
    if (is_our_fault)
        plan.warnings.push_back("what C programs print comes late: " + plan.output.reason);
}

}  // namespace autolaunch::launcher
