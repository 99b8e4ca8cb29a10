#include "sampler/plan_sampler.hpp"

#include <algorithm>
#include <chrono>

namespace autolaunch::launcher {
namespace {

// A job of a few seconds needs no process to measure it.
constexpr auto kFirst = std::chrono::milliseconds(5'000);
constexpr double kUsualSeconds = 10, kLeastSeconds = 1, kMostSeconds = 86'400;
constexpr int kUsualPort = 9842;
constexpr char kControl[] = "control", kLoopback[] = "127.0.0.1";

// What each is for, by path: a label is no path. The first use of a folder counts.
std::map<std::string, std::string> file_systems_of(const LaunchPlan& plan) {
    std::map<std::string, std::string> uses;
    const auto add = [&](const std::string& path, const char* use) {
        if (path.starts_with('/'))
            uses.emplace(path, use);
    };
    add(plan.run_dir, "run");
    const std::string& checkpoints = plan.spec.checkpoint.checkpoint_dir;
    if (!checkpoints.empty())
        add(checkpoints.starts_with('/') ? checkpoints : plan.workdir + '/' + checkpoints,
            "checkpoints");
    add(plan.workdir, "work");
    add("/tmp", "tmp");
    add("/dev/shm", "shm");
    return uses;
}

}  // namespace

std::vector<WatchedGpu> watched_gpus(const LaunchPlan& plan) {
    std::vector<WatchedGpu> gpus;
    const auto watch = [&gpus](const Gpu& gpu) {
        if (!gpu.bdf.empty() &&
            std::none_of(gpus.begin(), gpus.end(),
                         [&](const WatchedGpu& known) { return known.bdf == gpu.bdf; }))
            gpus.push_back({gpu.bdf, gpu.vendor, gpu.uuid, gpu.model});
    };
    for (const RankPlan& rank : plan.ranks)
        if (rank.gpu)
            watch(*rank.gpu);
    for (const Gpu& gpu : plan.unused_gpus)
        watch(gpu);
    return gpus;
}

std::map<int, std::string> gpu_of_rank(const LaunchPlan& plan) {
    std::map<int, std::string> gpus;
    for (const RankPlan& rank : plan.ranks)
        if (rank.gpu)
            gpus.emplace(rank.rank, rank.gpu->bdf);
    return gpus;
}

SamplerSettings sampler_settings(const LaunchPlan& plan, const std::string& node_name,
                                 const std::string& own_address) {
    const MonitoringSpec& monitoring = plan.spec.monitoring;
    SamplerSettings settings;
    settings.enabled = monitoring.resource_tracking.value_or(true);
    const bool is_wanted = monitoring.resource_tracking.value_or(false) ||
                           !monitoring.textfile_directory.empty() ||
                           !monitoring.metrics_listen.empty();
    settings.first = is_wanted ? std::chrono::milliseconds(0) : kFirst;
    settings.gpu_of_rank = gpu_of_rank(plan);
    const double seconds = std::clamp(monitoring.interval_seconds.value_or(kUsualSeconds),
                                      kLeastSeconds, kMostSeconds);
    SamplerOrder& order = settings.order;
    order.run_dir = plan.run_dir;
    order.node = node_name.empty() ? plan.hostname : node_name;
    order.run_id = plan.run_id;
    order.job_id = plan.slurm_job_id;
    order.step_id = plan.slurm_step_id.empty() ? "0" : plan.slurm_step_id;
    order.version = AUTOLAUNCH_VERSION;
    order.job_name = plan.job_name;
    order.interval_ms = static_cast<std::int64_t>(seconds * 1000);
    order.gpus = watched_gpus(plan);
    order.file_systems = file_systems_of(plan);
    order.textfile_folder = monitoring.textfile_directory;
    order.metrics_host = own_address;
    order.metrics_listen = monitoring.metrics_listen;
    if (monitoring.metrics_listen == kControl)
        order.metrics_listen = own_address.empty() ? kLoopback : own_address;
    order.metrics_port = monitoring.metrics_port.value_or(kUsualPort);
    order.metrics_targets = monitoring.metrics_targets_directory;
    return settings;
}

}  // namespace autolaunch::launcher
