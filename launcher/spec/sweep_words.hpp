#pragma once
#include "spec/spec_error.hpp"
#include "spec/sweep_spec.hpp"
#include "spec/value.hpp"

#include <cstddef>
#include <vector>

namespace autolaunch::launcher {

/// So many jobs at most come from one sweep.
inline constexpr std::size_t kMostElements = 10'000;

/// The section `sweep`. What is wrong with it goes to `errors`; whether the keys that it sets exist
/// shows when an element is read. Pure.
void read_sweep(const Value& section, SweepSpec& sweep, std::vector<SpecError>& errors);

/// How many jobs it makes: those of the grid, then those of the list, then the samples.
/// kMostElements + 1 stands for all that is more. Pure.
std::size_t count_elements(const SweepSpec& sweep);

}  // namespace autolaunch::launcher
