#include "audit/audit_command.hpp"

#include "audit/read_anchors.hpp"
#include "audit/trail_record.hpp"
#include "audit/verify_trail.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostShown = 20;  // problems of one trail, for people

bool is_current(const fs::path& file) {
    const std::string name = file.filename().string();
    if (!name.ends_with(".jsonl"))
        return false;
    // HOST.000000000042.jsonl is of the trail HOST.jsonl
    const std::string stem = file.stem().string();
    const std::size_t dot = stem.rfind('.');
    return dot == stem.npos || stem.size() - dot - 1 != 12 ||
           stem.find_first_not_of("0123456789", dot + 1) != stem.npos;
}

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
    std::error_code error;
    for (const fs::path& entry : list_folder(folder, error)) {
        std::error_code unknown;
        if (fs::is_directory(entry, unknown))
            add_folder(entry, files);
        else if (is_current(entry))
            files.push_back(entry);
    }
}

std::vector<fs::path> trails_of(const std::string& path) {
    if (!is_folder(path))
        return {path};
    if (auto recorded = trails_of_run(path); !recorded.empty())
        return recorded;
    std::vector<fs::path> files;
    add_folder(path, files);
    return files;
}

std::vector<fs::path> all_trails(const AuditRequest& request, const AuditSettings& settings,
                                 const Environment& environment, const std::string& host) {
    std::vector<fs::path> files;
    for (const std::string& path : request.paths) {
        const auto found = trails_of(path);
        if (found.empty() || (found.size() == 1 && !path_exists(found.front()) &&
                              audit_files(found.front()).empty()))
            throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                            path + " is no audit trail, and no run that has one",
                            "name a file HOST.jsonl, the folder of such, or a run directory with "
                            "an audit.json");
        files.insert(files.end(), found.begin(), found.end());
    }
    if (!request.paths.empty())
        return files;
    // An administrator's: all users'.
    if (::geteuid() == 0 && !settings.directory.empty() && is_folder(settings.directory))
        add_folder(settings.directory, files);
    else if (const fs::path own = audit_file_of(settings, environment, host);
             !audit_files(own).empty())
        files.push_back(own);
    if (files.empty())
        throw ExitError(
            exit_code::kNoInput, ErrorCode::invalid_argument,
            "there is no audit trail at " + audit_file_of(settings, environment, host).string(),
            "audit.enabled: true in the administrator's file, or in a job's spec, "
            "begins one");
    return files;
}

// Another user's trail must not write to the terminal of who looks at it: what is no text is shown
// by its number, C1's controls in UTF-8 (C2 80 to C2 9F) too.
std::string plain(const std::string& text) {
    std::string safe;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool is_c1 =
            byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (byte < ' ' || byte == 0x7f || is_c1)
            safe += fmt::format("\\x{:02x}", byte);
        else
            safe += text[i];
    }
    return safe;
}

std::string verdict_text(const TrailVerdict& verdict) {
    std::string text =
        fmt::format("{}: {}: {} lines in {} file{}, of {} (uid {})\n", plain(verdict.file.string()),
                    verdict.whole() ? "whole" : "NOT whole", verdict.lines, verdict.files,
                    verdict.files == 1 ? "" : "s", plain(verdict.user), verdict.uid);
    const auto add = [&](const char* mark, const std::vector<std::string>& lines) {
        for (std::size_t i = 0; i < std::min(kMostShown, lines.size()); ++i)
            text += fmt::format("  {} {}\n", mark, plain(lines[i]));
        if (lines.size() > kMostShown)
            text += fmt::format("  … {} more with --json\n", lines.size() - kMostShown);
    };
    add("✗", verdict.problems);
    add("·", verdict.remarks);
    add("·", verdict.anchors);
    if (verdict.anchored > 0 && verdict.head)
        text += fmt::format(
            "  {} of {} lines are the ones that are kept elsewhere, through number {} of {}\n",
            std::min(verdict.anchored, verdict.lines), verdict.lines, *verdict.anchored_through,
            verdict.head->seq);
    else if (verdict.head)
        text += fmt::format(
            "  nothing of it is kept out of its owner's reach: that the chain holds proves nothing "
            "against {} (uid {}), who can write all of it anew\n",
            plain(verdict.user), verdict.uid);
    return text;
}

