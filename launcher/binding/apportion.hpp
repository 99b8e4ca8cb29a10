#pragma once
#include <vector>

namespace autolaunch::launcher {

/// Deals `seats` to parties by weight: each gets the whole part of its quota, what is left goes to
/// the largest remainders, the lower index first among equals (Hamilton's method). All weights
/// zero: as if equal. Pure.
std::vector<int> apportion(const std::vector<int>& weights, int seats);

}  // namespace autolaunch::launcher
