#include "lint/lint.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

namespace autolaunch::launcher {

namespace {

constexpr int kFormatVersion = 1;  // docs/lint.md

/// A script's bytes may be anything; control characters do not belong on a terminal.
std::string printable(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
            c = '?';
    return text;
}

}  // namespace

const char* lint_severity_name(LintSeverity severity) {
    constexpr std::array<const char*, 3> kNames = {"info", "warning", "error"};
    return kNames.at(static_cast<std::size_t>(severity));
}

std::string findings_text(const std::vector<LintFinding>& findings) {
    std::string text;
    for (const auto& finding : findings)
        text += fmt::format("{}:{}: {}: {} [{}]\n    why: {}\n    fix: {}\n", finding.file,
                            finding.line, lint_severity_name(finding.severity),
                            printable(finding.message), finding.rule, finding.why,
                            printable(finding.fix));
    return text;
}

std::string findings_json(const std::vector<LintFinding>& findings) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const auto& finding : findings) {
        Json edits = Json::array();
        for (const auto& edit : finding.edits)
            edits.push_back({{"line", edit.line},
                             {"column", edit.column},
                             {"old", edit.old_text},
                             {"new", edit.new_text}});
        list.push_back({{"file", finding.file},
                        {"line", finding.line},
                        {"severity", lint_severity_name(finding.severity)},
                        {"rule", finding.rule},
                        {"message", finding.message},
                        {"why", finding.why},
                        {"fix", finding.fix},
                        {"edits", edits}});
    }
    const Json all = {{"version", kFormatVersion}, {"findings", list}};
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string rules_text() {
    std::string text;
    for (const auto& rule : all_rules())
        text += fmt::format("{:<26} {:<8} {}\n", rule.name, lint_severity_name(rule.severity),
                            rule.summary);
    return text;
}

std::string rules_json() {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const auto& rule : all_rules())
        list.push_back({{"rule", rule.name},
                        {"severity", lint_severity_name(rule.severity)},
                        {"summary", rule.summary},
                        {"why", rule.why},
                        {"fix", rule.fix}});
    const Json all = {{"version", kFormatVersion}, {"rules", list}};
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string rules_markdown() {
    std::string text = "| rule | severity | what | why | fix |\n|---|---|---|---|---|\n";
    const auto cell = [](std::string_view words) {
        std::string escaped;
        for (const char c : words) {
            if (c == '|')
                escaped += '\\';
            escaped += c;
        }
        return escaped;
    };
    for (const auto& rule : all_rules())
        text += fmt::format("| `{}` | {} | {} | {} | {} |\n", rule.name,
                            lint_severity_name(rule.severity), cell(rule.summary), cell(rule.why),
                            cell(rule.fix));
    return text;
}

}  // namespace autolaunch::launcher
