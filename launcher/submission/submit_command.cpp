#include "submission/submit_command.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "submission/one_submission.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

/// Several submissions, each step of all of them before the next step.
class Pipeline {
public:
    explicit Pipeline(const std::vector<StageRequest>& stages) : stages_(stages) {
        errors_.resize(stages.size());
        for (std::size_t i = 0; i < stages.size(); ++i)
            jobs_.push_back(std::make_unique<Submission>(stages[i].job, errors_[i]));
    }

    int run(std::vector<SpecError>& errors) {
        const SubmitRequest& first = stages_.front().job;
        if (!all(errors, [](Submission& job) { return job.prepare(); }))
            return exit_code::kBadSpec;
        if (first.dry_run)
            return show();
        if (!all(errors, [](Submission& job) { return job.ask_slurm(); }))
            return exit_code::kBadSpec;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            hand_over(i);
        if (!first.json)
            for (const auto& job : jobs_)
                first.print(job->job_id() + '\n');
        const int code = first.wait ? wait() : exit_code::kSuccess;
        if (first.json)
            first.print(document(first.wait ? std::optional(code) : std::nullopt));
        return code;
    }

private:
    template <typename Step>
    bool all(std::vector<SpecError>& errors, const Step& step) {
        bool good = true;
        for (const auto& job : jobs_)
            good = step(*job) && good;
        for (const auto& of_stage : errors_)
            errors.insert(errors.end(), of_stage.begin(), of_stage.end());
        return good;
    }

    /// "afterok:12,afterany:13"; a job that is not there yet by its stage's name.
    std::string dependency_of(const StageRequest& stage) const {
        std::vector<std::string> parts;
        for (const StageAfter& after : stage.after)
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                if (stages_[i].name == after.stage)
                    parts.push_back(
                        "after" + after.how + ':' +
                        (jobs_[i]->job_id().empty() ? after.stage : jobs_[i]->job_id()));
        return join(parts, ",");
    }

    int show() const {
        const SubmitRequest& first = stages_.front().job;
        if (first.json)
            first.print(document({}));
        for (std::size_t i = 0; !first.json && i < jobs_.size(); ++i)
            first.print(
                "# ---- stage " + stages_[i].name +
                (stages_[i].after.empty() ? "" : " --dependency=" + dependency_of(stages_[i])) +
                '\n' + jobs_[i]->script());
        first.say("not submitted: --dry-run; Slurm was not asked");
        return exit_code::kSuccess;
    }

    void hand_over(std::size_t index) {
        Submission& job = *jobs_[index];
        if (!stages_[index].after.empty())
            job.depend_on(dependency_of(stages_[index]));
        try {
            job.hand_over();
        } catch (const ExitError& error) {
            std::string before;
            for (std::size_t i = 0; i < index; ++i)
                before += ' ' + jobs_[i]->job_id();
            throw ExitError(error.exit_code(), error.code(),
                            "stage " + stages_[index].name + ": " + error.what(),
                            error.hint() + (before.empty() ? ""
                                                           : "\nthe stages before it are "
                                                             "submitted: scancel" +
                                                                 before + " takes them back"));
        }
        if (stages_[index].after.empty())
            return job.tell_start();
        stages_[index].job.say("job " + job.job_id() + " (" + stages_[index].name + ") waits for " +
                               job.dependency());
    }

    int wait() const {
        int code = exit_code::kSuccess;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            code = std::max(code, wait_for_job(jobs_[i]->job_id(), stages_[i].job.say));
        return code;
    }

    std::string document(std::optional<int> code) const {
        Json list = Json::array();
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            Json one = jobs_[i]->record();
            one["stage"] = stages_[i].name;
            one["dependency"] = dependency_of(stages_[i]);
            if (stages_[i].job.dry_run)
                one["script"] = jobs_[i]->script();
            list.push_back(std::move(one));
        }
        Json json = {{"format", 1}, {"pipeline", std::move(list)}};
        if (code)
            json["exit_code"] = *code;
        return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
    }

    const std::vector<StageRequest>& stages_;
    std::vector<std::vector<SpecError>> errors_;
    std::vector<std::unique_ptr<Submission>> jobs_;
};

}  // namespace

int submit_to_slurm(const SubmitRequest& request, std::vector<SpecError>& errors) {
    return Submission(request, errors).run();
}

int submit_pipeline(const std::vector<StageRequest>& stages, std::vector<SpecError>& errors) {
    return Pipeline(stages).run(errors);
}

}  // namespace autolaunch::launcher
