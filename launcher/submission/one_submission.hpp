#pragma once
#include "spec/spec.hpp"
#include "submission/batch_request.hpp"
#include "submission/code_state.hpp"
#include "submission/job_end.hpp"
#include "submission/slurm_queue.hpp"
#include "submission/stored_job.hpp"
#include "submission/submit_command.hpp"
#include "sweep/elements.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One submission, step by step: alone by run(), or as one of several.
///
/// Owner: the command. Threads: its owner's. Blocks as submit_to_slurm(). `errors` gets what is
/// wrong with the spec.
class Submission {
public:
    Submission(const SubmitRequest& request, std::vector<SpecError>& errors)
        : request_(request), spec_(request.read.spec), errors_(errors) {}

    int run();

    // Its steps. False: there are errors, and nothing was written.
    bool prepare();
    bool ask_slurm();
    /// Throws ExitError where Slurm does not take it.
    void hand_over();

    /// Before hand_over(): on stages that are there by then, besides the spec's own.
    void depend_on(const std::string& dependency);
    const std::string& job_id() const { return job_id_; }
    const std::string& script() const { return script_; }
    const std::string& dependency() const { return dependency_; }
    nlohmann::ordered_json record() const;
    void tell_start() const;

private:
    void prepare_elements();
    Value element_root(std::size_t index) const;
    std::string element_spec(std::size_t index) const;
    void check_stored_spec() const;
    void lint_script();
    void tell(const std::string& line);
    void prefer_data_nodes();
    /// --prefer of them; empty: it cannot be said so. Blocks 10 s at most.
    std::string features_of(const std::vector<std::string>& nodes) const;
    void choose_staging_nodes();
    BatchScript staging_script_here() const;
    void submit_staging_job(const StoredJob& stored);
    void take_back_staging_job() const;
    void tell_notes();
    int show() const;
    void make_log_folders() const;
    void keep_code();
    void look_at_code();
    void use_snapshot();
    CommandAnswer tell_sbatch(std::vector<std::string> options, const std::string& what) const;
    void print_result(std::optional<int> exit_code) const;

    const SubmitRequest& request_;
    const JobSpec& spec_;
    std::vector<SpecError>& errors_;
    std::filesystem::path folder_;
    BatchRequest batch_;
    std::optional<std::chrono::milliseconds> save_;  // of the newest run
    std::string script_, stored_spec_;
    Value stored_root_;
    SweepSpec stored_sweep_;  // as stored_root_ has it
    std::vector<SweepElement> elements_;
    std::filesystem::path code_folder_;           // where ranks would start
    std::vector<std::filesystem::path> no_code_;  // folders of what they write
    std::optional<CodeState> code_;
    std::optional<CodeCopy> copy_;
    std::vector<std::string> said_;
    std::string job_id_, cluster_;
    std::string dependency_;  // on stages before, besides the spec's own
    StartEstimate estimate_;
    // --stage-first
    std::string slurm_version_;
    std::vector<std::string> staging_nodes_;  // where the job is expected to start
    std::string prefer_;                      // --prefer for these
    std::string staging_job_;
};

}  // namespace autolaunch::launcher
