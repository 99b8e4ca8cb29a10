#pragma once
#include "require.hpp"
#include "run_files_text.hpp"
#include "run_report/record_builder.hpp"
#include "run_report/report.hpp"
#include "submission/data_nodes.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Files of a run directory that somebody gave us: a record of it, whose ledger is whole and whose
/// page has no tags of others and no secret. Aborts where that is not so. How many events were
/// understood.
inline std::size_t check_report_bytes(std::string_view bytes) {
    using fuzz::require;
    const RunFilesText files(bytes);
    RecordBuilder builder("runs/1", {"hunter2-hunter2"});
    files.each('e', [&](std::string_view text) { builder.line(text); });
    files.each('t', [&](std::string_view text) { builder.torn_line("events.jsonl", text); });
    builder.begin_node(1, "events.node-1.jsonl");
    files.each('n', [&](std::string_view text) { builder.node_line(text); });
    files.each('p', [&](std::string_view text) { builder.plan("plan.json", text); });
    files.each('q', [&](std::string_view text) { builder.plan("plan.node-1.json", text); });
    files.each('x', [&](std::string_view text) { builder.certificate("exit.json", text); });
    const RunRecord record = builder.take();
    for (const RecordSpan& span : record.spans)
        require(span.from <= span.to);
    require(nlohmann::json::accept(report_json({record})));
    report_text({record}, TextStyle{});
    const std::string page = report_html({record, record}, "0");
    for (const char* foreign : {"<script", "<img", "hunter2-hunter2"})
        require(page.find(foreign) == std::string::npos);
    std::string plan, events;
    files.each('p', [&](std::string_view text) { plan = text; });
    files.each('e', [&](std::string_view text) { (events += text) += '\n'; });
    StorageSpec storage;
    storage.stage_in = {{.from = "/shared/t", .name = "t", .verify = "", .unpack = ""}};
    for (const std::string& node : nodes_with_data(
             plan, [&](int node) { return node == 0 ? events : std::string(); }, storage))
        require(node.find_first_of(",[] |;\n") == node.npos && !node.empty() && node[0] != '-');
    return record.started ? 1 + record.ranks.size() : 0;
}

}  // namespace autolaunch::launcher
