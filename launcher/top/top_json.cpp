#include "top/top_rows.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <optional>

namespace autolaunch::launcher {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kTopFormat = 1;

std::string moment(ViewTime at) {
    const auto second = std::chrono::floor<std::chrono::seconds>(at);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", second, (at - second).count());
}

template <class T>
void set_if_known(OrderedJson& json, const char* key, const std::optional<T>& value) {
    if (value)
        json[key] = *value;
}
void set_if_known(OrderedJson& json, const char* key, const std::optional<ViewTime>& value) {
    if (value)
        json[key] = moment(*value);
}
void set_if_known(OrderedJson& json, const char* key, const std::optional<double>& value) {
    if (value && std::isfinite(*value))
        json[key] = *value;
}

OrderedJson rank_json(const RankView& rank) {
    OrderedJson json = {{"rank", rank.rank},
                        {"local_rank", rank.local_rank},
                        {"node", rank.node},
                        {"state", name_of(rank.doing)},
                        {"generation", rank.generation},
                        {"straggler", rank.straggler}};
    set_if_known(json, "pid", rank.pid);
    set_if_known(json, "gpu", rank.gpu);
    set_if_known(json, "step", rank.step);
    set_if_known(json, "step_seconds", rank.step_seconds);
    set_if_known(json, "silent_seconds", rank.silent_seconds);
    set_if_known(json, "wait_share", rank.wait_share);
    set_if_known(json, "gpu_percent", rank.readings.gpu_percent);
    set_if_known(json, "gpu_bytes", rank.readings.gpu_bytes);
    set_if_known(json, "gpu_bytes_total", rank.readings.gpu_bytes_total);
    set_if_known(json, "gpu_celsius", rank.readings.gpu_celsius);
    set_if_known(json, "hca_bytes_per_second", rank.readings.hca_bytes_per_second);
    set_if_known(json, "rss_bytes", rank.readings.rss_bytes);
    if (!rank.note.empty())
        json["note"] = rank.note;
    return json;
}

}  // namespace

std::string top_json(const JobView& view) {
    OrderedJson json = {{"format", kTopFormat},          {"job_name", view.job_name},
                        {"run_id", view.run_id},         {"run_dir", view.run_dir},
                        {"at", moment(view.at)},         {"state", view.state},
                        {"generation", view.generation}, {"restarts", view.restarts},
                        {"nodes", view.node_count},      {"world_size", view.world_size}};
    set_if_known(json, "started", view.started);
    set_if_known(json, "last_heard", view.last_heard);
    set_if_known(json, "ended", view.ended);
    set_if_known(json, "step", view.progress.step());
    set_if_known(json, "total_steps", view.progress.total_steps());
    set_if_known(json, "loss", view.progress.loss());
    set_if_known(json, "tokens_per_second", view.progress.tokens_per_second());
    set_if_known(json, "seconds_per_step", view.progress.seconds_per_step());
    set_if_known(json, "checkpoint_step", view.progress.saved_step());
    set_if_known(json, "checkpoint_at", view.checkpoint_at);
    if (view.exit_code)
        json.update({{"exit_code", *view.exit_code}, {"outcome", view.outcome}});
    if (!view.doubt.empty())
        json["doubt"] = view.doubt;
    json["ranks"] = OrderedJson::array();
    for (const RankView& rank : view.ranks)
        json["ranks"].push_back(rank_json(rank));
    json["news"] = view.news;
    json["gaps"] = view.gaps;
    return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
