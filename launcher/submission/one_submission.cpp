#include "submission/one_submission.hpp"

#include "allocation/hostlist.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "base/user_database.hpp"
#include "exit_codes/exit_error.hpp"
#include "lint/lint.hpp"
#include "secrets/secrets.hpp"
#include "spec/override.hpp"
#include "spec/sweep_words.hpp"
#include "stopping/save_times.hpp"
#include "submission/batch_request.hpp"
#include "submission/code_state.hpp"
#include "submission/data_nodes.hpp"
#include "submission/job_end.hpp"
#include "submission/judge_cluster.hpp"
#include "submission/slurm_queue.hpp"
#include "submission/staging_job.hpp"
#include "submission/stored_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr std::size_t kShownElements = 20;
constexpr auto kClusterTime = 15s, kGitTime = 15s, kCopyTime = 60s, kFeatureTime = 10s;

std::string program_path() {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "autolaunch" : path.string();
}

/// Where the job's runs will be; one whose name only the job knows counts as none.
std::string runs_of(const SpecResult& read) {
    const Entry* entry = find_in_spec(read.root, "monitoring", "log_path");
    const bool known = entry != nullptr && !entry->value.of_job;
    return known && !read.spec.monitoring.log_path.empty() ? read.spec.monitoring.log_path : "runs";
}

std::string job_name(const JobSpec& spec) {
    const std::string file = std::filesystem::path(spec.spec_file).stem();
    return !spec.slurm.job_name.empty() ? spec.slurm.job_name
           : !spec.name.empty()         ? spec.name
                                        : file;
}

Json sweep_json(const SweepSpec& sweep, const std::vector<SweepElement>& elements,
                const std::optional<ArrayNumbers>& array) {
    Json json = {{"metric", name_of(sweep.goal.metric)},
                 {"mode", sweep.goal.maximise ? "max" : "min"}};
    if (array && array->throttle)
        json["throttle"] = *array->throttle;
    json["elements"] = Json::array();
    for (const SweepElement& element : elements) {
        Json values = Json::object();
        for (const SweepSetting& setting : element)
            values[setting.key] = value_text(setting.value);
        json["elements"].push_back(std::move(values));
    }
    return json;
}

}  // namespace

bool Submission::prepare() {
    const std::string runs = runs_of(request_.read);
    folder_ = folder_of_submission(runs, job_name(spec_));
    save_ = SaveTimes::read(std::filesystem::path(runs) / "latest").p99();
    BatchPlace place{.folder = current_folder(),
                     .stored_spec = folder_ / kStoredSpec,
                     .autolaunch = program_path(),
                     .words = request_.words,
                     .save = save_};
    batch_ = batch_request(request_.read, place);
    errors_ = batch_.errors;
    if (!errors_.empty())
        return false;
    script_ = render_batch_script(batch_.script);
    if (request_.stage_first) {
        const std::string why =
            why_no_staging_job(batch_.script, spec_.storage, batch_.array.has_value());
        if (!why.empty()) {
            errors_.push_back({spec_.spec_file, 0, 0, "storage", why});
            return false;
        }
    }
    look_at_code();
    check_stored_spec();
    stored_root_ = request_.read.stored.root;
    if (!spec_.slurm.requeue)  // or else what #SBATCH --requeue allows nobody does
        set_in_spec(stored_root_, "slurm_config", "requeue", "true", true);
    if (request_.snapshot)
        use_snapshot();
    stored_spec_ = "# By autolaunch submit: " + absolute_path(spec_.spec_file).string() +
                   " as it was then. The job reads this file, at each start.\n" +
                   to_yaml(stored_root_);
    if (request_.read.sweep.makes_elements())
        prepare_elements();
    lint_script();
    tell_notes();
    return errors_.empty();
}

