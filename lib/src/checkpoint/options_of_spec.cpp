#include "checkpoint/options_of_spec.hpp"

#include <chrono>
#include <system_error>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

template <class Value, class Option>
void take(const std::optional<Value>& value, Option& option) {
    if (value)
        option = *value;
}

std::vector<TierOptions> tier_options(const CheckpointSettings& settings) {
    std::vector<TierOptions> tiers;
    for (const TierSettings& said : tiers_of(settings)) {
        TierOptions& tier = tiers.emplace_back();
        tier.place = said.place;
        take(said.every_steps, tier.every_steps);
        take(said.every_seconds, tier.every_seconds);
        take(said.keep, tier.keep);
        take(said.keep_every, tier.keep_every);
        take(said.keep_best, tier.keep_best);
        take(said.bytes_per_second, tier.bytes_per_second);
    }
    return tiers;
}

fs::path without_links(const fs::path& path) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
    return (error ? path.lexically_normal() : whole) / "";  // with or without a slash at its end
}

}  // namespace

bool is_meant(const CheckpointSettings& settings, const fs::path& directory) {
    return settings.directory.empty() ||
           without_links(settings.directory) == without_links(directory);
}

CheckpointOptions with_settings(CheckpointOptions options, const CheckpointSettings& settings) {
    take(settings.keep, options.keep);
    take(settings.keep_best, options.keep_best);
    take(settings.keep_every, options.keep_every);
    take(settings.lower_is_better, options.lower_is_better);
    take(settings.node_local, options.node_local);
    take(settings.pass_over_unusable, options.pass_over_unusable);
    take(settings.every_steps, options.schedule.every_steps);
    take(settings.every_seconds, options.schedule.every_seconds);
    take(settings.optimal, options.schedule.optimal);
    if (!settings.drain.empty()) {
        options.drain.place = settings.drain;
        options.tiers.clear();
    }
    if (!settings.tiers.empty()) {
        options.tiers = tier_options(settings);
        if (settings.drain.empty())  // both are for further_places() to refuse
            options.drain.place.clear();
    }
    take(settings.drain_keep, options.drain.keep);
    take(settings.keep_every, options.drain.keep_every);  // what is to stay stays in both
    take(settings.keep_best, options.drain.keep_best);
    if (settings.drain_wait_seconds)
        options.drain.wait_at_end = std::chrono::milliseconds(
            static_cast<std::int64_t>(*settings.drain_wait_seconds * 1000));
    if (settings.stripe_auto || settings.stripe_count || settings.stripe_bytes)
        options.stripe = {settings.stripe_auto.value_or(false), settings.stripe_count.value_or(0),
                          settings.stripe_bytes.value_or(0)};
    if (!settings.restore_from.empty())
        options.restore_from = settings.restore_from;
    return options;
}

}  // namespace autolaunch
