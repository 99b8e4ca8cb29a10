// What jobs raise an alert for, from autolaunch's own metrics (docs/metrics.md). A job may be
// scraped and leave a textfile, too: max by (...) takes both for one.

#include "render/alert_rules.hpp"

#include <iterator>

namespace autolaunch::launcher {

std::vector<RecordingRule> recording_rules() {
    return {
        {"job_id:autolaunch_step_duration_seconds:p50_5m",
         "histogram_quantile(0.5, sum by (job_id, le) "
         "(rate(autolaunch_step_duration_seconds_bucket[5m])))"},
        {"job_id:autolaunch_step_duration_seconds:p99_5m",
         "histogram_quantile(0.99, sum by (job_id, le) "
         "(rate(autolaunch_step_duration_seconds_bucket[5m])))"},
        {"job_id:autolaunch_gpu_busy_ratio:avg",
         "avg by (job_id) (max by (job_id, node, gpu) (autolaunch_gpu_busy_ratio))"},
        {"job_id:autolaunch_job_restarts:increase1h",
         "sum by (job_id) (max by (job_id, cause) (increase(autolaunch_job_restarts_total[1h])))"},
        // dcgm-exporter calls the job hpc_job.
        {"job_id:dcgm_gpu_util:avg",
         "avg by (job_id) (label_replace(DCGM_FI_DEV_GPU_UTIL{hpc_job!=''}, 'job_id', '$1', "
         "'hpc_job', '(.+)')) / 100"},
        // Of slurmctld itself, else of vpenso's exporter.
        {"cluster:slurm_jobs_pending:max", "max(slurm_jobs_pending) or max(slurm_queue_pending)"},
        {"cluster:slurm_jobs_running:max", "max(slurm_jobs_running) or max(slurm_queue_running)"},
        {"cluster:slurm_gpus:max", "sum(max by (node) (slurm_node_gpus)) or max(slurm_gpus_total)"},
        {"cluster:slurm_gpus_alloc:max",
         "sum(max by (node) (slurm_node_gpus_alloc)) or max(slurm_gpus_alloc)"},
        {"user:slurm_user_jobs_running:max",
         "max by (user) (label_replace(slurm_user_jobs_running{username!=''}, 'user', '$1', "
         "'username', '(.+)')) or max by (user) (slurm_user_jobs_running{user!=''})"},
        {"user:slurm_user_jobs_pending:max",
         "max by (user) (label_replace(slurm_user_jobs_pending{username!=''}, 'user', '$1', "
         "'username', '(.+)')) or max by (user) (slurm_user_jobs_pending{user!=''})"},
    };
}

AlertGroup job_alerts() {
    return {
        "autolaunch-jobs",
        {
            {.name = "AutolaunchJobStandsStill",
             // Of jobs whose ranks report steps.
             .expression =
                 "sum by (job_id) (increase(autolaunch_step_duration_seconds_count[15m])) == 0 "
                 "and on (job_id) max by (job_id) (autolaunch_job_state{state='running'}) == 1",
             .pending = "15m",
             .severity = "critical",
             .summary = "Job {job_id} runs and has made no step for half an hour",
             .description = "scancel --signal=USR2 shows which rank waits for which. "
                            "restart.hang_after ends and restarts such a job by itself.",
             .example = {.broken = {{"autolaunch_step_duration_seconds_count{job_id='7'}",
                                     "0+40x10 400+0x60"},
                                    {"autolaunch_job_state{job_id='7',state='running'}", "1+0x70"}},
                         .sound = {{"autolaunch_step_duration_seconds_count{job_id='7'}", "0+1x70"},
                                   {"autolaunch_step_duration_seconds_count{job_id='8'}",
                                    "400+0x70"},
                                   {"autolaunch_job_state{job_id='7',state='running'}", "1+0x70"},
                                   {"autolaunch_job_state{job_id='8',state='running'}", "0+0x70"}},
                         .minute = 45,
                         .labels = {{"job_id", "7"}}}},
            {.name = "AutolaunchJobRestartsOften",
             .expression = "job_id:autolaunch_job_restarts:increase1h > 2",
             .severity = "warning",
             .summary = "Job {job_id} was restarted more than twice within an hour",
             .description = "Its time goes into restarts. autolaunch report tells what each "
                            "generation ended with; the same node each time wants a drain.",
             .example = {.broken = {{"autolaunch_job_restarts_total{job_id='7',cause='killed'}",
                                     "0+0x10 1+1x4 5+0x20"}},
                         .sound = {{"autolaunch_job_restarts_total{job_id='7',cause='killed'}",
                                    "0+0x10 1+0x30"}},
                         .minute = 20,
                         .labels = {{"job_id", "7"}}}},
            {.name = "AutolaunchStepsSlower",
             .expression = "job_id:autolaunch_step_duration_seconds:p50_5m > 1.5 * "
                           "avg_over_time(job_id:autolaunch_step_duration_seconds:p50_5m[2h])",
             .pending = "10m",
             .severity = "warning",
             .summary = "Steps of job {job_id} take half as long again as in the last two hours",
             .description = "Compare its ranks, clocks of GPUs and errors of the network.",
             .example =
                 {.broken = {{"autolaunch_step_duration_seconds_bucket{job_id='7',le='1'}",
                              "0+10x60 600+0x60"},
                             {"autolaunch_step_duration_seconds_bucket{job_id='7',le='4'}",
                              "0+10x120"},
                             {"autolaunch_step_duration_seconds_bucket{job_id='7',le='+Inf'}",
                              "0+10x120"}},
                  .sound =
                      {{"autolaunch_step_duration_seconds_bucket{job_id='7',le='1'}", "0+10x120"},
                       {"autolaunch_step_duration_seconds_bucket{job_id='7',le='4'}", "0+10x120"},
                       {"autolaunch_step_duration_seconds_bucket{job_id='7',le='+Inf'}",
                        "0+10x120"}},
                  .minute = 80,
                  .labels = {{"job_id", "7"}}}},
            {.name = "AutolaunchRankSlow",
             .expression =
                 "max by (job_id, node, rank) (avg_over_time(autolaunch_rank_step_seconds[10m])) > "
                 "on (job_id) group_left 1.5 * quantile by (job_id) (0.5, "
                 "avg_over_time(autolaunch_rank_step_seconds[10m]))",
             .pending = "10m",
             .severity = "warning",
             .summary = "Steps of rank {rank} of job {job_id} on {node} take {value}, half as long "
                        "again as those of the others",
             .description = "Look at its GPU's clocks and temperature, and at what else runs on "
                            "its node.",
             .value_form = "humanizeDuration",
             .example =
                 {.broken =
                      {{"autolaunch_rank_step_seconds{job_id='7',node='n1',rank='0'}", "2+0x40"},
                       {"autolaunch_rank_step_seconds{job_id='7',node='n1',rank='1'}", "2+0x40"},
                       {"autolaunch_rank_step_seconds{job_id='7',node='n2',rank='2'}", "4+0x40"}},
                  .sound =
                      {{"autolaunch_rank_step_seconds{job_id='7',node='n1',rank='0'}", "4+0x40"},
                       {"autolaunch_rank_step_seconds{job_id='7',node='n2',rank='1'}", "4+0x40"},
                       {"autolaunch_rank_step_seconds{job_id='8',node='n2',rank='0'}", "1+0x40"}},
                  .minute = 30,
                  .labels = {{"job_id", "7"}, {"node", "n2"}, {"rank", "2"}},
                  .value = "4s"}},
            {.name = "AutolaunchCheckpointOld",
             .expression =
                 "time() - max by (job_id) (autolaunch_checkpoint_last_success_timestamp_seconds) "
                 "> 7200 and on (job_id) "
                 "max by (job_id) (autolaunch_job_state{state='running'}) == 1",
             .pending = "5m",
             .severity = "warning",
             .summary = "The newest checkpoint of job {job_id} is {value} old",
             .description = "That much work is lost when the job ends now.",
             .value_form = "humanizeDuration",
             .example =
                 {.broken = {{"autolaunch_checkpoint_last_success_timestamp_seconds{job_id='7'}",
                              "0+0x200"},
                             {"autolaunch_job_state{job_id='7',state='running'}", "1+0x200"}},
                  .sound = {{"autolaunch_checkpoint_last_success_timestamp_seconds{job_id='7'}",
                             "0+60x200"},
                            {"autolaunch_job_state{job_id='7',state='running'}", "1+0x200"}},
                  .minute = 130,
                  .labels = {{"job_id", "7"}},
                  .value = "2h 10m 0s"}},
            {.name = "AutolaunchNodeUnheard",
             .expression = "max by (job_id) (autolaunch_job_nodes) - "
                           "max by (job_id) (autolaunch_job_nodes_heard) > 0",
             .pending = "5m",
             .severity = "warning",
             .summary = "The head of job {job_id} has not heard of {value} of its nodes lately",
             .description = "Their agents stand still, or the network between them is cut.",
             .example = {.broken = {{"autolaunch_job_nodes{job_id='7'}", "4+0x20"},
                                    {"autolaunch_job_nodes_heard{job_id='7'}", "4+0x3 3+0x20"}},
                         .sound = {{"autolaunch_job_nodes{job_id='7'}", "4+0x20"},
                                   {"autolaunch_job_nodes_heard{job_id='7'}", "4+0x20"}},
                         .minute = 10,
                         .labels = {{"job_id", "7"}},
                         .value = "1"}},
            {.name = "AutolaunchMeasurementsOld",
             .expression = "time() - max by (job_id, node) "
                           "(autolaunch_node_measured_timestamp_seconds) > 300",
             .pending = "5m",
             .severity = "warning",
             .summary = "What is known of job {job_id} on {node} is {value} old",
             .description = "The job was killed and has left its textfile, which the next job "
                            "there or Slurm's Epilog (autolaunch render slurm) removes; or what "
                            "measures the node stands still.",
             .value_form = "humanizeDuration",
             .example =
                 {.broken = {{"autolaunch_node_measured_timestamp_seconds{job_id='7',node='n1'}",
                              "0+0x40"}},
                  .sound = {{"autolaunch_node_measured_timestamp_seconds{job_id='7',node='n1'}",
                             "0+60x40"}},
                  .minute = 20,
                  .labels = {{"job_id", "7"}, {"node", "n1"}},
                  .value = "20m 0s"}},
            {.name = "AutolaunchMetricsUnreachable",
             .expression = "max by (job_id, node) (up{job='autolaunch'}) == 0",
             .pending = "5m",
             .severity = "warning",
             .summary = "The metrics of job {job_id} on {node} cannot be read",
             .description = "Its port is closed to Prometheus, or the job was killed and has left "
                            "its file of targets.",
             .example = {.broken = {{"up{job='autolaunch',job_id='7',node='n1'}", "1+0x3 0+0x20"}},
                         .sound = {{"up{job='autolaunch',job_id='7',node='n1'}", "1+0x30"}},
                         .minute = 10,
                         .labels = {{"job_id", "7"}, {"node", "n1"}}}},
            {.name = "AutolaunchGpuIdle",
             .expression = "max by (job_id, node, gpu) "
                           "(avg_over_time(autolaunch_gpu_busy_ratio[30m])) < 0.05",
             .pending = "30m",
             .severity = "warning",
             .summary = "GPU {gpu} of job {job_id} on {node} has done next to nothing for an hour",
             .description = "The job holds it. Too few ranks, a loader that does not keep up, or a "
                            "job that stands still.",
             .example = {.broken = {{"autolaunch_gpu_busy_ratio{job_id='7',node='n1',gpu='a'}",
                                     "0+0x90"}},
                         .sound = {{"autolaunch_gpu_busy_ratio{job_id='7',node='n1',gpu='a'}",
                                    "0+0x20 0.9+0x90"}},
                         .minute = 60,
                         .labels = {{"job_id", "7"}, {"node", "n1"}, {"gpu", "a"}}}},
            {.name = "AutolaunchGpuHeldByNobody",
             .expression = "max by (job_id, node, gpu) "
                           "(max_over_time(autolaunch_gpu_processes[10m])) == 0",
             .pending = "10m",
             .severity = "warning",
             .summary = "GPU {gpu} of job {job_id} on {node} is held, and no process uses it",
             .description = "Ask for fewer GPUs, or start a rank on each. The job's receipt says "
                            "how long it idled (docs/gpu-time.md).",
             .example = {.broken = {{"autolaunch_gpu_processes{job_id='7',node='n1',gpu='a'}",
                                     "0+0x40"}},
                         .sound = {{"autolaunch_gpu_processes{job_id='7',node='n1',gpu='a'}",
                                    "0+0x10 1+0x40"}},
                         .minute = 30,
                         .labels = {{"job_id", "7"}, {"node", "n1"}, {"gpu", "a"}}}},
            {.name = "AutolaunchInputHoldsUp",
             .expression = "max by (job_id, node, rank) "
                           "(avg_over_time(autolaunch_rank_input_ratio[15m])) > 0.2",
             .pending = "15m",
             .severity = "info",
             .summary = "Rank {rank} of job {job_id} on {node} waits for its input",
             .description = "A fifth of its time and more: more loader workers, or the data on the "
                            "node's own disk.",
             .example = {.broken = {{"autolaunch_rank_input_ratio{job_id='7',node='n1',rank='0'}",
                                     "0.4+0x60"}},
                         .sound = {{"autolaunch_rank_input_ratio{job_id='7',node='n1',rank='0'}",
                                    "0.05+0x60"}},
                         .minute = 40,
                         .labels = {{"job_id", "7"}, {"node", "n1"}, {"rank", "0"}}}},
            {.name = "AutolaunchGpuSlowed",
             // power_cap is what a GPU under full load says.
             .expression = "max by (job_id, node, gpu, reason) (min_over_time("
                           "autolaunch_gpu_slowed{reason=~'thermal|hardware|power'}[5m])) == 1",
             .pending = "5m",
             .severity = "warning",
             .summary = "The clock of GPU {gpu} of job {job_id} on {node} is held down: {reason}",
             .description = "All ranks wait for the slowest. Look at cooling and power supplies.",
             .example =
                 {.broken = {{"autolaunch_gpu_slowed{job_id='7',node='n1',gpu='a',"
                              "reason='thermal'}",
                              "1+0x20"}},
                  .sound = {{"autolaunch_gpu_slowed{job_id='7',node='n1',gpu='a',reason='thermal'}",
                             "0 1 0 1 0+0x20"},
                            {"autolaunch_gpu_slowed{job_id='7',node='n1',gpu='a',"
                             "reason='power_cap'}",
                             "1+0x20"}},
                  .minute = 15,
                  .labels =
                      {{"job_id", "7"}, {"node", "n1"}, {"gpu", "a"}, {"reason", "thermal"}}}},
            {.name = "AutolaunchGpuMemoryErrors",
             .expression = "sum by (job_id, node, gpu) "
                           "(increase(autolaunch_gpu_ecc_uncorrected_errors_total[15m])) > 0",
             .severity = "critical",
             .summary = "Memory of GPU {gpu} of job {job_id} on {node} had an error that could not "
                        "be corrected",
             .description = "The ranks on it end, or go on with wrong numbers. Reset the GPU once "
                            "it is idle: nvidia-smi -r.",
             .example =
                 {.broken = {{"autolaunch_gpu_ecc_uncorrected_errors_total{job_id='7',node='n1',"
                              "gpu='a'}",
                              "2+0x10 3+0x20"}},
                  .sound = {{"autolaunch_gpu_ecc_uncorrected_errors_total{job_id='7',node='n1',"
                             "gpu='a'}",
                             "2+0x30"}},
                  .minute = 12,
                  .labels = {{"job_id", "7"}, {"node", "n1"}, {"gpu", "a"}}}},
            {.name = "AutolaunchOutOfMemory",
             .expression = "sum by (job_id, node) "
                           "(increase(autolaunch_cgroup_oom_kills_total[15m])) > 0",
             .severity = "critical",
             .summary = "The kernel has killed a process of job {job_id} on {node} for lack of "
                        "memory",
             .description = "The job's limit: more of --mem, fewer workers of the data loader.",
             .example = {.broken = {{"autolaunch_cgroup_oom_kills_total{job_id='7',node='n1'}",
                                     "0+0x10 1+0x20"}},
                         .sound = {{"autolaunch_cgroup_oom_kills_total{job_id='7',node='n1'}",
                                    "1+0x30"}},
                         .minute = 12,
                         .labels = {{"job_id", "7"}, {"node", "n1"}}}},
            {.name = "AutolaunchFileSystemFull",
             .expression = "max by (job_id, node, use) (1 - autolaunch_filesystem_available_bytes "
                           "/ autolaunch_filesystem_size_bytes) > 0.9",
             .pending = "10m",
             .severity = "warning",
             .summary = "Where job {job_id} on {node} has its {use} it is {value} full",
             .description = "Saves and logs stop when nothing is left.",
             .value_form = "humanizePercentage",
             .example = {.broken = {{"autolaunch_filesystem_available_bytes{job_id='7',node='n1',"
                                     "use='checkpoints'}",
                                     "25+0x30"},
                                    {"autolaunch_filesystem_size_bytes{job_id='7',node='n1',"
                                     "use='checkpoints'}",
                                     "1000+0x30"}},
                         .sound = {{"autolaunch_filesystem_available_bytes{job_id='7',node='n1',"
                                    "use='checkpoints'}",
                                    "200+0x30"},
                                   {"autolaunch_filesystem_size_bytes{job_id='7',node='n1',"
                                    "use='checkpoints'}",
                                    "1000+0x30"}},
                         .minute = 15,
                         .labels = {{"job_id", "7"}, {"node", "n1"}, {"use", "checkpoints"}},
                         .value = "97.5%"}},
            {.name = "AutolaunchFileSystemSilent",
             .expression = "max by (job_id, node, use) "
                           "(autolaunch_filesystem_silent_seconds) > 60",
             .pending = "1m",
             .severity = "critical",
             .summary = "The file system where job {job_id} on {node} has its {use} has not "
                        "answered for {value}",
             .description = "Ranks that touch it wait in the kernel and cannot even be killed.",
             .value_form = "humanizeDuration",
             .example = {.broken = {{"autolaunch_filesystem_silent_seconds{job_id='7',node='n1',"
                                     "use='run'}",
                                     "0+60x20"}},
                         .sound = {{"autolaunch_filesystem_silent_seconds{job_id='7',node='n1',"
                                    "use='run'}",
                                    "0 30 0+0x20"}},
                         .minute = 5,
                         .labels = {{"job_id", "7"}, {"node", "n1"}, {"use", "run"}},
                         .value = "5m 0s"}},
            {.name = "AutolaunchOddNode",
             .expression = "max by (job_id) (autolaunch_job_odd_nodes) > 0",
             .pending = "15m",
             .severity = "info",
             .summary = "A node of job {job_id} is unlike the others in {value} things",
             .description = "autolaunch report on its run directory names node and thing.",
             .example = {.broken = {{"autolaunch_job_odd_nodes{job_id='7'}", "2+0x30"}},
                         .sound = {{"autolaunch_job_odd_nodes{job_id='7'}", "2+0x5 0+0x30"}},
                         .minute = 20,
                         .labels = {{"job_id", "7"}},
                         .value = "2"}},
        }};
}

std::vector<AlertGroup> alert_groups() {
    std::vector<AlertGroup> groups = {job_alerts()};
    std::vector<AlertGroup> others = machine_alerts();
    groups.insert(groups.end(), std::make_move_iterator(others.begin()),
                  std::make_move_iterator(others.end()));
    return groups;
}

}  // namespace autolaunch::launcher