/// Each element has a spec of its own beside the sweep's, which a requeue reads.
void Submission::prepare_elements() {
    read_sweep(stored_root_.find("sweep")->value, stored_sweep_, errors_);
    elements_ = sweep_elements(stored_sweep_);
    check_elements(request_.read, elements_, errors_);
    for (const std::string& key : new_keys(request_.read))
        said_.push_back("the sweep sets " + key +
                        ", which the spec has nowhere else: is it spelt as the trainer reads it?");
    std::string shared;
    for (std::size_t i = 0; i < elements_.size() && errors_.empty(); ++i) {
        const Value root = element_root(i);
        refuse_stored_secrets(root, errors_);
        const Entry* folder = find_in_spec(root, "checkpoint", "checkpoint_dir");
        if (shared.empty() && folder != nullptr &&
            folder->value.text.ends_with(fmt::format("/element-{}", i)))
            shared = folder->value.text;
    }
    if (!shared.empty())
        said_.push_back("checkpoint.checkpoint_dir: each element has a folder of its own, " +
                        shared + " and so on");
}

Value Submission::element_root(std::size_t index) const {
    Value root = stored_root_;
    std::vector<SpecError> same;  // check_elements() has them
    for (const SweepSetting& setting : elements_[index])
        set_path(root, setting.key, setting.value, setting.key_at, same);
    for (const char* key : {"checkpoint_dir", "drain"}) {
        const Entry* common = find_in_spec(stored_root_, "checkpoint", key);
        const Entry* own = find_in_spec(root, "checkpoint", key);
        const bool is_shared = common != nullptr && own != nullptr && own->value.is_scalar() &&
                               !own->value.text.empty() && own->value.text == common->value.text &&
                               own->value.text.find("${SLURM_") == std::string::npos;
        if (is_shared)
            set_in_spec(root, "checkpoint", key,
                        own->value.text + "/element-" + std::to_string(index));
    }
    return root;
}

std::string Submission::element_spec(std::size_t index) const {
    return fmt::format(
               "# By autolaunch submit: element {} of the sweep in {} as it was then. The "
               "element's job reads this file, at each start.\n",
               index, absolute_path(spec_.spec_file).string()) +
           to_yaml(stored_tree(element_root(index), stored_sweep_, static_cast<int>(index),
                               folder_.string(), elements_[index]));
}

/// What git says of the folder where ranks start.
void Submission::look_at_code() {
    std::string why;
    // git names folders without links in them.
    const auto whole = [](const std::filesystem::path& path) {
        std::error_code error;
        const auto real = std::filesystem::weakly_canonical(absolute_path(path), error);
        return error ? absolute_path(path).lexically_normal() : real;
    };
    code_folder_ = whole(spec_.trainer.workdir.empty() ? "." : spec_.trainer.workdir);
    no_code_ = {whole(runs_of(request_.read))};
    if (!spec_.checkpoint.checkpoint_dir.empty())
        no_code_.push_back(whole(code_folder_ / spec_.checkpoint.checkpoint_dir));
    code_ = read_code_state(code_folder_, no_code_, Deadline::after(kGitTime), why);
    if (!why.empty())
        said_.push_back("which code the job will run is not recorded: " + why);
}

/// Ranks start in the copy; what they save is to be where it would be without.
void Submission::use_snapshot() {
    const std::filesystem::path root = code_ ? std::filesystem::path(code_->root) : code_folder_;
    const auto workdir =
        (folder_ / kStoredCode / code_folder_.lexically_relative(root)).lexically_normal();
    set_in_spec(stored_root_, "trainer", "workdir", workdir.string());
    for (const char* key : {"checkpoint_dir", "drain", "restore_from"}) {
        const Entry* entry = find_in_spec(stored_root_, "checkpoint", key);
        if (entry == nullptr || !entry->value.is_scalar() || entry->value.text.empty() ||
            std::string("/~$").find(entry->value.text[0]) != std::string::npos ||
            entry->value.text.find("://") != std::string::npos)
            continue;
        set_in_spec(stored_root_, "checkpoint", key,
                    (code_folder_ / entry->value.text).lexically_normal().string());
    }
}

/// What was written reads as what was asked for, or nothing is submitted.
void Submission::check_stored_spec() const {
    const SpecResult again = load_spec({.file = kStoredSpec,
                                        .overrides = {},
                                        .environment = request_.environment,
                                        .base = {},
                                        .text = to_yaml(request_.read.stored.root),
                                        .for_later = true});
    if (!again.errors.empty() || again.spec.trainer_config != spec_.trainer_config ||
        again.spec.trainer.env != request_.read.spec.trainer.env)
        throw ExitError(exit_code::kInternal, ErrorCode::corrupt,
                        "the spec does not read the same once it is stored" +
                            (again.errors.empty() ? "" : ": " + to_string(again.errors[0])),
                        "please report it; sbatch and srun autolaunch -c work without this");
    if (read_batch_script(script_) != batch_.script || !comes_to_autolaunch(script_))
        errors_.push_back({spec_.spec_file, 0, 0, "slurm_config.setup",
                           "its lines take the script's end with them: a quote or a here-document "
                           "that is not closed?"});
}

