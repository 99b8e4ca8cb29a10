#pragma once
#include "require.hpp"
#include "sweep/element_record.hpp"
#include "sweep/sweep_table.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

namespace sweep_record {

inline void check_early_stop(MetricHistory history) {
    EarlyStopSpec stop;
    for (const auto rule : {EarlyStopSpec::Rule::median, EarlyStopSpec::Rule::asha}) {
        stop.rule = rule;
        for (const SweepLook& look : history.looks)
            why_stop(stop, look, history.looks);
        const auto newest = history.newest_step;
        const auto mark = newest_mark(stop, newest);
        fuzz::require(!mark || *mark <= newest);
        for (const std::int64_t step : {std::int64_t{0}, std::int64_t{300}, newest})
            if (const auto look = history.take(stop, step, 1.5))
                fuzz::require(look->step == step && look->mark <= step);
    }
}

inline void check_table(const ElementRecord& record) {
    SweepTable table{.folder = record.run_dir, .metric = record.metric};
    for (const char* slurm : {"", "RUNNING", "PENDING", "FAILED", "COMPLETED"}) {
        ElementRow row{.element = record.element, .array_job = record.array_job, .record = record};
        row.standing = judge_element(
            &record, *slurm == '\0' ? std::nullopt : std::optional<std::string>(slurm),
            record.array_job, true);
        table.rows.push_back(row);
    }
    sort_rows(table);
    sweep_text(table);
    fuzz::require(nlohmann::json::accept(sweep_json(table)));
    array_text(failed_elements(table));
}

}  // namespace sweep_record

/// A file of the folder that a sweep's elements share: a record, which is written to read the same
/// and can be compared and shown, or none. Aborts where that is not so. Whether it is one.
inline bool check_sweep_bytes(std::string_view bytes) {
    const auto record = parse_element_record(std::string(bytes));
    if (!record)
        return false;
    const std::string text = element_record_text(*record);
    const auto again = parse_element_record(text);
    fuzz::require(again && element_record_text(*again) == text);
    sweep_record::check_early_stop(record->history);
    sweep_record::check_table(*record);
    return true;
}

}  // namespace autolaunch::launcher
