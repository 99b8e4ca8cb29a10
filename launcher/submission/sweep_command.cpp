#include "submission/sweep_command.hpp"

#include "base/file_system.hpp"
#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"
#include "exit_codes/exit_error.hpp"
#include "stopping/scontrol_line.hpp"
#include "stopping/slurm_job_record.hpp"
#include "submission/array_numbers.hpp"
#include "submission/judge_cluster.hpp"
#include "submission/slurm_queue.hpp"
#include "submission/stored_job.hpp"
#include "sweep/sweep_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr auto kSlurmTime = 15s;
constexpr std::size_t kMostSubmission = std::size_t{16} << 20;
constexpr int kMostNesting = 16;

[[noreturn]] void no_sweep(const fs::path& folder, const std::string& why) {
    throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                    "there is no sweep in " + folder.string() + ": " + why,
                    "name the folder that autolaunch submit told of, such as "
                    "runs/.submitted/NAME-DATE-TIME-XXXX, or the array's number");
}

/// Nothing: it has none.
std::optional<Json> read_submission(const fs::path& folder) {
    const auto text = OwnedFolder::open(folder).read(kStoredRecord, kMostSubmission);
    if (!text || !nests_at_most(*text, kMostNesting))
        return std::nullopt;
    Json json = Json::parse(*text, nullptr, false);
    return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

/// The arrays that the elements were handed to Slurm in, the newest last.
struct SweepJobs {
    struct Array {
        std::string job;
        std::set<int> elements;  ///< empty: all
    };
    std::vector<Array> arrays;

    std::string newest_of(int element) const {
        for (auto array = arrays.rbegin(); array != arrays.rend(); ++array)
            if (array->elements.empty() || array->elements.contains(element))
                return array->job;
        return {};
    }
};

SweepJobs jobs_of(const Json& submission) {
    SweepJobs jobs;
    if (submission.contains("job_id") && submission["job_id"].is_string())
        jobs.arrays.push_back({submission["job_id"].get<std::string>(), {}});
    if (submission.contains("resubmitted"))
        for (const Json& again : submission.at("resubmitted")) {
            const auto elements = whole_numbers<int>(again.at("elements"));
            jobs.arrays.push_back({again.at("job_id").get<std::string>(),
                                   std::set<int>(elements.begin(), elements.end())});
        }
    return jobs;
}

bool is_job_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// By an array's number, of those below ./runs.
fs::path folder_of_job(const std::string& job) {
    const fs::path submitted = absolute_path("runs") / ".submitted";
    std::error_code none;
    for (const fs::path& folder : list_folder(submitted, none)) {
        try {
            const auto json = read_submission(folder);
            const auto jobs = json ? jobs_of(*json) : SweepJobs{};
            if (std::any_of(jobs.arrays.begin(), jobs.arrays.end(),
                            [&](const auto& array) { return array.job == job; }))
                return folder;
        } catch (const Error&) {  // another user's, or no folder
        } catch (const nlohmann::json::exception&) {
        }
    }
    no_sweep(submitted, "no submission has job " + job);
}

/// What Slurm says of the elements of its arrays.
class SlurmStates {
public:
    explicit SlurmStates(const SweepJobs& jobs) {
        for (const SweepJobs::Array& array : jobs.arrays) {
            const CommandAnswer answer =
                ask_command(slurm_job_question(array.job), Deadline::after(kSlurmTime));
            const bool forgotten = answer.errors.find("Invalid job id") != std::string::npos;
            if (answer.good())
                take_scontrol(array.job, answer.out);
            else if (!forgotten)
                silent_.insert(array.job);
        }
    }

    bool answered(const std::string& job) const { return !silent_.contains(job); }
    std::optional<std::string> state(const std::string& job, int element) const {
        const auto found = states_.find({job, element});
        return found == states_.end() ? std::nullopt : std::optional(found->second);
    }
    /// Of elements that scontrol does not know any more: where there is accounting.
    void ask_accounting(const std::string& job) {
        const CommandAnswer answer =
            ask_command({"sacct", "-X", "-n", "-P", "-j", job, "-o", "JobID,State"},
                        Deadline::after(kSlurmTime));
        if (!answer.good())
            return;
        for (const std::string& line : split(answer.out, '\n')) {
            const auto words = split(line, '|');
            const std::size_t bar = line.find('_');
            if (words.size() != 2 || bar == std::string::npos)
                continue;
            std::string numbers = words[0].substr(bar + 1);
            std::erase_if(numbers, [](char c) { return c == '[' || c == ']'; });
            add(job, numbers, words[1].substr(0, words[1].find(' ')));
        }
    }

private:
    void take_scontrol(const std::string& job, const std::string& text) {
        for (const std::string& line : split(text, '\n'))
            add(job, scontrol_field(line, "ArrayTaskId"), scontrol_field(line, "JobState"));
    }
    void add(const std::string& job, const std::string& numbers, const std::string& state) {
        for (const long long number : list_array(numbers))
            states_.try_emplace({job, static_cast<int>(number)}, state);
    }

    std::map<std::pair<std::string, int>, std::string> states_;
    std::set<std::string> silent_;
};

class SweepCommand {
public:
    explicit SweepCommand(const SweepRequest& request) : request_(request) {
        folder_ = is_job_number(request.sweep) && !is_folder(request.sweep)
                      ? folder_of_job(request.sweep)
                      : absolute_path(request.sweep).lexically_normal();
        if (!is_folder(folder_))
            no_sweep(folder_, "there is no such folder");
        auto submission = read_submission(folder_);
        if (!submission)
            no_sweep(folder_, std::string(kStoredRecord) + " is not there, or is none of ours");
        submission_ = std::move(*submission);
        if (!submission_.contains("sweep"))
            no_sweep(folder_, "what was submitted there is one job");
        jobs_ = jobs_of(submission_);
    }

    int run() {
        SweepTable table = look();
        if (request_.action == SweepRequest::Action::resubmit)
            return resubmit(table);
        sort_rows(table);
        request_.print(request_.json ? sweep_json(table) : sweep_text(table));
        return exit_code::kSuccess;
    }

private:
    SweepTable look() {
        SweepTable table{.folder = folder_.string()};
        const Json& sweep = submission_.at("sweep");
        table.metric = sweep.at("metric").get<std::string>();
        table.maximise = sweep.at("mode") == "max";
        auto records = read_element_records(folder_, table.notes);
        SlurmStates slurm(jobs_);
        ask_for_lost(slurm, records);
        int element = 0;
        std::set<std::string> silent;
        for (const Json& values : sweep.at("elements")) {
            ElementRow row{.element = element, .array_job = jobs_.newest_of(element)};
            for (const auto& [key, value] : values.items())
                row.values.emplace_back(key, value.get<std::string>());
            if (const auto found = records.find(element); found != records.end())
                row.record = std::move(found->second);
            const bool answered = slurm.answered(row.array_job);
            if (!answered)
                silent.insert(row.array_job);
            row.standing =
                judge_element(row.record ? &*row.record : nullptr,
                              slurm.state(row.array_job, element), row.array_job, answered);
            table.rows.push_back(std::move(row));
            ++element;
        }
        for (const std::string& job : silent)
            table.notes.push_back("Slurm does not answer (scontrol show job " + job +
                                  "): states are what the elements have written");
        return table;
    }

    /// Slurm forgets a job some minutes after its end.
    void ask_for_lost(SlurmStates& slurm, const std::map<int, ElementRecord>& records) const {
        std::set<std::string> arrays;
        const auto count = static_cast<int>(submission_.at("sweep").at("elements").size());
        for (int element = 0; element < count; ++element) {
            const std::string job = jobs_.newest_of(element);
            const auto found = records.find(element);
            const bool told =
                found != records.end() && found->second.ended && found->second.array_job == job;
            if (!told && slurm.answered(job) && !slurm.state(job, element))
                arrays.insert(job);
        }
        for (const std::string& job : arrays)
            slurm.ask_accounting(job);
    }

    std::vector<int> chosen(const SweepTable& table) const {
        if (request_.elements.empty())
            return failed_elements(table);
        std::set<int> chosen(request_.elements.begin(), request_.elements.end());
        for (const int element : chosen) {
            const auto row =
                std::find_if(table.rows.begin(), table.rows.end(),
                             [&](const ElementRow& one) { return one.element == element; });
            if (row == table.rows.end())
                throw UsageError(fmt::format("the sweep has no element {}", element),
                                 fmt::format("0 to {}", table.rows.size() - 1));
            const ElementState state = row->standing.state;
            if (state == ElementState::running || state == ElementState::pending)
                throw UsageError(
                    fmt::format("element {} is {}", element, name_of(state)),
                    fmt::format("scancel {}_{} ends it first", row->array_job, element));
        }
        return {chosen.begin(), chosen.end()};
    }

    int resubmit(const SweepTable& table) {
        for (const std::string& note : table.notes)
            request_.say(note);
        const std::vector<int> elements = chosen(table);
        if (elements.empty()) {
            request_.say("no element has failed; nothing was submitted");
            return exit_code::kSuccess;
        }
        std::string numbers = array_text(elements);
        const Json& sweep = submission_.at("sweep");
        if (sweep.contains("throttle"))
            numbers +=
                fmt::format("%{}", autolaunch::whole_number<long long>(sweep.at("throttle")));
        const std::string script = (folder_ / kStoredScript).string();
        if (request_.dry_run) {
            request_.print("sbatch --array=" + numbers + ' ' + script + '\n');
            return exit_code::kSuccess;
        }
        for (const std::string& name : variables_of_sbatch(request_.environment))
            request_.say(name + " is set here: sbatch takes it in place of what the script says");
        const CommandAnswer answer = ask_sbatch({"--parsable", "--array=" + numbers, script},
                                                "whether they were submitted is not known");
        const std::string job = split(trim(answer.out), ';')[0];
        submission_["resubmitted"].push_back({{"job_id", job}, {"elements", elements}});
        OwnedFolder::open(folder_).replace(kStoredRecord, submission_.dump(2) + '\n');
        request_.print(request_.json
                           ? Json{{"format", 1}, {"job_id", job}, {"elements", elements}}.dump(2) +
                                 '\n'
                           : job + '\n');
        request_.say(fmt::format("job {}: element{} {} again", job, elements.size() == 1 ? "" : "s",
                                 array_text(elements)));
        return exit_code::kSuccess;
    }

    const SweepRequest& request_;
    fs::path folder_;
    Json submission_;
    SweepJobs jobs_;
};

}  // namespace

int run_sweep_command(const SweepRequest& request) try {
    return SweepCommand(request).run();
} catch (const nlohmann::json::exception& error) {
    throw ExitError(exit_code::kBadData, ErrorCode::corrupt,
                    request.sweep + ": " + kStoredRecord + " is not as autolaunch submit wrote it",
                    error.what());
}

}  // namespace autolaunch::launcher