/// The user's own lines in it may have mistakes.
void Submission::lint_script() {
    LintRequest asked;
    asked.file = kStoredScript;
    asked.text = script_;
    asked.resources_of = [this](const std::string&) { return std::optional(spec_.resources); };
    for (const LintFinding& finding : lint(asked)) {
        const std::string text = finding.message + " (" + finding.fix + ") [" + finding.rule + "]";
        if (finding.severity == LintSeverity::error)
            errors_.push_back({spec_.spec_file, 0, 0, "slurm_config", text});
        else if (finding.severity == LintSeverity::warning)
            batch_.notes.push_back(text);
    }
}

int Submission::show() const {
    if (request_.json) {
        Json json = record();
        json["script"] = script_;
        if (request_.stage_first)
            json["staging_script"] = render_batch_script(staging_script_here());
        json["spec"] = stored_spec_;
        request_.print(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
    } else {
        request_.print(script_);
        if (request_.stage_first)
            request_.print("# ---- before it, on nodes that Slurm says (--nodelist)\n" +
                           render_batch_script(staging_script_here()));
        for (std::size_t i = 0; i < elements_.size() && i < kShownElements; ++i)
            request_.say(fmt::format("element {}: {}", i, describe(elements_[i])));
        if (elements_.size() > kShownElements)
            request_.say(fmt::format("… {} elements in all", elements_.size()));
    }
    request_.say("not submitted: --dry-run; Slurm was not asked, and " +
                 (folder_ / kStoredSpec).string() + " is not there");
    return exit_code::kSuccess;
}

/// Slurm makes none: the job would fail at once, and say nothing.
void Submission::make_log_folders() const {
    for (const char* name : {"output", "error"}) {
        const BatchOption* option = batch_.script.option(name);
        if (option == nullptr || !option->value)
            continue;
        const auto folder = absolute_path(*option->value).parent_path();
        if (is_folder(folder))
            continue;
        make_folders(folder);
        request_.say("made the folder " + folder.string() + ", where slurm_config." + name +
                     " is to be");
    }
}

CommandAnswer Submission::tell_sbatch(std::vector<std::string> options,
                                      const std::string& what) const {
    if (!dependency_.empty())
        options.insert(options.end(), {"--dependency=" + dependency_, "--kill-on-invalid-dep=yes"});
    options.push_back((folder_ / kStoredScript).string());
    return ask_sbatch(std::move(options), what);
}

Json Submission::record() const {
    Json json = {{"format", 1},
                 {"job_id", job_id_},
                 {"name", batch_.script.option("job-name")->value.value_or("")},
                 {"spec_file", absolute_path(spec_.spec_file).string()},
                 {"overrides", request_.overrides},
                 {"folder", folder_.string()},
                 {"runs", no_code_[0].string()},
                 {"version", request_.version},
                 {"notes", said_}};
    json["code"] = code_ ? to_json(*code_) : Json();
    if (copy_)
        json["snapshot"] = {{"folder", (folder_ / kStoredCode).string()},
                            {"files", copy_->files},
                            {"bytes", copy_->bytes}};
    if (request_.read.sweep.makes_elements())
        json["sweep"] = sweep_json(request_.read.sweep, elements_, batch_.array);
    if (request_.stage_first)
        json["staging_job"] = staging_job_.empty() ? Json() : Json(staging_job_);
    if (job_id_.empty())
        json["job_id"] = nullptr;
    if (!cluster_.empty())
        json["cluster"] = cluster_;
    if (!estimate_.at.empty())
        json["start_estimate"] = estimate_.at;
    mask_texts(json, spec_.secrets);
    return json;
}

void Submission::tell(const std::string& line) {
    said_.push_back(line);
    request_.say(line);
}

/// False: it cannot be submitted.
bool Submission::ask_slurm() {
    const ClusterAnswers answers =
        ask_cluster(batch_.depends_on, own_user_record().name, Deadline::after(kClusterTime));
    const ClusterVerdict verdict =
        judge_cluster(request_.read, batch_, answers, save_, std::chrono::system_clock::now());
    for (const SpecError& warning : verdict.warnings)
        tell(to_string(warning));
    for (const std::string& name : variables_of_sbatch(request_.environment))
        tell(name + " is set here: sbatch takes it in place of what the script says");
    for (const std::string& what : verdict.unknown)
        tell("not known: " + what);
    errors_ = verdict.refused;
    slurm_version_ = config_value(answers.config.value_or(""), "SLURM_VERSION");
    if (errors_.empty())
        prefer_data_nodes();
    return errors_.empty();
}

/// Where earlier jobs have left what this one stages, it starts at once.
void Submission::prefer_data_nodes() {
    const auto nodes = nodes_with_data(no_code_[0], spec_.storage);
    const BatchOption* asked = batch_.script.option("nodes");
    long long needed = 1;
    if (nodes.empty() || !spec_.slurm.nodelist.empty() ||
        batch_.script.option("prefer") != nullptr || asked == nullptr ||
        !parse_integer(asked->value.value_or(""), needed))
        return;
    const std::string where =
        "storage.stage_in: earlier jobs have left this data on " + compress_hostlist(nodes);
    if (static_cast<long long>(nodes.size()) < needed)
        return tell(
            fmt::format("{}, {} of the {} nodes that the job needs", where, nodes.size(), needed));
    const std::string preferred = features_of(nodes);
    if (preferred.empty())
        return tell(where + "; slurm_config.nodelist=" +
                    compress_hostlist(std::span(nodes).first(static_cast<std::size_t>(needed))) +
                    " makes the job wait for these");
    batch_.script.options.push_back({"prefer", preferred});
    script_ = render_batch_script(batch_.script);
    tell(where + ": Slurm takes these where it can (--prefer)");
}

std::string Submission::features_of(const std::vector<std::string>& nodes) const {
    const CommandAnswer features =
        ask_command(features_question(nodes), Deadline::after(kFeatureTime));
    return features.good() ? preferred_features(nodes, features.out, slurm_version_)
                           : std::string();
}

/// Where Slurm would start the job if it were to begin now; or where the user has it.
void Submission::choose_staging_nodes() {
    if (!spec_.slurm.nodelist.empty())
        return;
    long long needed = 0;
    parse_integer(batch_.script.option("nodes")->value.value_or(""), needed);
    try {
        staging_nodes_ = expand_hostlist(estimate_.nodes);
    } catch (const Error&) {
        staging_nodes_.clear();  // it has said none
    }
    if (static_cast<long long>(staging_nodes_.size()) != needed) {
        staging_nodes_.clear();
        return tell(
            "--stage-first: Slurm does not say where the job would start: the data goes to "
            "nodes that it chooses for the staging alone");
    }
    if (batch_.script.option("prefer") == nullptr)
        prefer_ = features_of(staging_nodes_);
    const bool is_preferred = !prefer_.empty() || batch_.script.option("prefer") != nullptr;
    tell("--stage-first: the data goes to " + compress_hostlist(staging_nodes_) +
         ", where Slurm expects to start the job" +
         (is_preferred ? "; Slurm takes these for it where it can (--prefer)"
                       : "; if it takes others then, the job stages there itself"));
}

BatchScript Submission::staging_script_here() const {
    return staging_script(batch_.script, staging_nodes_, spec_.storage, folder_);
}

/// Before the job itself, which waits for its end, whatever that is: it can stage for itself.
void Submission::submit_staging_job(const StoredJob& stored) {
    choose_staging_nodes();
    stored.add(kStagingScript, render_batch_script(staging_script_here()));
    try {
        const CommandAnswer answer =
            ask_sbatch({"--parsable", (folder_ / kStagingScript).string()},
                       "whether the job that stages was submitted is not known");
        staging_job_ = split(trim(answer.out), ';')[0];
    } catch (const ExitError& error) {
        throw ExitError(error.exit_code(), error.code(),
                        std::string("the job of --stage-first: ") + error.what(), error.hint());
    }
    depend_on("afterany:" + staging_job_);
}

/// Of a job that Slurm did not take.
void Submission::take_back_staging_job() const {
    if (staging_job_.empty())
        return;
    const CommandAnswer answer =
        ask_command({"scancel", staging_job_}, Deadline::after(kFeatureTime));
    if (!answer.good())
        request_.say("job " + staging_job_ + ", which was to stage, is still there: scancel " +
                     staging_job_);
}

void Submission::keep_code() {
    if (code_ && !write_diff(*code_, folder_ / kStoredDiff, Deadline::after(kGitTime)))
        request_.say("what was not committed is not recorded: git diff gave nothing in time");
    if (request_.snapshot)
        copy_ = copy_code(code_folder_, code_, no_code_, folder_ / kStoredCode,
                          Deadline::after(kCopyTime));
}

void Submission::hand_over() {
    make_log_folders();
    const StoredJob stored(folder_, stored_spec_, script_);
    try {
        for (std::size_t i = 0; i < elements_.size(); ++i)
            stored.add(stored_element(static_cast<int>(i)), element_spec(i));
        estimate_ = parse_estimate(tell_sbatch({"--test-only"}, "nothing was submitted").errors);
        keep_code();
        if (request_.stage_first)
            submit_staging_job(stored);
        stored.record(record());
        std::vector<std::string> options = {"--parsable"};
        if (!prefer_.empty())
            options.push_back("--prefer=" + prefer_);
        if (request_.hold)
            options.emplace_back("--hold");
        const CommandAnswer answer =
            tell_sbatch(options, "whether the job was submitted is not known");
        const auto words = split(trim(answer.out), ';');
        job_id_ = words[0];
        cluster_ = words.size() > 1 ? words[1] : "";
        for (const std::string& line : split(trim(answer.errors), '\n'))
            if (!line.empty())
                request_.say(line);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::timeout) {  // then it may be there
            take_back_staging_job();
            stored.remove();
        }
        throw;
    }
    stored.record(record());
}

