#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// checkpoint.stripe.
struct StripeSpec {
    bool automatic = false;
    int count = 0;           ///< -1: all; 0: not said
    std::int64_t bytes = 0;  ///< 0: not said

    bool operator==(const StripeSpec&) const = default;
};

/// A further place of checkpoints: an entry of checkpoint.tiers.
struct TierSpec {
    std::string place;  ///< a directory or s3://BUCKET/PREFIX
    std::string every;  ///< steps or a time, as save_interval_from() reads it; empty: each may come
    std::optional<int> keep, keep_best;
    std::optional<std::int64_t> keep_every;
    std::optional<std::int64_t> bandwidth;  ///< bytes a second, over the job

    bool operator==(const TierSpec&) const = default;
};

}  // namespace autolaunch::launcher
