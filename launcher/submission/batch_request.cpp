#include "submission/batch_request.hpp"

#include "allocation/slurm_time.hpp"
#include "base/text.hpp"
#include "lint/sbatch_script.hpp"
#include "lint/slurm_options.hpp"
#include "secrets/secrets.hpp"
#include "spec/container_words.hpp"
#include "spec/sweep_words.hpp"
#include "stopping/stop_budget.hpp"
#include "submission/dependencies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::seconds;

constexpr const char* kSection = "slurm_config";

/// Builds the request of one spec, key by key.
class Builder {
public:
    Builder(const SpecResult& read, const BatchPlace& place)
        : spec_(read.spec), slurm_(read.spec.slurm), root_(read.root), read_(read), place_(place) {}

    BatchRequest take() {
        require_known_values();
        add_size();
        add_wishes();
        add_times();
        add_array();
        add_files();
        add_extra_arguments();
        add_environment();
        add_start();
        return std::move(request_);
    }

private:
    struct Given {
        bool by_default = false;
        std::string key;
    };

    const Entry* entry(std::string_view section, std::string_view key) const {
        return find_in_spec(root_, section, key);
    }
    void fail(std::string_view section, const std::string& key, const std::string& message) {
        const Entry* found = entry(section, key);
        const Entry* whole = root_.find(section);
        const Origin at = found != nullptr   ? found->value.at
                          : whole != nullptr ? whole->key_at
                                             : Origin{};
        SpecError error = error_at(at, std::string(section) + '.' + key, message);
        if (error.file.empty())
            error.file = spec_.spec_file;
        request_.errors.push_back(std::move(error));
    }
    void fail(const std::string& key, const std::string& message) { fail(kSection, key, message); }

    void add(const std::string& name, std::optional<std::string> value, Given given) {
        if (value && !why_no_directive(*value).empty())
            return fail(given.key, why_no_directive(*value));
        request_.script.options.push_back({name, std::move(value)});
        given_.push_back(std::move(given));
    }
    /// A key's own option, where the key is given.
    void add_text(const std::string& name, const std::string& key, const std::string& value) {
        if (!value.empty())
            add(name, value, {.by_default = false, .key = key});
    }
    void add_default(const std::string& name, std::optional<std::string> value,
                     const std::string& key) {
        add(name, std::move(value), {.by_default = true, .key = key});
    }

    void require_known_values();
    void add_size();
    std::optional<long long> gpus_per_node();
    void add_cpus(std::optional<long long> gpus);
    void add_wishes();
    void add_times();
    void add_signal();
    void add_array();
    void add_sweep();
    void add_files();
    void add_extra_arguments();
    void add_extra(const SlurmOption& option);
    void add_environment();
    void add_container();
    void add_start();
    bool is_elastic() const {
        return spec_.resources.most_nodes > spec_.resources.nodes ||
               spec_.resources.spare_nodes > 0;
    }

    const JobSpec& spec_;
    const SlurmSpec& slurm_;
    const Value& root_;
    const SpecResult& read_;
    const BatchPlace& place_;
    BatchRequest request_;
    std::vector<Given> given_;  ///< of each option, in their order
    long long nodes_ = 1;
    std::vector<std::string> signals_to_handle_;
};

/// Of a job that nothing names: as its program or its spec is called.
std::string name_from(const JobSpec& spec) {
    if (!spec.name.empty())
        return spec.name;
    const std::string file = spec.spec_file.substr(spec.spec_file.rfind('/') + 1);
    return file.substr(0, file.rfind(".y"));
}

bool depends_on_job(const Value& value) {
    return value.of_job || std::any_of(value.items.begin(), value.items.end(), depends_on_job) ||
           std::any_of(value.entries.begin(), value.entries.end(),
                       [](const Entry& inner) { return depends_on_job(inner.value); });
}

bool names_one_of(const Value& value, const std::vector<std::string>& variables) {
    const bool here = std::any_of(variables.begin(), variables.end(), [&](const std::string& name) {
        return value.text.find("${" + name) != std::string::npos;
    });
    return here || std::any_of(value.items.begin(), value.items.end(),
                               [&](const Value& item) { return names_one_of(item, variables); });
}

