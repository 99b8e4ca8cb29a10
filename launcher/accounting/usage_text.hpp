#pragma once
#include "accounting/usage.hpp"

#include <string>

namespace autolaunch::launcher {

// What `autolaunch report --since` prints. What is not known is an empty cell, "-" in the table,
// and null in JSON. Pure.

std::string usage_table(const Usage& usage, const UsageRequest& request);
/// Cells that need it are quoted as RFC 4180 says; first comes a line of names.
std::string usage_csv(const Usage& usage, const UsageRequest& request);
std::string usage_json(const Usage& usage, const UsageRequest& request);

}  // namespace autolaunch::launcher
