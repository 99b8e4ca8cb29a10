#pragma once
#include "allocation/allocation.hpp"
#include "spec/spec.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct SubmitRequest {
    SpecResult read;                 ///< of SpecRequest::for_later, without errors
    std::vector<std::string> words;  ///< behind --: PROGRAM and its arguments
    std::vector<std::string> overrides;
    std::string version;  ///< of autolaunch
    bool dry_run = false, hold = false, wait = false, json = false, snapshot = false;
    bool stage_first = false;  ///< a job before it brings its data (staging_job.hpp)
    EnvironmentMap environment;
    std::function<void(const std::string& line)> say;    ///< to stderr
    std::function<void(const std::string& text)> print;  ///< to stdout, for programs
};

/// `autolaunch submit`: the spec is stored beside the job, Slurm is asked what it thinks of the
/// script, and gets it. On stdout the job's number alone, or one object with `json`, or the script
/// with `dry_run`. What is wrong with the spec goes to `errors`, and nothing was done then. The
/// exit code; throws Error. Blocks 2 min at most; with `wait` as long as the job lasts.
int submit_to_slurm(const SubmitRequest& request, std::vector<SpecError>& errors);

/// One of several jobs that are handed over together.
struct StageRequest {
    std::string name;
    std::vector<StageAfter> after;  ///< stages that stand before this one
    SubmitRequest job;
};
/// The same of a pipeline: all are looked at before the first is submitted, and each waits for
/// those that it comes after (--dependency). On stdout the numbers, a line each. A job whose
/// dependency can no longer come true is cancelled. Where Slurm refuses one, those before it are
/// there, and are named.
int submit_pipeline(const std::vector<StageRequest>& stages, std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
