#include "plan/plan_checkpoint.hpp"

#include "base/text.hpp"
#include "spec/checkpoint_words.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

namespace autolaunch::launcher {

namespace {

constexpr int kKeptInPlace = 2;  // TierOptions::keep, of the library

std::string place_from(const std::string& place, const std::string& workdir) {
    if (place.empty() || place.find("://") != place.npos)
        return place;
    return (std::filesystem::path(workdir) / place).lexically_normal().string();
}

// Of the whole section, or of one place.
template <class Settings>
std::vector<std::string> interval_words(const Settings& settings) {
    std::vector<std::string> words;
    if (settings.every_steps)
        words.push_back(fmt::format("every {} steps", *settings.every_steps));
    if (settings.every_seconds)
        words.push_back(fmt::format("every {:g} s", *settings.every_seconds));
    return words;
}

std::string in_words(const CheckpointSettings& settings) {
    std::vector<std::string> words = interval_words(settings);
    if (settings.optimal.value_or(false))
        words.emplace_back("as often as loses the least time");
    return words.empty() ? "when the trainer saves" : join(words, ", ");
}

TierSettings tier_settings(const TierSpec& tier, const std::string& workdir) {
    TierSettings settings{.place = place_from(tier.place, workdir),
                          .keep = tier.keep,
                          .keep_best = tier.keep_best,
                          .keep_every = tier.keep_every};
    if (const auto interval = save_interval_from(tier.every)) {
        settings.every_steps = interval->steps;
        if (interval->time)
            settings.every_seconds = std::chrono::duration<double>(*interval->time).count();
    }
    if (tier.bandwidth)
        settings.bytes_per_second = static_cast<std::uint64_t>(*tier.bandwidth);
    return settings;
}

std::string what_stays(const std::optional<int>& keep, const std::optional<std::int64_t>& every,
                       const std::optional<int>& best) {
    std::string text = keep ? fmt::format("the newest {}", *keep) : "as many as the trainer says";
    if (every)
        text += fmt::format(", those of every {} steps", *every);
    if (best)
        text += fmt::format(", the best {}", *best);
    return text;
}

std::string tier_words(const CheckpointSettings& settings, const TierSettings& tier) {
    std::vector<std::string> words = interval_words(tier);
    words.push_back(what_stays(tier.keep.value_or(kKeptInPlace),
                               tier.keep_every ? tier.keep_every : settings.keep_every,
                               tier.keep_best ? tier.keep_best : settings.keep_best));
    if (tier.bytes_per_second)
        words.push_back(
            fmt::format("at most {:.4g} MB/s", static_cast<double>(*tier.bytes_per_second) / 1e6));
    return join(words, ", ");
}

std::string stripe_words(const CheckpointSettings& settings) {
    if (settings.stripe_auto.value_or(false))
        return "by the files' sizes";
    std::vector<std::string> words;
    if (settings.stripe_count)
        words.push_back(*settings.stripe_count < 0
                            ? "over all servers"
                            : fmt::format("over {} servers", *settings.stripe_count));
    if (settings.stripe_bytes)
        words.push_back(fmt::format("{} KiB in one piece", *settings.stripe_bytes >> 10));
    return join(words, ", ");
}

}  // namespace

CheckpointSettings checkpoint_settings(const CheckpointSpec& checkpoint,
                                       const std::string& workdir) {
    CheckpointSettings settings;
    settings.keep = checkpoint.keep;
    settings.keep_every = checkpoint.keep_every;
    settings.keep_best = checkpoint.keep_best;
    if (!checkpoint.better.empty())
        settings.lower_is_better = checkpoint.better == "lower";
    settings.node_local = checkpoint.node_local;
    if (checkpoint.pass_over_unusable)
        settings.pass_over_unusable = true;
    settings.every_steps = checkpoint.every_steps;
    if (const auto interval = save_interval_from(checkpoint.every)) {
        if (interval->steps)
            settings.every_steps = interval->steps;
        if (interval->time)
            settings.every_seconds = std::chrono::duration<double>(*interval->time).count();
        if (interval->optimal)
            settings.optimal = true;
    }
    settings.drain = place_from(checkpoint.drain, workdir);
    settings.drain_keep = checkpoint.drain_keep;
    for (const TierSpec& tier : checkpoint.tiers)
        settings.tiers.push_back(tier_settings(tier, workdir));
    if (checkpoint.drain_wait.count() >= 0)
        settings.drain_wait_seconds = std::chrono::duration<double>(checkpoint.drain_wait).count();
    if (checkpoint.stripe.automatic)
        settings.stripe_auto = true;
    if (checkpoint.stripe.count != 0)
        settings.stripe_count = checkpoint.stripe.count;
    if (checkpoint.stripe.bytes != 0)
        settings.stripe_bytes = static_cast<std::uint64_t>(checkpoint.stripe.bytes);
    settings.restore_from = place_from(checkpoint.restore_from, workdir);
    if (settings != CheckpointSettings{})
        settings.directory = place_from(checkpoint.checkpoint_dir, workdir);
    return settings;
}

std::string keys_without_library(const JobSpec& spec) {
    if (spec.trainer.module.empty() && spec.trainer.command.empty())
        return {};
    const std::string program =
        spec.trainer.module.empty()
            ? std::filesystem::path(spec.trainer.command[0]).filename().string()
            : "python";
    if (!program.starts_with("python") && !program.ends_with(".py"))
        return {};
    const CheckpointSpec& checkpoint = spec.checkpoint;
    std::vector<std::string> keys;
    const auto add = [&keys](const char* key, bool is_set) {
        if (is_set)
            keys.push_back(std::string("checkpoint.") + key);
    };
    add("drain", !checkpoint.drain.empty());
    add("tiers", !checkpoint.tiers.empty());
    add("stripe", checkpoint.stripe != StripeSpec{});
    add("keep_every", checkpoint.keep_every.has_value());
    add("keep_best", checkpoint.keep_best.has_value());
    add("node_local", checkpoint.node_local.value_or(false));
    return join(keys, ", ");
}

std::vector<std::vector<std::string>> checkpoint_rows(const LaunchPlan& plan) {
    const CheckpointSettings settings = checkpoint_settings(plan.spec.checkpoint, plan.workdir);
    if (settings == CheckpointSettings{})
        return {};
    std::vector<std::vector<std::string>> rows;
    rows.push_back({"saved", in_words(settings),
                    settings.directory.empty() ? "where the trainer says" : settings.directory});
    rows.push_back({"kept", what_stays(settings.keep, settings.keep_every, settings.keep_best),
                    settings.node_local.value_or(false) ? "each node its ranks' files alone" : ""});
    if (const std::string stripe = stripe_words(settings); !stripe.empty())
        rows.push_back({"striped", stripe, "where it is Lustre or BeeGFS"});
    if (!settings.drain.empty())
        rows.push_back({"drained", settings.drain,
                        what_stays(settings.drain_keep, settings.keep_every, settings.keep_best)});
    for (const TierSettings& tier : settings.tiers)
        rows.push_back({"drained", tier.place, tier_words(settings, tier)});
    if (!settings.restore_from.empty())
        rows.push_back({"begins from", settings.restore_from, "while nothing of its own is there"});
    return rows;
}

}  // namespace autolaunch::launcher