/// Besides what the spec has of its own, which the option would replace.
void Submission::depend_on(const std::string& dependency) {
    const BatchOption* own = batch_.script.option("dependency");
    dependency_ = own == nullptr ? dependency : own->value.value_or("") + "," + dependency;
}

void Submission::tell_start() const {
    if (!elements_.empty())
        request_.say(fmt::format("{} elements; how they do: autolaunch sweep status {}",
                                 elements_.size(), folder_.string()));
    const StartEstimate& estimate = estimate_;
    const std::string job =
        "job " + job_id_ + " (" + batch_.script.option("job-name")->value.value_or("") + ")";
    if (request_.hold)
        return request_.say(job + " is held: scontrol release " + job_id_);
    if (!staging_job_.empty())
        return request_.say(job + " waits for job " + staging_job_ +
                            ", which stages its data: " + (folder_ / kStagingLog).string());
    if (estimate.at.empty())
        return request_.say(job + ": when it starts is not known; squeue --start -j " + job_id_);
    request_.say(job + ": Slurm expects to start it at " + estimate.at +
                 (estimate.nodes.empty() ? "" : " on " + estimate.nodes) +
                 (estimate.partition.empty() ? "" : ", partition " + estimate.partition));
}

void Submission::print_result(std::optional<int> exit_code) const {
    if (!request_.json)
        return;
    Json json = record();
    if (exit_code)
        json["exit_code"] = *exit_code;
    request_.print(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

int Submission::run() {
    if (!prepare())
        return exit_code::kBadSpec;
    if (request_.dry_run)
        return show();
    if (!ask_slurm())
        return exit_code::kBadSpec;
    hand_over();
    if (!request_.json)
        request_.print(job_id_ + '\n');
    tell_start();
    if (!request_.wait) {
        print_result({});
        return exit_code::kSuccess;
    }
    const int code = wait_for_job(job_id_, request_.say);
    print_result(code);
    return code;
}

void Submission::tell_notes() {
    said_.insert(said_.end(), batch_.notes.begin(), batch_.notes.end());
    for (const std::string& name : request_.read.stored.secret)
        said_.push_back(name + " holds a secret: the stored spec has ${" + name +
                        "}, and the job takes it from the environment that sbatch takes along; "
                        "`secrets` keeps it out of that (docs/secrets.md)");
    for (const std::string& line : said_)
        request_.say(line);
}

}  // namespace autolaunch::launcher
