#pragma once
#include "spec/job_spec.hpp"
#include "spec/spec.hpp"
#include "submission/array_numbers.hpp"
#include "submission/batch_script.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where the job is submitted.
struct BatchPlace {
    std::string folder;       ///< where somebody typed it, absolute: relative paths are of it
    std::string stored_spec;  ///< that the job reads, absolute
    std::string autolaunch;   ///< the program, absolute
    std::vector<std::string> words = {};  ///< behind --: PROGRAM and its arguments
    /// What 99 of 100 saves of the newest run took; nothing: none was measured.
    std::optional<std::chrono::milliseconds> save = {};
};

/// What sbatch gets for a spec.
struct BatchRequest {
    BatchScript script;
    std::vector<SpecError> errors;   ///< `script` is whole only without them
    std::vector<std::string> notes;  ///< what was chosen, and the user might not expect
    std::optional<ArrayNumbers> array = {};
    std::vector<std::string> depends_on = {};  ///< jobs that --dependency names
};

/// `read` is of SpecRequest::for_later, without errors. Pure.
BatchRequest batch_request(const SpecResult& read, const BatchPlace& place);

}  // namespace autolaunch::launcher
