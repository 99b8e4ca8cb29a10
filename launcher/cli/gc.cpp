#include "cli/gc.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"
#include "cli/scratch_of_site.hpp"
#include "cli/spec_errors.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "plan/plan_checkpoint.hpp"
#include "retention/collect.hpp"
#include "site/site_file.hpp"
#include "spec/spec.hpp"
#include "spec/units.hpp"

#include <chrono>
#include <optional>

namespace autolaunch::launcher {

namespace {

constexpr auto kDay = std::chrono::hours(24);

RunsThatGo which_go(const std::string& state) {
    return state == "succeeded" ? RunsThatGo::succeeded
           : state == "failed"  ? RunsThatGo::failed
                                : RunsThatGo::any;
}

// The spec's own word for where things are and how long they stay.
void take_spec(CollectRequest& request, const JobSpec& spec) {
    if (request.scratch.empty())
        request.scratch = scratch_of_spec(spec);
    if (is_folder(spec.monitoring.log_path))
        request.runs.push_back(spec.monitoring.log_path);
    // The trainer's Checkpointer goes by the same.
    const CheckpointSettings settings = checkpoint_settings(
        spec.checkpoint, absolute_path(spec.trainer.workdir).lexically_normal());
    CheckpointPlace place{.place = settings.directory,
                          .keep = settings.keep.value_or(0),
                          .keep_every = settings.keep_every.value_or(0),
                          .keep_best = settings.keep_best.value_or(0),
                          .lower_is_better = settings.lower_is_better.value_or(true)};
    if (!place.place.empty())
        request.checkpoints.push_back(place);
    for (const TierSettings& tier : tiers_of(settings))
        request.checkpoints.push_back({.place = tier.place,
                                       .keep = tier.keep.value_or(0),
                                       .keep_every = tier.keep_every.value_or(0),
                                       .keep_best = tier.keep_best.value_or(0),
                                       .lower_is_better = place.lower_is_better});
    if (!settings.restore_from.empty())
        request.named.push_back(settings.restore_from);
}

/// Throws ExitError where the site has none, or its owner is not known here.
SharedPlace shared_place_of(const std::optional<SiteSettings>& site) {
    const std::string folder = word_of(site, kSharedCacheKey);
    const std::string owner = word_of(site, kSharedOwnerKey);
    if (folder.empty())
        throw ExitError(exit_code::kBadSite, ErrorCode::invalid_argument,
                        std::string(kSiteFile) + " names no " + kSharedCacheKey,
                        "without --shared gc is of what is yours");
    return shared_place(folder, owner.empty() ? "root" : owner);
}

}  // namespace

int collect_left(const CommandLine& line, const std::map<std::string, std::string>& environment,
                 const Screen& screen) {
    const auto site = read_site_file();
    if (line.gc.epilog)
        become_user_of_job(environment);
    CollectRequest request{.scratch = line.gc.scratch,
                           .older_than = 7 * kDay,
                           .which = which_go(line.gc.state),
                           .runs = line.gc.folders,
                           .apply = line.gc.apply,
                           .json = line.json};
    if (!line.spec_file.empty()) {
        const SpecResult result = load_spec({line.spec_file, {}, environment, {}, Secrets::mask});
        if (!result.errors.empty())
            return complain_of_spec(result.errors, screen);
        take_spec(request, result.spec);
    }
    if (line.gc.shared)
        request.shared = shared_place_of(site);
    else if (request.scratch.empty())
        request.scratch = scratch_of_site(site);
    long long days = 0;
    if (parse_integer(word_of(site, "storage_management.retention_days"), days) && days >= 0)
        request.older_than = days * kDay;
    if (const auto told = duration_from(line.gc.older_than))
        request.older_than = std::chrono::ceil<std::chrono::seconds>(*told);
    const Collected found = collect(request, ask_slurm);
    line.json ? screen.print_json(found.text) : screen.print(found.text);
    return found.exit_code;
}

}  // namespace autolaunch::launcher
