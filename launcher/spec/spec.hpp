#pragma once
#include "secrets/secrets.hpp"
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"
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
};

struct SpecResult {
    JobSpec spec;                        ///< complete only without errors
    std::vector<SpecError> errors = {};  ///< all that are wrong, by file and position
    Value site = {};                     ///< the sections that launcher/site reads, as written
    Value checkpoint = {};               ///< the section of that name, for errors at its lines
    Value root = {};  ///< all of it, variables replaced: for errors at the lines of any key
};

/// Reads a spec: the file, what it includes, overrides, then ${VAR}, then the sections. Reads files
/// (bounded in size and number), does not block otherwise, never throws for what is in them.
/// docs/spec.md says what a spec may hold.
SpecResult load_spec(const SpecRequest& request);

/// Whether `argument` looks like an override: a dotted path of names, then =. Its section need not
/// exist, so that a misspelt one is reported as such.
bool is_override(const std::string& argument);

}  // namespace autolaunch::launcher
