#include "sampler/sampler_messages.hpp"

#include "base/json_nesting.hpp"
#include "readings/json_fields.hpp"
#include "readings/sample_fields.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace autolaunch::launcher {

template <FieldsOf<WatchedGpu> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("bdf", p.bdf);
    visit("vendor", p.vendor);
    visit("uuid", p.uuid);
    visit("model", p.model);
}

template <FieldsOf<SamplerOrder> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("run_dir", p.run_dir);
    visit("node", p.node);
    visit("run_id", p.run_id);
    visit("job_id", p.job_id);
    visit("step_id", p.step_id);
    visit("job_name", p.job_name);
    visit("interval_ms", p.interval_ms);
    visit("gpus", p.gpus);
    visit("asks_nvidia", p.asks_nvidia);
    visit("file_systems", p.file_systems);
    visit("version", p.version);
    visit("restarts", p.restarts);
    visit("textfile_folder", p.textfile_folder);
    visit("metrics_listen", p.metrics_listen);
    visit("metrics_port", p.metrics_port);
    visit("metrics_targets", p.metrics_targets);
    visit("metrics_host", p.metrics_host);
}

template <FieldsOf<RankFacts> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("rank", p.rank);
    visit("pid", p.pid);
    visit("gpu", p.gpu);
    visit("step", p.step);
    visit("step_s", p.step_seconds);
    visit("loss", p.loss);
    visit("tok_per_s", p.tokens_per_second);
    visit("input", p.input_ratio);
}

template <FieldsOf<StepDurations::Newest> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("rank", p.rank);
    visit("s", p.seconds);
    visit("t", p.time_ms);
}

template <FieldsOf<StepDurations> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("counts", p.counts);
    visit("newest", p.newest);
    visit("sum_us", p.sum_us);
}

template <FieldsOf<JobFacts> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("nodes", p.nodes);
    visit("world_size", p.world_size);
    visit("state", p.state);
    visit("restarts", p.restarts);
    visit("unit", p.unit);
    visit("unit_ms", p.unit_ms);
    visit("measured", p.measured);
}

template <FieldsOf<AgentFacts> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("generation", p.generation);
    visit("ranks", p.ranks);
    visit("steps", p.steps);
    visit("checkpoint_step", p.checkpoint_step);
    visit("checkpoint_stall_s", p.checkpoint_stall_seconds);
    visit("checkpoint_save_s", p.checkpoint_save_seconds);
    visit("checkpoint_t", p.checkpoint_time_ms);
    visit("checkpoints", p.checkpoints);
    visit("sampler_restarts", p.sampler_restarts);
    visit("job", p.job);
}

template <FieldsOf<NodeMeasures::Gpu> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("busy", p.busy);
    visit("celsius", p.celsius);
    visit("milliwatts", p.milliwatts);
    visit("used", p.memory_used_mib);
    visit("total", p.memory_total_mib);
    visit("slowed", p.slowed);
}

template <FieldsOf<NodeMeasures> Part, class Visit>
void each(Part& p, Visit&& visit) {
    visit("span_ms", p.span_ms);
    visit("cpu", p.cpu_busy);
    visit("memory", p.memory_free);
    visit("throttled", p.throttled);
    visit("io", p.io_stalled);
    visit("net", p.network_bytes);
    visit("ib", p.infiniband_bytes);
    visit("silent", p.silent_file_systems);
    visit("troubles", p.troubles);
    visit("restarts", p.sampler_restarts);
    visit("gpus", p.gpus);
}

namespace {

using json_fields::Json;

template <class Value>
std::string tagged(const char* tag, const Value& value) {
    Json json = Json::object();
    json[tag] = json_fields::json_of(value);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Json parse(std::string_view line) {
    constexpr int kDeepest = 8;
    return nests_at_most(line, kDeepest) ? Json::parse(line, nullptr, false) : Json();
}

template <class Value>
bool read(const Json& json, const char* tag, Value& value) {
    return json.is_object() && json.contains(tag) && json_fields::take(json[tag], value);
}

}  // namespace

std::string to_line(const SamplerOrder& order) { return tagged("order", order); }
std::string to_line(const AgentFacts& facts) { return tagged("facts", facts); }
std::string to_line(const SamplerAlive&) { return "{\"alive\":1}\n"; }
std::string to_line(const SamplerAsks&) { return "{\"asks\":1}\n"; }
std::string to_line(const SamplerWarning& warning) { return tagged("warning", warning.text); }
std::string to_line(const SamplerMeasured& measured) {
    return tagged("measured", measured.measures);
}

SamplerInput parse_sampler_input(std::string_view line) {
    const Json json = parse(line);
    SamplerOrder order;
    AgentFacts facts;
    if (read(json, "order", order))
        return order;
    if (!read(json, "facts", facts))
        return {};
    facts.steps.counts.resize(StepDurations::kBuckets);
    facts.steps.newest.resize(StepDurations::kBuckets);
    return facts;
}

SamplerOutput parse_sampler_output(std::string_view line) {
    const Json json = parse(line);
    SamplerWarning warning;
    SamplerMeasured measured;
    if (read(json, "measured", measured.measures))
        return measured;
    if (read(json, "warning", warning.text))
        return warning;
    if (json.is_object() && json.contains("asks"))
        return SamplerAsks{};
    return json.is_object() && json.contains("alive") ? SamplerOutput(SamplerAlive{})
                                                      : SamplerOutput();
}

}  // namespace autolaunch::launcher
