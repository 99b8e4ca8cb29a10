#pragma once
#include "spec/spec_error.hpp"
#include "spec/tier_spec.hpp"
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// checkpoint.tiers: a list of {place, every, keep, keep_every, keep_best, bandwidth}. False where
/// it is no list; what is wrong in it goes to `errors`. Pure.
bool read_tiers(const Value& value, const std::string& path, std::vector<TierSpec>& tiers,
                std::vector<SpecError>& errors);

/// checkpoint.stripe: auto, or {count: N or all, size: 4MiB}. False for other kinds of values.
/// Pure.
bool read_stripe(const Value& value, const std::string& path, StripeSpec& stripe,
                 std::vector<SpecError>& errors);

/// Why it is no place of checkpoints; empty: it is one. Pure.
std::string why_no_place(const std::string& place);
/// Whether two of them are the same by their names. Pure.
bool is_same_place(const std::string& one, const std::string& other);

}  // namespace autolaunch::launcher
