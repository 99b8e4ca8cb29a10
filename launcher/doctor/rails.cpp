#include "doctor/rails.hpp"

#include "doctor/check.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

std::string rails_text(std::span<const Rail> rails) {
    std::vector<std::string> parts;
    for (const Rail& rail : rails)
        parts.push_back(fmt::format("{}/{}/{}", rail.hca, rail.netdev, rail.address));
    return join(parts, " ");
}

std::vector<Rail> rails_from(std::string_view text) {
    std::vector<Rail> rails;
    for (const std::string& part : split(text, ' ')) {
        const auto fields = split(part, '/');
        if (fields.size() == 3)
            rails.push_back({fields[0], fields[1], fields[2]});
    }
    return rails;
}

std::vector<RailTarget> rail_targets(std::span<const NodeReport> reports, std::size_t node) {
    const auto rails_of = [&](const NodeReport& report) {
        const auto found = report.facts.find("rails");
        return found == report.facts.end() ? std::vector<Rail>{} : rails_from(found->second);
    };
    std::vector<RailTarget> targets;
    if (reports.size() < 2)
        return targets;
    const NodeReport& next = reports[(node + 1) % reports.size()];
    const std::vector<Rail> ours = rails_of(reports[node]), theirs = rails_of(next);
    if (ours.size() != theirs.size())
        return targets;
    for (std::size_t i = 0; i < ours.size(); ++i)
        for (const std::size_t step : {0U, 1U}) {
            if (step >= ours.size())
                continue;
            const Rail& other = theirs[(i + step) % theirs.size()];
            targets.push_back({ours[i].netdev, ours[i].address, other.address,
                               other.hca + " of " + next.node, step == 0});
        }
    return targets;
}

std::string encode_targets(const std::vector<RailTarget>& targets) {
    nlohmann::json list = nlohmann::json::array();
    for (const RailTarget& target : targets)
        list.push_back(
            {target.netdev, target.source, target.address, target.name, target.same_rail});
    return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<RailTarget> decode_targets(std::string_view text) {
    try {
        if (!nests_at_most(text, 2))
            throw Error(ErrorCode::corrupt, "the head's list of rails is nested too deeply");
        std::vector<RailTarget> targets;
        for (const auto& entry : nlohmann::json::parse(text))
            targets.push_back({entry.at(0).get<std::string>(), entry.at(1).get<std::string>(),
                               entry.at(2).get<std::string>(), entry.at(3).get<std::string>(),
                               entry.at(4).get<bool>()});
        return targets;
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::corrupt,
                    std::string("the head's list of rails cannot be read: ") + error.what());
    }
}

NodeReport judge_rails(std::span<const RailTarget> targets, std::span<const Reach> answers) {
    NodeReport report;
    const Check& check = *find_check("rails");
    const std::string name(check.name);
    std::size_t cannot = 0, across = 0, silent_across = 0, silent = 0;
    for (std::size_t i = 0; i < targets.size() && i < answers.size(); ++i) {
        cannot += answers[i] == Reach::cannot_ask ? 1 : 0;
        if (!targets[i].same_rail) {
            across += answers[i] == Reach::cannot_ask ? 0 : 1;
            silent_across += answers[i] == Reach::silent ? 1 : 0;
        } else if (answers[i] == Reach::silent) {
            ++silent;
            report.findings.push_back({name, check.severity,
                                       fmt::format("{} does not reach {} ({})", targets[i].netdev,
                                                   targets[i].name, targets[i].address),
                                       std::string(check.fix)});
        }
    }
    if (silent == 0 && across > 0 && silent_across == across)
        report.findings.push_back({name, Severity::hint,
                                   "each rail reaches itself alone, no rail another",
                                   "set NCCL_CROSS_NIC=0 under nccl.env"});
    if (cannot > 0)
        report.unchecked.push_back(
            {name, fmt::format("{} of {} could not be asked for", cannot, targets.size())});
    if (report.findings.empty() && cannot == 0)
        report.fine.push_back(name);
    return report;
}

}  // namespace autolaunch::launcher