Json verdict_json(const TrailVerdict& verdict) {
    Json json = {{"file", verdict.file.string()},
                 {"whole", verdict.whole()},
                 {"anchored", verdict.anchored > 0},
                 {"files", verdict.files},
                 {"lines", verdict.lines},
                 {"chain", verdict.chain},
                 {"user", verdict.user},
                 {"uid", verdict.uid},
                 {"anchored_lines", verdict.anchored}};
    if (verdict.anchored_through)
        json["anchored_through"] = *verdict.anchored_through;
    if (verdict.head)
        json["head"] = {{"seq", verdict.head->seq}, {"sha256", verdict.head->digest}};
    json["problems"] = verdict.problems;
    json["remarks"] = verdict.remarks;
    json["anchors"] = verdict.anchors;
    return json;
}

AuditOutcome verify_trails(const std::vector<fs::path>& files, const AuditRequest& request,
                           const AuditSettings& settings, const Environment& environment) {
    AuditOutcome outcome;
    Json json = Json::array();
    for (const fs::path& file : files) {
        TrailVerdict verdict = verify_files(file);
        const Anchors anchors = read_anchors(verdict.chain, settings, environment);
        verdict.anchors = anchors.told;
        compare_with_anchors(verdict, anchors.heads);
        if (anchors.in_vain)
            verdict.remarks.push_back(
                settings.anchor +
                " is to prove it, and has nothing of it that can be seen "
                "from here: it is not known to be the trail that was written");
        if (!verdict.whole())
            outcome.exit_code = exit_code::kFindings;
        else if (anchors.in_vain && outcome.exit_code == 0)
            outcome.exit_code = exit_code::kUnavailable;
        outcome.text += verdict_text(verdict);
        json.push_back(verdict_json(verdict));
    }
    if (request.json)
        outcome.text = json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
    return outcome;
}

// "2026-01-31", "2026-01-31T12:00:00Z", "90m", "2h", "3d": as text that sorts like a line's time.
std::string since_text(const std::string& since) {
    if (since.empty())
        return {};
    long long number = 0;
    const std::string digits = since.substr(0, since.size() - 1);
    const std::string units = "smhd";
    constexpr std::chrono::seconds kUnits[] = {std::chrono::seconds(1), std::chrono::minutes(1),
                                               std::chrono::hours(1), std::chrono::hours(24)};
    const std::size_t unit = units.find(since.back());
    if (unit != units.npos && parse_integer(digits, number) && number >= 0 && number < 1'000'000)
        return audit_time(std::chrono::system_clock::now() - kUnits[unit] * number);
    std::string full = since;
    if (full.size() == 10)
        full += "T00:00:00Z";
    if (full.size() == 20 && full.back() == 'Z')
        full.insert(19, ".000000");
    if (!parse_audit_time(full))
        throw ExitError(exit_code::kUsage, ErrorCode::invalid_argument, since + " is no time",
                        "write 2026-01-31, 2026-01-31T12:00:00Z, or how long ago: 90m, 2h, 3d");
    return full;
}

std::string detail_text(const Json& detail) {
    std::string text;
    for (const auto& [key, value] : detail.items())
        text += ' ' + plain(key) + '=' +
                (value.is_string() ? value.dump(-1, ' ', true, Json::error_handler_t::replace)
                                   : value.dump(-1, ' ', true, Json::error_handler_t::replace));
    return text;
}

AuditOutcome show_trails(const std::vector<fs::path>& files, const AuditRequest& request) {
    AuditOutcome outcome;
    const std::string since = since_text(request.since);
    for (const fs::path& file : files)
        verify_files(file, [&](const AuditLine& line, const std::string& text) {
            const bool is_wanted = (request.job.empty() || line.job == request.job) &&
                                   (request.user.empty() || line.actor.user == request.user ||
                                    std::to_string(line.actor.uid) == request.user) &&
                                   (request.kind.empty() || line.event == request.kind) &&
                                   (since.empty() || line.time >= since);
            if (!is_wanted)
                return;
            if (request.json)
                outcome.text += text + '\n';
            else
                outcome.text += fmt::format(
                    "{} {} {} {}{}{}\n", line.time.substr(0, 19) + 'Z', plain(line.actor.user),
                    plain(line.actor.node), plain(line.event),
                    line.job.empty() ? "" : " job=" + plain(line.job), detail_text(line.detail));
        });
    return outcome;
}

}  // namespace

AuditOutcome run_audit_command(const AuditRequest& request, const AuditSettings& settings,
                               const Environment& environment, const std::string& host) {
    const auto files = all_trails(request, settings, environment, host);
    if (request.action == AuditAction::show)
        return show_trails(files, request);
    AuditSettings compared = settings;
    if (!request.anchor.empty())
        compared.anchor = request.anchor;
    return verify_trails(files, request, compared, environment);
}

}  // namespace autolaunch::launcher
