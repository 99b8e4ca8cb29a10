#include "cli/print_manifest.hpp"

#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/screen.hpp"
#include "stopping/save_times.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <optional>

namespace autolaunch::launcher {

namespace {

std::optional<std::chrono::milliseconds> save_of(const std::string& earlier_run) {
    if (earlier_run.empty())
        return std::nullopt;
    const auto save = SaveTimes::read(earlier_run).p99();
    if (!save)
        throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                        earlier_run + ": no saves were measured there (save-times.json)",
                        "leave --run out; the pods then get restart.grace_period to end");
    return save;
}

}  // namespace

int print_manifest(const SpecResult& read, ManifestKind kind, const std::string& earlier_run,
                   const std::map<std::string, std::string>& environment) {
    const Screen screen(environment);
    const Manifests made = manifests({.kind = kind, .read = read, .save = save_of(earlier_run)});
    for (const SpecError& error : made.errors)
        screen.complain("autolaunch: " + to_string(error));
    if (!made.errors.empty())
        return exit_code::kBadSpec;
    for (const std::string& note : made.notes)
        screen.complain("autolaunch: " + note);
    // Masked, it would not be what was meant; what holds a secret was refused.
    Screen(environment, Secrets::show).print(made.yaml);
    return exit_code::kSuccess;
}

}  // namespace autolaunch::launcher
