#include "manifests/pod_facts.hpp"

#include "manifests/tree.hpp"
#include "stopping/stop_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit_of_name(char c) { return c >= '0' && c <= '9'; }

/// "gpt-small" of "GPT_small (2)".
std::string as_label(const std::string& text) {
    constexpr std::size_t kLongest = 40;
    std::string label;
    for (const char c : text) {
        const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if (is_small_letter(small) || is_digit_of_name(small))
            label += small;
        else if (!label.empty() && label.back() != '-')
            label += '-';
    }
    label.resize(std::min(label.size(), kLongest));
    while (label.ends_with('-'))
        label.pop_back();
    if (!label.empty() && !is_small_letter(label[0]))
        label.insert(0, "job-");
    return label;
}

/// The script or the module of Python, else the program.
std::string program_word(const std::vector<std::string>& command) {
    if (command.empty() || command[0] == "/bin/sh")  // a shell line
        return {};
    const auto stem = [](const std::string& path) {
        return std::filesystem::path(path).stem().string();
    };
    if (!stem(command[0]).starts_with("python"))
        return stem(command[0]);
    for (std::size_t i = 1; i < command.size(); ++i) {
        if (command[i].ends_with(".py"))
            return stem(command[i]);
        if (command[i - 1] == "-m")
            return command[i];
    }
    return {};
}

/// Nodes of resource_management; where that says nothing, those that Slurm would be asked for.
void count_pods(const ManifestRequest& request, PodFacts& facts) {
    const ResourceSpec& resources = request.read.spec.resources;
    facts.least = resources.nodes;
    facts.pods = std::max(resources.nodes, resources.most_nodes) + resources.spare_nodes;
    if (find_key(request.read.root, "resource_management", "nodes") == nullptr)
        facts.pods = facts.least = request.read.spec.slurm.nodes.value_or(1);
}

}  // namespace

std::string derived_name(const JobSpec& spec) {
    for (const std::string& text :
         {spec.slurm.job_name, spec.trainer.module, program_word(spec.trainer.command)})
        if (const std::string label = as_label(text); !label.empty())
            return label;
    return "train";
}

std::chrono::seconds grace_of_pods(const RestartSpec& restart, std::chrono::milliseconds copies,
                                   std::optional<std::chrono::milliseconds> save) {
    if (restart.kill_wait.count() > 0)
        return std::chrono::ceil<std::chrono::seconds>(restart.kill_wait);
    StopTimes times;
    times.save = save;
    times.grace_period = restart.grace_period;
    const auto wanted = grace_wanted(times) + copies;
    auto whole = std::max(std::chrono::ceil<std::chrono::seconds>(wanted), 30s);
    while (grace_within(whole) < wanted)
        whole += 1s;
    return whole;
}

PodFacts pod_facts(const ManifestRequest& request) {
    const JobSpec& spec = request.read.spec;
    PodFacts facts;
    facts.name = spec.kubernetes.name.empty() ? derived_name(spec) : spec.kubernetes.name;
    count_pods(request, facts);
    facts.gpus = spec.resources.gpus_per_node.value_or(spec.slurm.gpus_per_node.value_or(0));
    facts.grace = grace_of_pods(spec.restart, spec.storage.stage_out_time, request.save);
    facts.retries = spec.kubernetes.retries.value_or(facts.retries);
    // A relative one would be in the image's folder, which is mostly root's.
    facts.own_runs = !spec.monitoring.log_path.starts_with('/');
    return facts;
}

const KubernetesVolume* volume_of(const KubernetesSpec& spec, const std::string& path) {
    const KubernetesVolume* nearest_one = nullptr;
    const std::string normal = std::filesystem::path(path).lexically_normal().string() + '/';
    for (const KubernetesVolume& volume : spec.volumes) {
        const std::string mount =
            std::filesystem::path(volume.mount + '/').lexically_normal().string();
        if (normal.starts_with(mount) &&
            (nearest_one == nullptr || nearest_one->mount.size() < volume.mount.size()))
            nearest_one = &volume;
    }
    return nearest_one;
}

std::string quantity_of_bytes(std::int64_t bytes) {
    struct Unit {
        int shift;
        const char* suffix;
    };
    for (const Unit& unit : {Unit{30, "Gi"}, Unit{20, "Mi"}, Unit{10, "Ki"}})
        if (bytes % (std::int64_t{1} << unit.shift) == 0)
            return fmt::format("{}{}", bytes >> unit.shift, unit.suffix);
    return fmt::format("{}", bytes);
}

std::string quantity_of_cpus(double cpus) {
    const auto milli = std::max<long long>(std::llround(cpus * 1000), 1);
    return milli % 1000 == 0 ? fmt::format("{}", milli / 1000) : fmt::format("{}m", milli);
}

}  // namespace autolaunch::launcher
