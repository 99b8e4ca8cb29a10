#include "doctor/verdict.hpp"

#include "base/text.hpp"
#include "report/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace autolaunch::launcher {

namespace {

// Slurm keeps longer ones, sinfo -R cuts them sooner.
constexpr std::size_t kMostReason = 160;

std::string mark(Severity severity, const TextStyle& style) {
    switch (severity) {
        case Severity::fail:
            return style.red("✗");
        case Severity::warn:
            return style.yellow("!");
        default:
            return style.dim("·");
    }
}

std::string finding_line(const NodesFinding& entry, bool several_nodes, const TextStyle& style) {
    const Finding& finding = entry.finding;
    std::string text =
        fmt::format("{} {}  ", mark(finding.severity, style), style.bold(finding.check));
    if (several_nodes)
        text += name_nodes(entry.nodes) + ": ";
    text += finding.what;
    if (!finding.fix.empty())
        text += " · fix: " + finding.fix;
    return escape_for_terminal(text, Colours::keep) + '\n';
}

std::string count_of(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Reasons, each with the checks that gave it: "no HCA (ports, rates, mtu)".
std::string by_reason(const std::vector<NodeReport>& reports,
                      std::vector<Unchecked> NodeReport::*list) {
    std::vector<std::string> order;
    std::map<std::string, std::vector<std::string>> names;
    for (const NodeReport& report : reports)
        for (const Unchecked& entry : report.*list) {
            auto& checks = names[entry.why];
            if (checks.empty())
                order.push_back(entry.why);
            if (std::find(checks.begin(), checks.end(), entry.check) == checks.end())
                checks.push_back(entry.check);
        }
    std::vector<std::string> parts;
    for (const std::string& why : order)
        parts.push_back(fmt::format("{}: {}", join(names[why], ", "), why));
    return join(parts, "; ");
}

std::set<std::string> checks_in(const std::vector<NodeReport>& reports,
                                std::vector<Unchecked> NodeReport::*list) {
    std::set<std::string> names;
    for (const NodeReport& report : reports)
        for (const Unchecked& entry : report.*list)
            names.insert(entry.check);
    return names;
}

std::string closing_lines(const Verdict& verdict, const TextStyle& style) {
    std::set<std::string> fine;
    for (const NodeReport& report : verdict.reports)
        fine.insert(report.fine.begin(), report.fine.end());
    for (const NodesFinding& entry : verdict.findings)
        fine.erase(entry.finding.check);
    const auto unchecked = checks_in(verdict.reports, &NodeReport::unchecked);
    for (const std::string& name : unchecked)
        fine.erase(name);
    std::string text = style.green("✓") + fmt::format(" {} fine", count_of(fine.size(), "check"));
    if (verdict.reports.size() > 1)
        text += fmt::format(" on {} nodes", verdict.reports.size());
    text += '\n';
    if (!unchecked.empty())
        text += style.yellow("?") + " not checked: " +
                escape_for_terminal(by_reason(verdict.reports, &NodeReport::unchecked),
                                    Colours::strip) +
                '\n';
    if (!checks_in(verdict.reports, &NodeReport::idle).empty())
        text += style.dim("- nothing to look at: " +
                          escape_for_terminal(by_reason(verdict.reports, &NodeReport::idle),
                                              Colours::strip)) +
                '\n';
    return text;
}

nlohmann::ordered_json reasons(const std::vector<Unchecked>& list) {
    auto array = nlohmann::ordered_json::array();
    for (const Unchecked& entry : list)
        array.push_back({{"check", entry.check}, {"why", entry.why}});
    return array;
}

}  // namespace

bool Verdict::has(Severity at_least) const {
    return std::any_of(findings.begin(), findings.end(), [&](const NodesFinding& entry) {
        return entry.finding.severity >= at_least;
    });
}

Verdict judge(std::vector<NodeReport> reports, std::vector<NodesFinding> of_all_nodes) {
    Verdict verdict;
    verdict.findings = gather_findings(reports);
    std::move(of_all_nodes.begin(), of_all_nodes.end(), std::back_inserter(verdict.findings));
    sort_worst_first(verdict.findings);
    verdict.reports = std::move(reports);
    return verdict;
}

std::string finding_lines(const std::vector<NodesFinding>& findings, bool several_nodes,
                          const TextStyle& style) {
    std::string text;
    for (const NodesFinding& entry : findings)
        text += finding_line(entry, several_nodes, style);
    return text;
}

std::string verdict_screen(const Verdict& verdict, const TextStyle& style) {
    return finding_lines(verdict.findings, verdict.reports.size() > 1, style) +
           closing_lines(verdict, style);
}

std::string verdict_json(const Verdict& verdict) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const NodesFinding& entry : verdict.findings)
        findings.push_back({{"check", entry.finding.check},
                            {"severity", severity_name(entry.finding.severity)},
                            {"nodes", entry.nodes},
                            {"what", entry.finding.what},
                            {"fix", entry.finding.fix}});
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const NodeReport& report : verdict.reports)
        nodes.push_back({{"node", report.node},
                         {"facts", report.facts},
                         {"fine", report.fine},
                         {"nothing_to_look_at", reasons(report.idle)},
                         {"not_checked", reasons(report.unchecked)}});
    const nlohmann::ordered_json whole = {{"findings", findings}, {"nodes", nodes}};
    return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::string health_line(const Verdict& verdict, Severity at_least) {
    std::string line;
    int more = -1;
    for (const NodesFinding& entry : verdict.findings) {
        if (entry.finding.severity < at_least)
            continue;
        if (more++ < 0)
            line = fmt::format("[node_problem] {}: {}", entry.finding.check, entry.finding.what);
    }
    for (char& c : line)
        if (c < ' ' || c > '~' || c == '"' || c == '\'' || c == '`' || c == '$' || c == '\\')
            c = '_';
    const std::string end = more > 0 ? fmt::format(" (+{} more)", more) : "";
    if (line.size() + end.size() > kMostReason)
        line.resize(kMostReason - end.size());
    return line + end;
}

}  // namespace autolaunch::launcher
