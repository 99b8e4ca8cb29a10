#include "run_report/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kReportFormat = 1;

template <class T>
OrderedJson value_or_null(const std::optional<T>& value) {
    return value ? OrderedJson(*value) : OrderedJson();
}

std::string json_time(RecordTime at) {
    std::string text = format_moment(at);
    text[10] = 'T';
    const auto ms = (at - std::chrono::floor<std::chrono::seconds>(at)).count();
    return text + fmt::format(".{:03}Z", ms);
}

OrderedJson time_or_null(const std::optional<RecordTime>& at) {
    return at ? OrderedJson(json_time(*at)) : OrderedJson();
}

OrderedJson failure_json(const RecordFailure& failure) {
    return {{"time", json_time(failure.at)},
            {"generation", failure.generation},
            {"cause", failure.cause},
            {"certainty", failure.certainty},
            {"who", failure.who},
            {"how", failure.how},
            {"what", failure.what},
            {"evidence", failure.evidence},
            {"remedy", failure.remedy},
            {"follows", failure.follows},
            {"log", failure.log}};
}

OrderedJson rank_json(const RecordRank& rank) {
    return {{"rank", rank.rank},
            {"local_rank", rank.local_rank},
            {"node", rank.node},
            {"gpu", value_or_null(rank.gpu)},
            {"pid", value_or_null(rank.pid)},
            {"cpus", rank.cpus},
            {"reason", rank.reason},
            {"end", rank.end},
            {"failed", rank.failed}};
}

OrderedJson lists_json(const RunRecord& record) {
    OrderedJson lists = {
        {"timeline", OrderedJson::array()},    {"failures", OrderedJson::array()},
        {"checkpoints", OrderedJson::array()}, {"throughput", OrderedJson::array()},
        {"placement", OrderedJson::array()},   {"certificates", OrderedJson::array()}};
    for (const RecordSpan& span : record.spans)
        lists["timeline"].push_back({{"kind", ledger_key(span.kind)},
                                     {"from", json_time(span.from)},
                                     {"to", json_time(span.to)},
                                     {"generation", span.generation}});
    for (const RecordFailure& failure : record.failures)
        lists["failures"].push_back(failure_json(failure));
    for (const RecordCheckpoint& saved : record.checkpoints)
        lists["checkpoints"].push_back({{"time", json_time(saved.at)},
                                        {"step", saved.step},
                                        {"stall_seconds", saved.stall_seconds}});
    for (const RecordPace& pace : record.pace)
        lists["throughput"].push_back({{"time", json_time(pace.at)},
                                       {"step", pace.step},
                                       {"steps_per_second", pace.steps_per_second},
                                       {"tokens_per_second", value_or_null(pace.tokens_per_second)},
                                       {"loss", value_or_null(pace.loss)}});
    for (const RecordRank& rank : record.ranks)
        lists["placement"].push_back(rank_json(rank));
    for (const RecordCertificate& certificate : record.certificates)
        lists["certificates"].push_back({{"file", certificate.file},
                                         {"node", certificate.node},
                                         {"clean", certificate.clean},
                                         {"left", certificate.left}});
    return lists;
}

OrderedJson run_json(const RunRecord& record) {
    OrderedJson json = {{"run_dir", record.run_dir},
                        {"run_id", record.run_id},
                        {"job_name", record.job_name},
                        {"hostname", record.hostname},
                        {"nodes", record.node_count},
                        {"world_size", record.world_size},
                        {"binding", record.binding},
                        {"started", time_or_null(record.started)},
                        {"last_seen", time_or_null(record.last_seen)},
                        {"outcome", record.outcome},
                        {"exit_code", value_or_null(record.exit_code)},
                        {"restarts", record.restarts},
                        {"last_step", value_or_null(record.last_step)},
                        {"total_steps", value_or_null(record.total_steps)},
                        {"checkpoint_count", record.checkpoint_count},
                        {"ledger", OrderedJson::parse(ledger_json(record.ledger))}};
    json["gpu_time"] = OrderedJson::parse(gpu_time_json(record.gpu_time));
    json.update(lists_json(record));
    json["data"] = record.data;
    json["warnings"] = record.warnings;
    json["gaps"] = record.gaps;
    return json;
}

}  // namespace

std::string report_json(const std::vector<RunRecord>& records) {
    const RunSummary all = summarise(records);
    OrderedJson json = {{"format", kReportFormat}, {"runs", OrderedJson::array()}};
    for (const RunRecord& record : records)
        json["runs"].push_back(run_json(record));
    json["summary"] = {{"runs", all.runs},
                       {"ended", all.ended},
                       {"completed", all.completed},
                       {"completed_without_person", all.completed_without_person},
                       {"share_used", all.share_used},
                       {"goodput", all.goodput},
                       {"mean_time_to_failure_ms",
                        all.mean_time_to_failure ? OrderedJson(all.mean_time_to_failure->count())
                                                 : OrderedJson()}};
    return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
