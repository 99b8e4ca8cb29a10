#include "render/prometheus_files.hpp"

#include "manifests/tree.hpp"
#include "manifests/yaml_text.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kRulesFile[] = "autolaunch.rules.yml";
constexpr char kTestsFile[] = "autolaunch.rules.test.yml";
constexpr char kConfigurationFile[] = "prometheus.yml";

/// Puts something in the place of each {word}.
std::string fill_in(std::string_view text, const auto& of_word) {
    std::string out;
    while (!text.empty()) {
        const std::size_t open = text.find('{');
        const std::size_t close = text.find('}', open);
        out += text.substr(0, open);
        if (open == text.npos || close == text.npos)
            break;
        out += of_word(std::string(text.substr(open + 1, close - open - 1)));
        text.remove_prefix(close + 1);
    }
    return out;
}

std::string as_template(const std::string& text, const AlertRule& rule) {
    return fill_in(text, [&](const std::string& word) {
        if (word != "value")
            return "{{ $labels." + word + " }}";
        return rule.value_form.empty() ? "{{ $value }}" : "{{ $value | " + rule.value_form + " }}";
    });
}

std::string as_fired(const std::string& text, const AlertExample& example) {
    const std::map<std::string, std::string> labels(example.labels.begin(), example.labels.end());
    return fill_in(text, [&](const std::string& word) {
        const auto label = labels.find(word);
        return word == "value" ? example.value : label == labels.end() ? "" : label->second;
    });
}

MapNode annotations(const std::string& summary, const std::string& description) {
    MapNode node;
    node.text("summary", summary).text("description", description);
    return node;
}

Value alert_node(const AlertRule& rule) {
    MapNode labels;
    labels.text("severity", rule.severity);
    MapNode node;
    node.text("alert", rule.name).text("expr", rule.expression);
    if (!rule.pending.empty())
        node.text("for", rule.pending);
    node.add("labels", labels)
        .add("annotations",
             annotations(as_template(rule.summary, rule), as_template(rule.description, rule)));
    return node;
}

Value group_node(const std::string& name, std::vector<Value> rules) {
    MapNode node;
    node.text("name", name).add("rules", list_node(std::move(rules)));
    return node;
}

std::string rules_text(const std::vector<AlertGroup>& groups) {
    std::vector<Value> recorded;
    for (const RecordingRule& rule : recording_rules())
        recorded.push_back(MapNode().text("record", rule.name).text("expr", rule.expression));
    std::vector<Value> nodes = {group_node("autolaunch-recorded", std::move(recorded))};
    for (const AlertGroup& group : groups) {
        std::vector<Value> rules;
        for (const AlertRule& rule : group.rules)
            rules.push_back(alert_node(rule));
        nodes.push_back(group_node(group.name, std::move(rules)));
    }
    return fmt::format(
               "# Rules for jobs, GPUs, nodes and Slurm, made by autolaunch render prometheus.\n"
               "# A threshold that does not fit: change it here and in {}, and run\n"
               "#   promtool check rules {}\n"
               "#   promtool test rules {}\n",
               kTestsFile, kRulesFile, kTestsFile) +
           yaml_text(MapNode().add("groups", list_node(std::move(nodes))));
}

Value alert_test(const AlertRule& rule, bool fires) {
    std::vector<Value> expected;
    if (fires) {
        MapNode labels;
        labels.text("severity", rule.severity);
        for (const auto& [name, value] : rule.example.labels)
            labels.text(name, value);
        expected.push_back(
            MapNode()
                .add("exp_labels", labels)
                .add("exp_annotations", annotations(as_fired(rule.summary, rule.example),
                                                    as_fired(rule.description, rule.example))));
    }
    return MapNode()
        .text("eval_time", fmt::format("{}m", rule.example.minute))
        .text("alertname", rule.name)
        .add("exp_alerts", list_node(std::move(expected)));
}

Value test_node(const AlertRule& rule, bool fires) {
    std::vector<Value> series;
    for (const TestSeries& one : fires ? rule.example.broken : rule.example.sound)
        series.push_back(MapNode().text("series", one.series).text("values", one.values));
    MapNode node;
    node.text("name", rule.name + (fires ? " fires" : " is silent"))
        .text("interval", "1m")
        .add("input_series", list_node(std::move(series)))
        .add("alert_rule_test", list_node({alert_test(rule, fires)}));
    return node;
}

