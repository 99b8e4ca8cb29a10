#pragma once
#include "report/progress_bar.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

using ViewTime = std::chrono::sys_time<std::chrono::milliseconds>;

/// What a rank does, as far as events tell.
enum class RankDoing { starting, running, stuck, stopping, done, failed, lost };
/// "starting", …
const char* name_of(RankDoing doing);

/// What a sampler has measured of a rank's process and its GPU.
struct RankReadings {
    std::optional<double> gpu_percent = {};
    std::optional<double> gpu_bytes = {}, gpu_bytes_total = {};
    std::optional<double> gpu_celsius = {};
    std::optional<double> hca_bytes_per_second = {};  ///< of its HCA, both ways
    std::optional<double> rss_bytes = {};
};

struct RankView {
    int rank = 0, local_rank = 0;
    std::string node = {};
    RankDoing doing = RankDoing::starting;
    int generation = 0;
    std::optional<int> pid = {}, gpu = {};
    std::optional<std::int64_t> step = {};
    std::optional<double> step_seconds = {};    ///< of its newest steps, on average
    std::optional<double> silent_seconds = {};  ///< since its newest step, or its start
    std::optional<double> wait_share = {};      ///< of its time, in collectives
    bool straggler = false;                     ///< the others wait for it
    RankReadings readings = {};
    std::string note = {};  ///< how it ended; why it is stuck or waited for
};

struct JobView {
    std::string job_name = {}, run_id = {}, run_dir = {};
    /// "starting", "running", "stands still", "stopping", "between generations", "ended".
    std::string state = "starting";
    ViewTime at = {};
    std::optional<ViewTime> started = {}, last_heard = {}, ended = {};
    int generation = 0, restarts = 0, node_count = 0, world_size = 0;
    ProgressBar progress = {};
    std::optional<ViewTime> checkpoint_at = {};
    std::optional<int> exit_code = {};
    std::string outcome = {};
    std::string cause = {};  ///< why the newest generation ended; empty: it runs, or all went well
    std::string doubt = {};              ///< why it may not be so any more; empty: nothing says so
    std::vector<RankView> ranks = {};    ///< by rank
    std::vector<std::string> news = {};  ///< what happened last, the newest last, with its time
    std::vector<std::string> gaps = {};  ///< what is missing here, and why
};

}  // namespace autolaunch::launcher
