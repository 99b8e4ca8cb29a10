#pragma once
#include "spec/job_spec.hpp"
#include "spec/schema.hpp"
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Reads one key's value to where the table says; null leaves the default. `path` is the full key,
/// for messages.
void read_field(const Key& key, const std::string& path, const Value& value, JobSpec& spec,
                std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
