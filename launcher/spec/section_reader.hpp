#pragma once
#include "spec/job_spec.hpp"
#include "spec/value.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Reads the sections of a whole spec, ${VAR} replaced, into `spec` by the table of schema.hpp;
/// everything that is unknown or mistyped goes to `errors`. Fills spec.trainer_config too.
void read_sections(const Value& root, JobSpec& spec, std::vector<SpecError>& errors);

/// Those parts of a spec that launcher/site reads, where they stand: a mapping of sections.
Value site_sections(const Value& root);

}  // namespace autolaunch::launcher
