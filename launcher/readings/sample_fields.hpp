#pragma once
#include "readings/sample.hpp"

#include <type_traits>

/// Each key of a line and the member that it stands for, once for writer and reader. `visit` is
/// called with both; the sample may be const.
namespace autolaunch::launcher {

template <class Sample, class Part>
concept FieldsOf = std::is_same_v<std::remove_const_t<Sample>, Part>;

template <FieldsOf<CpuSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("busy", s.busy_ratio);
    visit("user", s.user_ratio);
    visit("system", s.system_ratio);
    visit("iowait", s.iowait_ratio);
    visit("steal", s.steal_ratio);
    visit("load1", s.load1);
    visit("cpus", s.cpus);
}

template <FieldsOf<MemorySample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("total", s.total_bytes);
    visit("available", s.available_bytes);
    visit("shared", s.shared_bytes);
    visit("dirty", s.dirty_bytes);
    visit("swap_used", s.swap_used_bytes);
}

template <FieldsOf<PressureSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("cpu_some", s.cpu_some_ratio);
    visit("memory_some", s.memory_some_ratio);
    visit("memory_full", s.memory_full_ratio);
    visit("io_some", s.io_some_ratio);
    visit("io_full", s.io_full_ratio);
}

template <FieldsOf<CgroupSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("cpu", s.cpu_cores);
    visit("throttled", s.throttled_ratio);
    visit("memory", s.memory_bytes);
    visit("memory_limit", s.memory_limit_bytes);
    visit("oom_kills", s.oom_kills);
}

template <FieldsOf<CheckpointSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("step", s.step);
    visit("age_s", s.age_seconds);
    visit("stall_s", s.stall_seconds);
    visit("save_s", s.save_seconds);
}

template <FieldsOf<RankSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("rank", s.rank);
    visit("pid", s.pid);
    visit("cpu", s.cpu_cores);
    visit("rss", s.resident_bytes);
    visit("threads", s.threads);
    visit("read", s.read_bytes);
    visit("written", s.written_bytes);
    visit("gpu", s.gpu);
    visit("step", s.step);
    visit("step_s", s.step_seconds);
    visit("loss", s.loss);
    visit("tok_per_s", s.tokens_per_second);
    visit("input", s.input_ratio);
}

template <FieldsOf<GpuSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("bdf", s.bdf);
    visit("busy", s.busy_ratio);
    visit("mem_busy", s.memory_busy_ratio);
    visit("mem_used", s.memory_used_bytes);
    visit("mem_total", s.memory_total_bytes);
    visit("celsius", s.celsius);
    visit("mem_celsius", s.memory_celsius);
    visit("watts", s.watts);
    visit("watts_limit", s.watts_limit);
    visit("sm_hz", s.sm_hertz);
    visit("mem_hz", s.memory_hertz);
    visit("nvlink", s.nvlink_bytes);
    visit("ecc", s.ecc_errors);
    visit("slowed_by", s.slowed_by);
    visit("procs", s.processes);
}

template <FieldsOf<NetworkSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("dev", s.device);
    visit("received", s.received_bytes);
    visit("sent", s.sent_bytes);
    visit("dropped", s.dropped);
    visit("errors", s.errors);
}

template <FieldsOf<InfinibandSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("dev", s.device);
    visit("port", s.port);
    visit("state", s.state);
    visit("link", s.link_bytes);
    visit("received", s.received_bytes);
    visit("sent", s.sent_bytes);
    visit("waits", s.waits);
    visit("errors", s.errors);
    visit("link_downs", s.link_downs);
}

template <FieldsOf<DiskSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("dev", s.device);
    visit("read", s.read_bytes);
    visit("written", s.written_bytes);
    visit("busy", s.busy_ratio);
}

template <FieldsOf<FileSystemSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("path", s.path);
    visit("type", s.type);
    visit("total", s.total_bytes);
    visit("available", s.available_bytes);
    visit("files", s.total_files);
    visit("files_free", s.free_files);
    visit("silent_s", s.silent_seconds);
}

template <FieldsOf<SampleHeader::Gpu> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("bdf", s.bdf);
    visit("uuid", s.uuid);
    visit("model", s.model);
}

template <FieldsOf<SampleHeader> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("format", s.format);
    visit("node", s.node);
    visit("run_id", s.run_id);
    visit("t", s.time_ms);
    visit("up", s.boot_ms);
    visit("interval_s", s.interval_seconds);
    visit("restarts", s.restarts);
    visit("boot_id", s.boot_id);
    visit("gpus", s.gpus);
}

template <FieldsOf<JobSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("nodes", s.nodes);
    visit("heard", s.nodes_heard);
    visit("gpus", s.gpus);
    visit("cpu_busy", s.cpu_busy_ratio);
    visit("gpu_busy", s.gpu_busy_ratio);
    visit("gpu_busy_least", s.gpu_busy_least_ratio);
    visit("gpu_celsius", s.gpu_hottest_celsius);
    visit("gpu_watts", s.gpu_watts);
    visit("gpu_mem_used", s.gpu_memory_used_bytes);
    visit("gpu_mem_total", s.gpu_memory_total_bytes);
    visit("net", s.network_bytes);
    visit("ib", s.infiniband_bytes);
    visit("odd", s.odd);
}

template <FieldsOf<NodeSample> Sample, class Visit>
void each(Sample& s, Visit&& visit) {
    visit("t", s.time_ms);
    visit("up", s.boot_ms);
    visit("span_s", s.span_seconds);
    visit("generation", s.generation);
    visit("cpu", s.cpu);
    visit("mem", s.memory);
    visit("pressure", s.pressure);
    visit("cgroup", s.cgroup);
    visit("checkpoint", s.checkpoint);
    visit("ranks", s.ranks);
    visit("ranks_left_out", s.ranks_left_out);
    visit("gpus", s.gpus);
    visit("net", s.networks);
    visit("ib", s.infiniband);
    visit("disks", s.disks);
    visit("fs", s.file_systems);
    visit("job", s.job);
    visit("troubles", s.troubles);
}

}  // namespace autolaunch::launcher