/// What is asked of Slurm must be known before there is a job, and Slurm shows it to everybody.
void Builder::require_known_values() {
    const Entry* section = root_.find(kSection);
    if (section != nullptr)
        for (const Entry& one : section->value.entries) {
            const Entry* stored = find_in_spec(read_.stored.root, kSection, one.key);
            if (depends_on_job(one.value))
                fail(one.key,
                     "has a variable that only the job has; Slurm is asked before there "
                     "is one (in output and error write %j)");
            else if (stored != nullptr && names_one_of(stored->value, read_.stored.secret))
                fail(one.key,
                     "has a variable that holds a secret, and Slurm stores what it is "
                     "asked for, and shows it");
        }
    const auto check = [this](const std::string& key, bool given_elsewhere,
                              const std::string& remedy) {
        const Entry* found = entry("resource_management", key);
        if (found != nullptr && depends_on_job(found->value) && !given_elsewhere)
            fail("resource_management", key,
                 "has a variable that only the job has; say what to ask Slurm for: " + remedy);
    };
    check("nodes", slurm_.nodes.has_value(),
          "autolaunch submit -c " + spec_.spec_file + " slurm_config.nodes=4");
    check("gpus_per_node", slurm_.gpus_per_node || !slurm_.gres.empty(),
          "slurm_config.gpus_per_node");
    check("cpu_cores_per_gpu", slurm_.cpus_per_task.has_value(), "slurm_config.cpus_per_task");
}

std::optional<long long> Builder::gpus_per_node() {
    const auto by_gres = gres_gpu_count(slurm_.gres);
    if (by_gres && slurm_.gpus_per_node)
        fail("gpus_per_node", "stands beside gres, which names GPUs too; remove one of them");
    if (by_gres)
        return by_gres;
    const auto asked = slurm_.gpus_per_node ? slurm_.gpus_per_node : spec_.resources.gpus_per_node;
    return asked ? std::optional<long long>(*asked) : std::nullopt;
}

void Builder::add_cpus(std::optional<long long> gpus) {
    std::optional<long long> cpus;
    if (slurm_.cpus_per_task)
        cpus = *slurm_.cpus_per_task;
    const long long tasks = slurm_.ntasks_per_node.value_or(1);
    const auto each = spec_.resources.cpu_cores_per_gpu;
    if (!cpus && each && gpus && *gpus > 0 && *each * *gpus % tasks == 0)
        cpus = *each * *gpus / tasks;
    if (!cpus)
        return;
    add("cpus-per-task", std::to_string(*cpus),
        {.by_default = !slurm_.cpus_per_task, .key = "cpus_per_task"});
    request_.script.srun.push_back({"cpus-per-task", std::to_string(*cpus)});
}

void Builder::add_size() {
    const ResourceSpec& resources = spec_.resources;
    if (slurm_.job_name.empty())
        add_default("job-name", name_from(spec_), "job_name");
    add_text("job-name", "job_name", slurm_.job_name);
    nodes_ = slurm_.nodes.value_or(std::max(resources.nodes, resources.most_nodes) +
                                   resources.spare_nodes);
    add("nodes", std::to_string(nodes_), {.by_default = !slurm_.nodes, .key = "nodes"});
    add("ntasks-per-node", std::to_string(slurm_.ntasks_per_node.value_or(1)),
        {.by_default = !slurm_.ntasks_per_node, .key = "ntasks_per_node"});
    const auto gpus = gpus_per_node();
    add_cpus(gpus);
    if (gpus && *gpus > 0 && !gres_gpu_count(slurm_.gres))
        add("gpus-per-node", std::to_string(*gpus),
            {.by_default = !slurm_.gpus_per_node, .key = "gpus_per_node"});
    add_text("gres", "gres", slurm_.gres);
    add_text("mem", "mem", slurm_.mem);
    if (slurm_.exclusive.value_or(false))
        add("exclusive", std::nullopt, {.by_default = false, .key = "exclusive"});
}

void Builder::add_wishes() {
    add_text("partition", "partition", slurm_.partition);
    add_text("account", "account", slurm_.account);
    add_text("qos", "qos", slurm_.qos);
    add_text("constraint", "constraint", slurm_.constraint);
    add_text("reservation", "reservation", slurm_.reservation);
    add_text("nodelist", "nodelist", slurm_.nodelist);
    add_text("exclude", "exclude", slurm_.exclude);
    add_text("licenses", "licenses", slurm_.licenses);
    add_text("switches", "switches", slurm_.switches);
    add_text("mail-user", "mail_user", slurm_.mail_user);
    add_text("mail-type", "mail_type", slurm_.mail_type);
}