std::string tests_text(const std::vector<AlertGroup>& groups) {
    std::vector<Value> tests;
    for (const AlertGroup& group : groups)
        for (const AlertRule& rule : group.rules)
            for (const bool fires : {true, false})
                tests.push_back(test_node(rule, fires));
    MapNode root;
    root.add("rule_files", text_list_node({kRulesFile}))
        .text("evaluation_interval", "1m")
        .add("tests", list_node(std::move(tests)));
    return fmt::format(
               "# promtool test rules {}: each alert with numbers that it fires for, and "
               "with such that it does not.\n",
               kTestsFile) +
           yaml_text(root);
}

Value relabel_node(const std::vector<std::string>& from, const char* form, const char* to) {
    MapNode node;
    node.add("source_labels", text_list_node(from)).text("regex", form).text("target_label", to);
    return node;
}

Value scrape_node(const std::string& job) {
    // The label `node`: what the file of targets says, else the target's host without port. With
    // it, what exporters of one node say is known to belong together; what says so itself keeps its
    // own (honor_labels).
    std::vector<Value> relabel = {
        relabel_node({"node", "__address__"}, R"(;(\[.+\]|[^:]+)(:[0-9]+)?)", "node")};
    if (job == "autolaunch") {  // in the files of targets that jobs write
        relabel.push_back(relabel_node({"autolaunch_job"}, "(.+)", "job_id"));
        relabel.push_back(relabel_node({"autolaunch_node"}, "(.+)", "node"));
    }
    if (job == "slurm")  // slurmctld has several: without it their `up` would be one series
        relabel.push_back(relabel_node({"__metrics_path__"}, "(.+)", "path"));
    MapNode files;
    files.add("files", text_list_node({"targets/" + job + "/*.json"}));
    MapNode node;
    node.text("job_name", job)
        .boolean("honor_labels", true)
        .add("file_sd_configs", list_node({files}))
        .add("relabel_configs", list_node(std::move(relabel)));
    return node;
}

std::string configuration_text() {
    MapNode intervals;
    intervals.text("scrape_interval", "15s").text("evaluation_interval", "30s");
    MapNode managers;
    managers.add("targets", text_list_node({"localhost:9093"}));
    MapNode alerting;
    alerting.add("alertmanagers",
                 list_node({MapNode().add("static_configs", list_node({managers}))}));
    std::vector<Value> jobs;
    for (const char* job : {"autolaunch", "node", "dcgm", "slurm"})
        jobs.push_back(scrape_node(job));
    MapNode root;
    root.add("global", intervals)
        .add("rule_files", text_list_node({kRulesFile}))
        .add("alerting", alerting)
        .add("scrape_configs", list_node(std::move(jobs)));
    return "# A configuration of Prometheus, or what to add to yours: the rules go by the names of "
           "its jobs and by the label node.\n"
           "# What is scraped stands in files below targets/, which are read anew when they "
           "change:\n"
           "#   targets/autolaunch/  the jobs' own: monitoring.metrics_targets_directory of their "
           "specs\n"
           "#   targets/node/        [{\"targets\": [\"node1:9100\", \"node2:9100\"]}]   "
           "node_exporter\n"
           "#   targets/dcgm/        [{\"targets\": [\"node1:9400\"]}]                 "
           "dcgm-exporter\n"
           "#   targets/slurm/       [{\"targets\": [\"head:8080\"]}]                  "
           "prometheus-slurm-exporter\n"
           "#     or, of Slurm 25.11 and later, for each of jobs, nodes, partitions, "
           "jobs-users-accts and scheduler\n"
           "#                        {\"targets\": [\"head:6817\"], \"labels\": "
           "{\"__metrics_path__\": \"/metrics/jobs\"}}\n" +
           yaml_text(root);
}

}  // namespace

std::vector<RenderedFile> prometheus_files(const std::vector<AlertGroup>& groups) {
    return {
        {kRulesFile, rules_text(groups), "recording rules and alerts: promtool check rules"},
        {kTestsFile, tests_text(groups), "their tests: promtool test rules"},
        {kConfigurationFile, configuration_text(),
         "what to scrape, and the rules loaded: promtool check config"},
    };
}

}  // namespace autolaunch::launcher
