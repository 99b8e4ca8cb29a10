#pragma once
#include "secrets/secrets.hpp"
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"
#include "spec/stored_spec.hpp"
#include "spec/sweep_spec.hpp"
#include "spec/value.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct SpecRequest {
    std::string file;                    ///< as the user named it
    std::vector<std::string> overrides;  ///< KEY=VALUE of the command line; a later one wins
    std::map<std::string, std::string> environment;  ///< for ${VAR}
    JobSpec base = {};                               ///< what keys that are not given keep
    Secrets secrets = Secrets::mask;                 ///< whether errors may quote them
    std::optional<std::string> text =
        {};  ///< the file's, where it was read before: a pipe is read once
    /// The job is to start later and elsewhere: SpecResult::stored is filled, and Slurm's variables
    /// that are not set count as 1.
    bool for_later = false;
};

struct SpecResult {
    JobSpec spec;                        ///< complete only without errors
    std::vector<SpecError> errors = {};  ///< all that are wrong, by file and position
    Value site = {};                     ///< the sections that launcher/site reads, as written
    Value checkpoint = {};               ///< the section of that name, for errors at its lines
    Value root = {};  ///< all of it, variables replaced: for errors at the lines of any key
    /// The section of that name: which jobs this spec makes, or which of a sweep's it is.
    SweepSpec sweep = {};
    /// With SpecRequest::for_later: what the job is to read in the file's place (stored_spec.hpp).
    StoredSpec stored = {};
};

/// Reads a spec: the file, what it includes, overrides, then ${VAR}, then the sections. Reads files
/// (bounded in size and number), does not block otherwise, never throws for what is in them.
/// docs/spec.md says what a spec may hold.
SpecResult load_spec(const SpecRequest& request);

/// One element of a sweep: `read` with these keys set, before which `base` is what keys that are
/// not given keep. Its trees have no section `sweep` any more. What is wrong with it stands in
/// `errors`, at the places of the sweep. Pure.
SpecResult with_settings(const SpecResult& read, const SweepElement& settings, const JobSpec& base);

/// Whether `argument` looks like an override: a dotted path of names, then =. Its section need not
/// exist, so that a misspelt one is reported as such.
bool is_override(const std::string& argument);

}  // namespace autolaunch::launcher
