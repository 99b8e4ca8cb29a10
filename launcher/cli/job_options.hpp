#pragma once
#include "cli/options.hpp"
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"
#include "spec/stored_spec.hpp"
#include "spec/sweep_spec.hpp"
#include "spec/value.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Writes options into `spec`, with torchrun's meanings; what is not given stays. Appends to
/// `notes` what has no effect. Pure; throws UsageError naming the option.
void apply_options(const JobOptions& options, JobSpec& spec, std::vector<std::string>& notes);

/// The program to run: the command line's, else the spec's. A .py script and a module become an
/// argv of the Python interpreter. Throws UsageError when there is no program at all.
void choose_program(const CommandLine& line, const std::map<std::string, std::string>& environment,
                    JobSpec& spec);

/// The interpreter for scripts and modules: $PYTHON_EXEC, else that of the active virtual
/// environment, else python3.
std::string python_interpreter(const std::map<std::string, std::string>& environment);

struct JobRequest {
    JobSpec spec;
    std::vector<SpecError> errors;  ///< of the spec; `spec` is whole only without them
    std::vector<std::string> notes;
    Value site = {};         ///< SpecResult::site
    Value checkpoint = {};   ///< SpecResult::checkpoint
    Value root = {};         ///< SpecResult::root
    SweepSpec sweep = {};    ///< SpecResult::sweep
    StoredSpec stored = {};  ///< SpecResult::stored, for submit
};
/// Everything together: PET_* below the spec, the spec below the command line. Reads the spec's
/// files.
JobRequest job_request(const CommandLine& line,
                       const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
