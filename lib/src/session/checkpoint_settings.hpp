#pragma once
#include <autolaunch/export.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

/// One of several further places of checkpoints.
struct TierSettings {
    std::string place = {};  ///< a directory or s3://bucket/prefix
    std::optional<std::int64_t> every_steps = {};
    std::optional<double> every_seconds = {};
    std::optional<int> keep = {}, keep_best = {};
    std::optional<std::int64_t> keep_every = {};
    std::optional<std::uint64_t> bytes_per_second = {};

    bool operator==(const TierSettings&) const = default;
};

/// What the spec's section `checkpoint` says to the library, in AUTOLAUNCH_CHECKPOINT. It holds for
/// the Checkpointer whose directory is `directory`; what is not there is the trainer's to say.
struct CheckpointSettings {
    std::string directory = {};  ///< absolute; empty: of whichever Checkpointer the trainer has
    std::optional<int> keep = {}, keep_best = {};
    std::optional<std::int64_t> keep_every = {};
    std::optional<bool> lower_is_better = {}, node_local = {}, pass_over_unusable = {};
    std::optional<std::int64_t> every_steps = {};
    std::optional<double> every_seconds = {};
    std::optional<bool> optimal = {};
    std::string drain = {};  ///< the second place: a directory or s3://bucket/prefix
    std::optional<int> drain_keep = {};
    std::vector<TierSettings> tiers = {};  ///< in place of `drain`; the nearest first
    std::optional<double> drain_wait_seconds = {};
    std::optional<bool> stripe_auto = {};
    std::optional<int> stripe_count = {};  ///< -1: all
    std::optional<std::uint64_t> stripe_bytes = {};
    std::string restore_from = {};  ///< a checkpoint, or a place that has some

    bool operator==(const CheckpointSettings&) const = default;
};

/// The places besides `directory`, the nearest first: `tiers`, or `drain` as the one of them. What
/// is to stay in `directory` by keep_every and keep_best stays there, too, where the place says
/// nothing else. Pure.
AUTOLAUNCH_API std::vector<TierSettings> tiers_of(const CheckpointSettings& settings);

/// As JSON with the members' names, on one line; empty where nothing is set. Pure.
AUTOLAUNCH_API std::string to_text(const CheckpointSettings& settings);
/// Throws Error{invalid_argument} that names the variable. Pure.
AUTOLAUNCH_API CheckpointSettings checkpoint_settings_from(std::string_view text);

}  // namespace autolaunch