/// TERM of "R:SIGTERM@120"; `why` says what is wrong.
std::string signal_of(const std::string& written, std::string& why) {
    std::string name = written.substr(0, written.find('@'));
    const std::size_t at = written.find('@');
    const auto lead =
        at == std::string::npos ? std::optional(60LL) : whole_number(written.substr(at + 1));
    if (name.starts_with("R:") || name.starts_with("r:"))
        name.erase(0, 2);
    if (name.find(':') != std::string::npos)
        why = "goes to the batch shell alone, and autolaunch runs in a step: leave B: out";
    else if (!lead || *lead < 0 || *lead > 65'535)
        why = "expects seconds from 0 to 65535 behind the @";
    if (name.starts_with("SIG"))
        name.erase(0, 3);
    if (const auto number = whole_number(name); number && *number > 0 && *number < 65)
        name = signal_name(static_cast<int>(*number)).substr(3);
    return name;
}

void Builder::add_signal() {
    static const std::set<std::string> kStops = {"TERM", "INT", "HUP", "QUIT"};
    if (!slurm_.signal.empty()) {
        std::string why;
        const std::string name = signal_of(slurm_.signal, why);
        if (!why.empty())
            return fail("signal", why);
        add_text("signal", "signal", slurm_.signal);
        if (!kStops.contains(name))
            signals_to_handle_ = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIG" + name};
        return;
    }
    const auto copies = spec_.storage.stage_out_time;
    const seconds lead = signal_lead(place_.save.value_or(spec_.restart.grace_period), copies);
    const auto limit = parse_slurm_time(slurm_.time_limit);
    if (limit && copies.count() > 0 && *limit <= copies)
        return fail("storage", "stage_out_time",
                    fmt::format("is {} s, and slurm_config.time_limit {} s: raise the limit, or "
                                "keep less of it for copies",
                                std::chrono::ceil<seconds>(copies).count(), limit->count()));
    if (limit && *limit < 2 * lead) {
        request_.notes.push_back(
            fmt::format("no --signal: slurm_config.time_limit is {} s, and to save{} takes {} s of "
                        "it{}; the ranks are asked to stop at the time limit's end",
                        limit->count(), copies.count() > 0 ? " and to copy" : "", lead.count(),
                        place_.save ? "" : " where nothing was measured"));
        return;
    }
    add_default("signal", fmt::format("TERM@{}", lead.count()), "signal");
    if (place_.save)
        request_.notes.push_back(
            fmt::format("--signal=TERM@{}: a save of the newest run took up to {:.1f} s",
                        lead.count(), static_cast<double>(place_.save->count()) / 1000) +
            (copies.count() > 0 ? fmt::format(", and {} s are for copies",
                                              std::chrono::ceil<seconds>(copies).count())
                                : ""));
}

void Builder::add_times() {
    add_text("time", "time_limit", slurm_.time_limit);
    add_signal();
    add(slurm_.requeue.value_or(true) ? "requeue" : "no-requeue", std::nullopt,
        {.by_default = !slurm_.requeue, .key = "requeue"});
    add_default("open-mode", "append", "requeue");
    if (is_elastic())
        add_default("no-kill", std::nullopt, "nodes");
}

/// An element each, from 0.
void Builder::add_sweep() {
    if (!slurm_.array.empty())
        return fail("array", "stands beside `sweep`, which makes the array; remove one of them");
    if (read_.sweep.element)
        return fail("sweep", "element",
                    "is of `run` and `plan`, which are of one element; submit takes all");
    const auto count = static_cast<long long>(count_elements(read_.sweep));
    request_.array = {.count = count, .highest = count - 1};
    std::string numbers = count > 1 ? fmt::format("0-{}", count - 1) : "0";
    if (slurm_.array_throttle) {
        request_.array->throttle = *slurm_.array_throttle;
        numbers += fmt::format("%{}", *slurm_.array_throttle);
    }
    add_text("array", "array", numbers);
}

void Builder::add_array() {
    if (read_.sweep.makes_elements()) {
        add_sweep();
    } else if (slurm_.array.empty()) {
        if (slurm_.array_throttle)
            fail("array_throttle", "stands without array");
    } else {
        std::string why;
        request_.array = parse_array(slurm_.array, why);
        if (!request_.array)
            return fail("array", why);
        if (request_.array->throttle && slurm_.array_throttle)
            fail("array_throttle", "stands beside a % in array; remove one of them");
        if (slurm_.array_throttle)
            request_.array->throttle = *slurm_.array_throttle;
        add_text("array", "array",
                 slurm_.array +
                     (slurm_.array_throttle ? fmt::format("%{}", *slurm_.array_throttle) : ""));
    }
    if (slurm_.dependency.empty())
        return;
    std::string why;
    const auto jobs = parse_dependency(slurm_.dependency, why);
    if (!jobs)
        return fail("dependency", why);
    request_.depends_on = *jobs;
    add_text("dependency", "dependency", slurm_.dependency);
}

/// Whether the path differs between the jobs of an array: %a, %j, %J, also with a width.
bool differs_by_element(const std::string& path) {
    for (std::size_t at = path.find('%'); at != std::string::npos; at = path.find('%', at + 1)) {
        const std::size_t letter = path.find_first_not_of("0123456789", at + 1);
        if (letter != std::string::npos &&
            std::string("ajJ").find(path[letter]) != std::string::npos)
            return true;
    }
    return false;
}

void Builder::add_files() {
    for (const auto& [name, value] :
         {std::pair<std::string, std::string>{"output", slurm_.output}, {"error", slurm_.error}}) {
        const std::size_t slash = value.rfind('/');
        if (!value.empty() && request_.array && !differs_by_element(value))
            fail(name, "all jobs of the array would write to one file; use %a, as in %A_%a.out");
        if (slash != std::string::npos && value.substr(0, slash).find('%') != std::string::npos)
            fail(name,
                 "has a pattern in a folder's name, and Slurm makes no folders: keep it in "
                 "the file's name");
        add_text(name, name, value);
    }
    if (const std::string why = why_no_directive(place_.folder); !why.empty())
        request_.errors.push_back({"the working directory", 0, 0, "", place_.folder + " " + why});
    else
        add_default("chdir", place_.folder, "output");
}

void Builder::add_extra(const SlurmOption& option) {
    static const std::set<std::string> kOurs = {"wrap",  "parsable", "test-only", "wait",    "help",
                                                "usage", "version",  "quiet",     "clusters"};
    if (kOurs.contains(option.name))
        return fail("extra_args", "--" + option.name + " cannot be asked for here");
    const auto same = [&](const std::string& name) {
        const bool requeues = (name == "requeue" || name == "no-requeue") &&
                              (option.name == "requeue" || option.name == "no-requeue");
        return name == option.name || requeues;
    };
    auto& options = request_.script.options;
    for (std::size_t i = 0; i < options.size(); ++i) {
        if (!same(options[i].name))
            continue;
        if (!given_[i].by_default)
            return fail("extra_args", "--" + option.name + " stands beside slurm_config." +
                                          given_[i].key + "; remove one of them");
        options.erase(options.begin() + static_cast<std::ptrdiff_t>(i));
        given_.erase(given_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
    }
    add(option.name,
        option.has_value ? std::optional(option.value.value) : std::optional<std::string>(),
        {.by_default = false, .key = "extra_args"});
}

/// "--comment a b" and "--comment=a b" are one option; "-C" and its value may be two items.
void Builder::add_extra_arguments() {
    std::vector<Word> words;
    for (const std::string& item : slurm_.extra_args) {
        const std::size_t blank = item.find(' ');
        const bool apart =
            item.starts_with('-') && blank != std::string::npos && item.find('=') > blank;
        for (const std::string& text :
             apart ? std::vector<std::string>{item.substr(0, blank),
                                              std::string(trim(item.substr(blank)))}
                   : std::vector<std::string>{item}) {
            Word word;
            word.raw = word.value = text;
            words.push_back(std::move(word));
        }
    }
    const ParsedOptions parsed = parse_slurm_options(words, SlurmProgram::sbatch);
    for (const UnknownOption& unknown : parsed.unknown)
        fail("extra_args",
             "sbatch knows no option " + unknown.written +
                 (unknown.nearest.empty() ? "" : "; did you mean " + unknown.nearest + "?"));
    if (parsed.rest < words.size())
        fail("extra_args", "\"" + words[parsed.rest].value + "\" is no option of sbatch's");
    for (const SlurmOption& option : parsed.options)
        add_extra(option);
}

void Builder::add_environment() {
    BatchScript& script = request_.script;
    const auto take = [this](const std::string& key, const std::string& text) {
        if (const std::string why = why_no_script_text(text); !why.empty())
            fail(key, why);
        else if (key != "setup" && text.find_first_of("'\"`$\\") != std::string::npos)
            fail(key, "holds a quote or a character that a shell replaces");
        else if (key != "setup" && text.starts_with('-'))
            fail(key, "looks like an option");
        return text;
    };
    for (const std::string& module : slurm_.modules)
        script.modules.push_back(take("modules", module));
    if (!slurm_.venv.empty() && !slurm_.conda.empty())
        fail("conda", "stands beside venv; one of them counts for a job");
    script.venv = take("venv", slurm_.venv);
    while (script.venv.size() > 1 && script.venv.ends_with('/'))
        script.venv.pop_back();
    if (!script.venv.empty() && !script.venv.starts_with('/'))
        script.venv = place_.folder + '/' + script.venv;
    script.conda = take("conda", slurm_.conda);
    for (const std::string& line : slurm_.setup)
        script.setup.push_back(take("setup", line));
}

/// With pyxis srun starts the step in the image; of the node autolaunch there needs the folder
/// where relative paths are, and the one of the runs with its spec.
void Builder::add_container() {
    const ContainerSpec& container = spec_.container;
    if (container.image.empty() || container.runtime != "pyxis")
        return;
    std::vector<ContainerMount> mounts;
    for (const std::string& text : container.mounts)
        if (auto mount = container_mount_from(text))
            mounts.push_back(std::move(*mount));
    const std::string runs = place_.stored_spec.substr(0, place_.stored_spec.rfind("/.submitted/"));
    for (const std::string& folder : {place_.folder, runs})
        if (std::none_of(mounts.begin(), mounts.end(), [&](const ContainerMount& mount) {
                return (folder + '/').starts_with(mount.target + '/');
            }))
            mounts.push_back({folder, folder, true});
    for (const ContainerMount& mount : mounts)
        if ((mount.source + mount.target).find_first_of(":,") != std::string::npos)
            return fail("container", "mounts",
                        mount.source + " has a : or a comma, at which pyxis takes mounts apart");
    auto& srun = request_.script.srun;
    srun.push_back({"container-image", container.image});
    srun.push_back({"container-mounts", pyxis_mounts(mounts)});
    srun.push_back({"no-container-mount-home", {}});
    request_.notes.push_back("container.runtime is pyxis: the step is in " + container.image +
                             ", where autolaunch must be installed as " + place_.autolaunch +
                             "; mounted for it: " + pyxis_mounts(mounts));
}

void Builder::add_start() {
    BatchScript& script = request_.script;
    if (is_elastic()) {
        script.srun.push_back({"no-kill", {}});
        script.srun.push_back({"wait", "0"});
        script.srun.push_back({"kill-on-bad-exit", "0"});
    } else if (nodes_ > 1) {
        script.srun.push_back({"wait", "60"});
    }
    add_container();
    script.remarks = {"By autolaunch submit -c " + spec_.spec_file + "; the spec as it was then is",
                      place_.stored_spec};
    script.program = {place_.autolaunch};
    if (!signals_to_handle_.empty())
        script.program.insert(script.program.end(),
                              {"--signals-to-handle", join(signals_to_handle_, ",")});
    script.program.insert(script.program.end(), {"-c", place_.stored_spec});
    if (!place_.words.empty())
        script.program.emplace_back("--");
    script.program.insert(script.program.end(), place_.words.begin(), place_.words.end());
    if (mask_arguments(place_.words, spec_.secrets) != place_.words)
        request_.errors.push_back(
            {"the command line", 0, 0, "",
             "PROGRAM's arguments hold a secret, and Slurm stores the script and shows it; say "
             "under `secrets` where it comes from (docs/secrets.md)"});
    for (const std::string& word : script.program)
        if (const std::string why = why_no_script_text(word); !why.empty())
            request_.errors.push_back({"the command line", 0, 0, "", '"' + word + "\" " + why});
    for (const std::string& line : script.remarks)
        if (!why_no_script_text(line).empty())
            request_.errors.push_back(
                {"the command line", 0, 0, "", "the spec's name " + why_no_script_text(line)});
}

}  // namespace

BatchRequest batch_request(const SpecResult& read, const BatchPlace& place) {
    return Builder(read, place).take();
}

}  // namespace autolaunch::launcher
