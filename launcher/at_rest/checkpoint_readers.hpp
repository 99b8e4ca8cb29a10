#pragma once
#include "site/site_settings.hpp"
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"
#include "spec/value.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Adds the keys of recipients_file to the recipients, checks each, and makes paths absolute: ranks
/// may start elsewhere. What is no public key goes to `errors`, at its line. `section` is the
/// spec's `checkpoint`, as written. Blocks as the disk does.
void settle_readers(CheckpointSpec& checkpoint, const Value& section,
                    std::vector<SpecError>& errors);

/// Where data_security.encryption_at_rest holds for the job: its checkpoints must be encrypted, and
/// a spec that saves some and names no recipient is wrong. Pure.
void require_readers(CheckpointSpec& checkpoint, const Value& section, const SiteSettings& site,
                     std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
