#include "submission/staging_job.hpp"

#include "allocation/hostlist.hpp"
#include "submission/stored_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace autolaunch::launcher {

namespace {

using std::chrono::minutes;

constexpr minutes kUsualTime{60};
constexpr const char* kMemory = "2G";  // without a word it could be all of a node's

/// Where the job may be, and as whom.
constexpr std::array<std::string_view, 8> kSame = {"partition",   "account", "qos",   "constraint",
                                                   "reservation", "exclude", "chdir", "dependency"};

bool is_in_image(const BatchScript& job) {
    return std::any_of(job.srun.begin(), job.srun.end(),
                       [](const BatchOption& one) { return one.name == "container-image"; });
}

}  // namespace

minutes staging_time(const StorageSpec& storage) {
    if (storage.timeout >= StorageSpec{}.timeout)
        return kUsualTime;
    return std::max(std::chrono::ceil<minutes>(storage.timeout), minutes(1)) + minutes(1);
}

std::string why_no_staging_job(const BatchScript& job, const StorageSpec& storage, bool is_array) {
    if (storage.stage_in.empty())
        return "--stage-first: storage.stage_in names nothing to stage";
    if (is_array)
        return "--stage-first is of one job, and this is an array";
    if (is_in_image(job))
        return "--stage-first: the step is in an image of pyxis, whose autolaunch the node has not";
    return {};
}

BatchScript staging_script(const BatchScript& job, const std::vector<std::string>& nodes,
                           const StorageSpec& storage, const std::filesystem::path& folder) {
    const auto value_of = [&job](std::string_view name) {
        const BatchOption* const option = job.option(name);
        return option == nullptr ? std::string() : option->value.value_or("");
    };
    const minutes time = staging_time(storage);
    BatchScript script;
    script.remarks = {
        "By autolaunch submit --stage-first: brings the data of the job of this spec"};
    script.options = {{"job-name", value_of("job-name") + "-stage-in"},
                      {"nodes", value_of("nodes")},
                      {"ntasks-per-node", "1"},
                      {"cpus-per-task", "1"},
                      {"mem", kMemory},
                      {"time", std::to_string(time.count())},
                      {"no-requeue", {}},
                      {"open-mode", "append"},
                      {"output", (folder / kStagingLog).string()}};
    for (const BatchOption& option : job.options)
        if (std::find(kSame.begin(), kSame.end(), option.name) != kSame.end())
            script.options.push_back(option);
    if (job.option("dependency") == nullptr)  // how long those take nobody knows
        script.options.push_back({"deadline", fmt::format("now+{}minutes", 2 * time.count())});
    const std::string where = nodes.empty() ? value_of("nodelist") : compress_hostlist(nodes);
    if (!where.empty())
        script.options.push_back({"nodelist", where});
    script.modules = job.modules;
    script.venv = job.venv;
    script.conda = job.conda;
    script.setup = job.setup;
    script.program = {job.program.at(0), "stage-in", "-c", (folder / kStoredSpec).string()};
    return script;
}

}  // namespace autolaunch::launcher
