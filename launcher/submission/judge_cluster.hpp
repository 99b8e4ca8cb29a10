#pragma once
#include "spec/spec_error.hpp"
#include "submission/batch_request.hpp"
#include "submission/cluster_answers.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the cluster makes of a request, a sentence each, with the line to change.
struct ClusterVerdict {
    std::vector<SpecError> refused;    ///< it cannot be submitted
    std::vector<SpecError> warnings;   ///< it would wait for ever, or end otherwise than meant
    std::vector<std::string> unknown;  ///< what could not be asked
};

/// Reads the time zone; otherwise pure.
ClusterVerdict judge_cluster(const SpecResult& read, const BatchRequest& request,
                             const ClusterAnswers& answers,
                             std::optional<std::chrono::milliseconds> save,
                             std::chrono::system_clock::time_point now);

/// Variables of sbatch's that win over what the script says, such as SBATCH_TIMELIMIT. Pure.
std::vector<std::string> variables_of_sbatch(const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
