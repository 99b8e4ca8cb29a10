// What GPUs, nodes and Slurm raise an alert for, by the names of dcgm-exporter, node_exporter and
// the exporters of Slurm.

#include "render/alert_rules.hpp"

namespace autolaunch::launcher {

namespace {

AlertGroup gpu_alerts() {
    return {
        "autolaunch-gpus",
        {
            {.name = "GpuHot",
             .expression = "max by (node, gpu, job_id) (label_replace(DCGM_FI_DEV_GPU_TEMP, "
                           "'job_id', '$1', 'hpc_job', '(.+)')) > 85",
             .pending = "5m",
             .severity = "warning",
             .summary = "GPU {gpu} of {node} has {value} degrees Celsius",
             .description = "It slows down, and its job with it. Look at cooling and airflow.",
             .example = {.broken = {{"DCGM_FI_DEV_GPU_TEMP{node='n1',gpu='2',hpc_job='7'}",
                                     "91+0x20"}},
                         .sound = {{"DCGM_FI_DEV_GPU_TEMP{node='n1',gpu='2',hpc_job='7'}",
                                    "91+0x4 80+0x20"}},
                         .minute = 10,
                         .labels = {{"node", "n1"}, {"gpu", "2"}, {"job_id", "7"}},
                         .value = "91"}},
            {.name = "GpuXid",
             // The field keeps the last Xid until the driver is loaded anew: what is new counts.
             .expression = "max by (node, gpu, job_id) (label_replace((DCGM_FI_DEV_XID_ERRORS > 0 "
                           "and changes(DCGM_FI_DEV_XID_ERRORS[10m]) > 0), "
                           "'job_id', '$1', 'hpc_job', '(.+)')) "
                           "or max by (node, gpu, job_id) (label_replace("
                           "DCGM_EXP_XID_ERRORS_COUNT > 0, 'job_id', '$1', 'hpc_job', '(.+)'))",
             .severity = "critical",
             .summary = "The driver reports an Xid of GPU {gpu} of {node}",
             .description = "dmesg has its number; 48, 63, 64, 74, 79, 92, 94, 95 and 119 want the "
                            "node drained. autolaunch doctor --only xid on the node.",
             .example = {.broken = {{"DCGM_FI_DEV_XID_ERRORS{node='n1',gpu='2',hpc_job='7'}",
                                     "0+0x10 79+0x20"}},
                         .sound = {{"DCGM_FI_DEV_XID_ERRORS{node='n1',gpu='2',hpc_job='7'}",
                                    "79+0x40"}},
                         .minute = 12,
                         .labels = {{"node", "n1"}, {"gpu", "2"}, {"job_id", "7"}}}},
            {.name = "GpuMemoryBroken",
             .expression = "max by (node, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0",
             .severity = "critical",
             .summary = "GPU {gpu} of {node} could not remap a row of its memory",
             .description = "Drain the node: the GPU has to be replaced.",
             .example = {.broken = {{"DCGM_FI_DEV_ROW_REMAP_FAILURE{node='n1',gpu='2'}", "1+0x5"}},
                         .sound = {{"DCGM_FI_DEV_ROW_REMAP_FAILURE{node='n1',gpu='2'}", "0+0x5"}},
                         .minute = 2,
                         .labels = {{"node", "n1"}, {"gpu", "2"}}}},
            {.name = "GpuMemoryRowsRemapped",
             .expression = "max by (node, gpu) "
                           "(increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS[1d])) > 0",
             .severity = "warning",
             .summary = "Memory of GPU {gpu} of {node} had an error that could not be corrected",
             .description = "A row is remapped at the GPU's next reset: nvidia-smi -r once it is "
                            "idle. Replace it when this comes back.",
             .example = {.broken = {{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{node='n1',gpu='2'}",
                                     "0+0x10 1+0x20"}},
                         .sound = {{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{node='n1',gpu='2'}",
                                    "1+0x30"}},
                         .minute = 12,
                         .labels = {{"node", "n1"}, {"gpu", "2"}}}},
            {.name = "GpuIdleInJob",
             .expression = "max by (node, gpu, job_id) (label_replace("
                           "avg_over_time(DCGM_FI_DEV_GPU_UTIL{hpc_job!=''}[30m]), "
                           "'job_id', '$1', 'hpc_job', '(.+)')) < 5",
             .pending = "30m",
             .severity = "warning",
             .summary = "GPU {gpu} of {node} has done next to nothing for an hour in job {job_id}",
             .description = "Whatever started the job, it holds a GPU that it does not use.",
             .example = {.broken = {{"DCGM_FI_DEV_GPU_UTIL{node='n1',gpu='2',hpc_job='7'}",
                                     "0+0x90"}},
                         .sound = {{"DCGM_FI_DEV_GPU_UTIL{node='n1',gpu='2',hpc_job='7'}",
                                    "0+0x20 95+0x90"},
                                   {"DCGM_FI_DEV_GPU_UTIL{node='n1',gpu='3'}", "0+0x90"}},
                         .minute = 60,
                         .labels = {{"node", "n1"}, {"gpu", "2"}, {"job_id", "7"}}}},
        }};
}

AlertGroup node_alerts() {
    return {
        "autolaunch-nodes",
        {
            {.name = "NodeDown",
             .expression = "max by (node) (up{job='node'}) == 0",
             .pending = "2m",
             .severity = "critical",
             .summary = "{node} does not answer",
             .description = "Neither its node_exporter. What its jobs and devices raise besides is "
                            "not told while this is.",
             .example = {.broken = {{"up{job='node',node='n1'}", "1+0x3 0+0x20"}},
                         .sound = {{"up{job='node',node='n1'}", "1+0x5 0 1+0x20"}},
                         .minute = 8,
                         .labels = {{"node", "n1"}}}},
            {.name = "NodeFileSystemFull",
             .expression = "max by (node, mountpoint) (1 - node_filesystem_avail_bytes"
                           "{fstype!~'tmpfs|ramfs|overlay|squashfs|iso9660'} / "
                           "node_filesystem_size_bytes) > 0.9",
             .pending = "10m",
             .severity = "warning",
             .summary = "{mountpoint} of {node} is {value} full",
             .description = "Checkpoints and logs of jobs stop when nothing is left.",
             .value_form = "humanizePercentage",
             .example =
                 {.broken = {{"node_filesystem_avail_bytes{node='n1',mountpoint='/s',fstype='xfs'}",
                              "25+0x30"},
                             {"node_filesystem_size_bytes{node='n1',mountpoint='/s',fstype='xfs'}",
                              "1000+0x30"}},
                  .sound = {{"node_filesystem_avail_bytes{node='n1',mountpoint='/s',fstype='xfs'}",
                             "200+0x30"},
                            {"node_filesystem_size_bytes{node='n1',mountpoint='/s',fstype='xfs'}",
                             "1000+0x30"},
                            {"node_filesystem_avail_bytes{node='n1',mountpoint='/r',fstype="
                             "'tmpfs'}",
                             "0+0x30"},
                            {"node_filesystem_size_bytes{node='n1',mountpoint='/r',fstype='tmpfs'}",
                             "1000+0x30"}},
                  .minute = 15,
                  .labels = {{"node", "n1"}, {"mountpoint", "/s"}},
                  .value = "97.5%"}},
            {.name = "NodeOutOfMemory",
             .expression = "sum by (node) (increase(node_vmstat_oom_kill[10m])) > 0",
             .severity = "warning",
             .summary = "The kernel of {node} has killed a process for lack of memory",
             .description = "The rank's screen and autolaunch report name it where it was a job's.",
             .example = {.broken = {{"node_vmstat_oom_kill{node='n1'}", "3+0x10 4+0x20"}},
                         .sound = {{"node_vmstat_oom_kill{node='n1'}", "3+0x30"}},
                         .minute = 12,
                         .labels = {{"node", "n1"}}}},
            {.name = "NodeMemoryShort",
             .expression = "max by (node) "
                           "(rate(node_pressure_memory_waiting_seconds_total[5m])) > 0.2",
             .pending = "10m",
             .severity = "warning",
             .summary = "Processes of {node} wait for memory {value} of the time",
             .description = "The kernel reclaims and reads back what ranks need.",
             .value_form = "humanizePercentage",
             .example =
                 {.broken = {{"node_pressure_memory_waiting_seconds_total{node='n1'}", "0+30x40"}},
                  .sound = {{"node_pressure_memory_waiting_seconds_total{node='n1'}", "0+1x40"}},
                  .minute = 20,
                  .labels = {{"node", "n1"}},
                  .value = "50%"}},
            {.name = "NodeHcaErrors",
             .expression = "sum by (node, device, port) "
                           "(increase(node_infiniband_port_errors_received_total[15m])) > 0",
             .severity = "warning",
             .summary = "{device} port {port} of {node} receives damaged packets",
             .description = "Clean, reseat or change the cable; mlxlink -d DEVICE -c shows it.",
             .example = {.broken = {{"node_infiniband_port_errors_received_total{node='n1',device="
                                     "'mlx5_0',port='1'}",
                                     "0+0x10 8+0x20"}},
                         .sound = {{"node_infiniband_port_errors_received_total{node='n1',device="
                                    "'mlx5_0',port='1'}",
                                    "8+0x30"}},
                         .minute = 12,
                         .labels = {{"node", "n1"}, {"device", "mlx5_0"}, {"port", "1"}}}},
            {.name = "NodeHcaLinkLost",
             .expression = "sum by (node, device, port) "
                           "(increase(node_infiniband_link_downed_total[15m])) > 0",
             .severity = "warning",
             .summary = "The link of {device} port {port} of {node} went down",
             .description = "NCCL's connections over it end, or wait for a long time.",
             .example = {.broken = {{"node_infiniband_link_downed_total{node='n1',device='mlx5_0',"
                                     "port='1'}",
                                     "0+0x10 1+0x20"}},
                         .sound = {{"node_infiniband_link_downed_total{node='n1',device='mlx5_0',"
                                    "port='1'}",
                                    "1+0x30"}},
                         .minute = 12,
                         .labels = {{"node", "n1"}, {"device", "mlx5_0"}, {"port", "1"}}}},
            {.name = "NodeHcaPortDown",
             // 4 is ACTIVE. A port that has no cable never was.
             .expression = "max by (node, device, port) (node_infiniband_state_id < 4 and "
                           "max_over_time(node_infiniband_state_id[1d]) == 4)",
             .pending = "5m",
             .severity = "critical",
             .summary = "{device} port {port} of {node} is not active any more",
             .description = "Look at cable and switch port: ibstat, ip link.",
             .example = {.broken = {{"node_infiniband_state_id{node='n1',device='mlx5_0',port='1'}",
                                     "4+0x10 1+0x20"}},
                         .sound = {{"node_infiniband_state_id{node='n1',device='mlx5_0',port='1'}",
                                    "4+0x30"},
                                   {"node_infiniband_state_id{node='n1',device='mlx5_1',port='1'}",
                                    "1+0x30"}},
                         .minute = 20,
                         .labels = {{"node", "n1"}, {"device", "mlx5_0"}, {"port", "1"}}}},
            {.name = "NodeTextfileUnreadable",
             .expression = "max by (node) (node_textfile_scrape_error) == 1",
             .pending = "5m",
             .severity = "warning",
             .summary = "node_exporter of {node} cannot read its textfiles",
             .description = "The metrics of that node's jobs are missing: permissions of the "
                            "folder, or a file that is no exposition.",
             .example = {.broken = {{"node_textfile_scrape_error{node='n1'}", "1+0x20"}},
                         .sound = {{"node_textfile_scrape_error{node='n1'}", "0+0x20"}},
                         .minute = 10,
                         .labels = {{"node", "n1"}}}},
        }};
}

AlertGroup slurm_alerts() {
    return {
        "autolaunch-slurm",
        {
            {.name = "SlurmSilent",
             .expression = "max by (instance) (up{job='slurm'}) == 0",
             .pending = "5m",
             .severity = "critical",
             .summary = "Slurm's metrics at {instance} cannot be read",
             .description = "Is slurmctld up? scontrol ping.",
             .example = {.broken = {{"up{job='slurm',instance='c:6817'}", "1+0x3 0+0x20"}},
                         .sound = {{"up{job='slurm',instance='c:6817'}", "1+0x30"}},
                         .minute = 10,
                         .labels = {{"instance", "c:6817"}}}},
            {.name = "SlurmNodesDown",
             .expression = "max(slurm_nodes_down) > 0",
             .pending = "10m",
             .severity = "warning",
             .summary = "{value} of Slurm's nodes are down",
             .description = "sinfo -R has the reasons.",
             .example = {.broken = {{"slurm_nodes_down", "2+0x20"}},
                         .sound = {{"slurm_nodes_down", "0+0x20"}},
                         .minute = 15,
                         .value = "2"}},
            {.name = "SlurmNodesDrained",
             .expression = "max(slurm_nodes_drain) > 0",
             .pending = "1h",
             .severity = "info",
             .summary = "{value} of Slurm's nodes are drained",
             .description = "sinfo -R has the reasons; [node_problem] is the health check's.",
             .example = {.broken = {{"slurm_nodes_drain", "3+0x90"}},
                         .sound = {{"slurm_nodes_drain", "3+0x30 0+0x60"}},
                         .minute = 70,
                         .value = "3"}},
            {.name = "SlurmJobsFail",
             // Slurm forgets a job MinJobAge (300 s) after its end.
             .expression = "(max(slurm_jobs_failed) or max(slurm_queue_failed)) > 0",
             .severity = "warning",
             .summary = "{value} jobs have failed in the last minutes",
             .description = "sacct -s F -S now-10minutes lists them; autolaunch report tells of "
                            "its own why.",
             .example = {.broken = {{"slurm_jobs_failed", "0+0x5 2+0x5"},
                                    {"slurm_queue_failed", "0+0x10"}},
                         .sound = {{"slurm_jobs_failed", "0+0x10"}},
                         .minute = 7,
                         .value = "2"}},
            {.name = "SlurmAccountingBehind",
             .expression = "max(slurm_slurmdbd_queue_size or slurm_scheduler_dbd_queue_size) > "
                           "1000",
             .pending = "10m",
             .severity = "warning",
             .summary = "{value} messages wait for slurmdbd",
             .description = "Is it up? What is not written is lost when slurmctld's queue is full.",
             .example = {.broken = {{"slurm_slurmdbd_queue_size", "5000+0x20"}},
                         .sound = {{"slurm_scheduler_dbd_queue_size", "4+0x20"}},
                         .minute = 15,
                         .value = "5000"}},
        }};
}

}  // namespace

std::vector<AlertGroup> machine_alerts() { return {gpu_alerts(), node_alerts(), slurm_alerts()}; }

}  // namespace autolaunch::launcher
