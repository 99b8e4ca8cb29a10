#pragma once
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"
#include "spec/value.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// checkpoint.every: "500" steps, "10min" of time, or "optimal". One of the three is set.
struct SaveInterval {
    std::optional<std::int64_t> steps = {};
    std::optional<std::chrono::milliseconds> time = {};
    bool optimal = false;

    bool operator==(const SaveInterval&) const = default;
};
/// Nothing for other text. Pure.
std::optional<SaveInterval> save_interval_from(std::string_view text);

/// What one key of the section alone does not show. Pure.
void check_checkpoint(const Value& root, const CheckpointSpec& checkpoint,
                      std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
