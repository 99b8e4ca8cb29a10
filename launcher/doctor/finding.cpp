#include "doctor/finding.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace autolaunch::launcher {

namespace {

using nlohmann::json;

constexpr int kDeepest = 8;

constexpr std::array<std::string_view, 4> kSeverityNames = {"info", "hint", "warn", "fail"};

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
}

json pairs(const std::vector<Unchecked>& list) {
    json array = json::array();
    for (const Unchecked& entry : list)
        array.push_back({entry.check, entry.why});
    return array;
}

std::vector<Unchecked> pairs(const json& array) {
    std::vector<Unchecked> list;
    for (const json& entry : array)
        list.push_back({entry.at(0).get<std::string>(), entry.at(1).get<std::string>()});
    return list;
}

}  // namespace

std::string_view severity_name(Severity severity) {
    return kSeverityNames.at(static_cast<std::size_t>(severity));
}

void NodeReport::merge(NodeReport&& other) {
    facts.merge(other.facts);
    append(findings, std::move(other.findings));
    append(fine, std::move(other.fine));
    append(idle, std::move(other.idle));
    append(unchecked, std::move(other.unchecked));
}

std::string encode_report(const NodeReport& report) {
    json findings = json::array();
    for (const Finding& f : report.findings)
        findings.push_back({f.check, static_cast<int>(f.severity), f.what, f.fix});
    const json whole = {{"node", report.node},        {"facts", report.facts},
                        {"findings", findings},       {"fine", report.fine},
                        {"idle", pairs(report.idle)}, {"unchecked", pairs(report.unchecked)}};
    return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

NodeReport decode_report(std::string_view text) {
    try {
        if (!nests_at_most(text, kDeepest))
            throw Error(ErrorCode::corrupt, "a doctor's report is nested too deeply");
        const json whole = json::parse(text);
        NodeReport report;
        report.node = whole.at("node").get<std::string>();
        report.facts = whole.at("facts").get<Facts>();
        for (const json& f : whole.at("findings")) {
            const int severity = whole_number<int>(f.at(1));
            if (severity < 0 || severity >= static_cast<int>(kSeverityNames.size()))
                throw Error(ErrorCode::corrupt,
                            "a doctor's report has severity " + std::to_string(severity));
            report.findings.push_back({f.at(0).get<std::string>(), static_cast<Severity>(severity),
                                       f.at(2).get<std::string>(), f.at(3).get<std::string>()});
        }
        report.fine = whole.at("fine").get<std::vector<std::string>>();
        report.idle = pairs(whole.at("idle"));
        report.unchecked = pairs(whole.at("unchecked"));
        return report;
    } catch (const json::exception& error) {
        throw Error(ErrorCode::corrupt,
                    std::string("a doctor's report cannot be read: ") + error.what());
    }
}

}  // namespace autolaunch::launcher
