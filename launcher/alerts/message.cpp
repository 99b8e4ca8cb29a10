#include "alerts/message.hpp"

#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <set>

namespace autolaunch::launcher::alerts {

namespace {

using nlohmann::json;

constexpr std::size_t kMostSubjects = 8;
constexpr std::size_t kLongestLine = 900;  // RFC 5322 allows 998 bytes

std::string formatted(WallTime when, const char* format) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::array<char, 64> text{};
    return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}
std::string iso_time(WallTime when) { return formatted(when, "%Y-%m-%dT%H:%M:%SZ"); }

// Names come from specs and programs: none may end a header or a line of the mail.
std::string one_line(std::string_view text) {
    std::string line(text.substr(0, kLongestLine));
    std::replace_if(
        line.begin(), line.end(),
        [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
    return line;
}

std::string name_of_job(const AlertedJob& job) {
    return job.name + (job.job_id.empty() ? "" : ", job " + job.job_id);
}

// "rank 12" → 12
bool rank_number(const std::string& subject, int& rank) {
    long long number = 0;
    if (!subject.starts_with("rank ") || !parse_integer(subject.substr(5), number))
        return false;
    rank = static_cast<int>(number);
    return true;
}

Severity gravest(const Notice& notice) {
    Severity most = Severity::info;
    for (const FiringAlert& alert : notice.alerts)
        most = std::max(most, alert.severity);
    return most;
}

std::string lines_of(const FiringAlert& alert) {
    std::string text = one_line(alert.name) + " (" + std::string(name_of(alert.severity)) +
                       "): " + one_line(alert.condition) + '\n';
    const std::string subjects = subjects_of(alert.matches);
    if (!subjects.empty())
        text += "  of " + subjects + '\n';
    if (!alert.matches.empty())
        text += "  " + one_line(alert.matches.front().value) +
                (alert.matches.size() > 1 ? ", of " + alert.matches.front().subject : "") + '\n';
    text += "  since " + iso_time(alert.since);
    if (alert.until)
        text += ", until " + iso_time(*alert.until);
    return text + '\n';
}

std::string where_to_look(const AlertedJob& job) {
    std::string text = "\njob:  " + name_of_job(job) + ", of " + job.user + '\n';
    text += "run:  " + job.run_dir + '\n';
    return text + "look: autolaunch top " + job.run_dir + "\n      autolaunch report " +
           job.run_dir + '\n';
}

std::string limits_text(const Notice& notice) {
    std::string text;
    if (notice.held_back > 0)
        text += "\n" + std::to_string(notice.held_back) +
                " incidents before this one were not told of: the day's messages were spent.\n";
    if (notice.is_last)
        text +=
            "\nThis is the last message of the day (alerting.messages_a_day); "
            "autolaunch report tells of all that follows.\n";
    return text;
}

// RFC 2047: words of at most 75 bytes, cut between characters.
std::string header_text(const std::string& text) {
    if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }))
        return text;
    constexpr std::size_t kMostBytes = 42;
    std::string result;
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t end = std::min(text.size(), begin + kMostBytes);
        while (end < text.size() && end > begin + 1 &&
               (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
            --end;
        result += (result.empty() ? "" : "\r\n ");
        result += "=?UTF-8?B?" + base64(std::string_view(text).substr(begin, end - begin)) + "?=";
        begin = end;
    }
    return result;
}

std::string with_crlf(const std::string& text) {
    std::string result;
    for (const std::string& line : split(text, '\n'))
        result += line + "\r\n";
    return result;
}

std::string message_id(const Notice& notice, const AlertedJob& job, std::string_view what) {
    return "<autolaunch." + job.run_id + '.' + std::to_string(notice.incident) + '.' +
           std::string(what) + '@' + job.host + '>';
}

json json_of(const FiringAlert& alert) {
    json of = json::array();
    for (const Match& one : alert.matches)
        of.push_back({{"subject", one.subject}, {"value", one.value}});
    json result = {{"alert", alert.name},
                   {"severity", name_of(alert.severity)},
                   {"condition", alert.condition},
                   {"since", iso_time(alert.since)},
                   {"of", of}};
    if (alert.until)
        result["until"] = iso_time(*alert.until);
    return result;
}

std::string dumped(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string base64(std::string_view text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string result;
    for (std::size_t i = 0; i < text.size(); i += 3) {
        const std::string_view part = text.substr(i, 3);
        unsigned bits = 0;
        for (std::size_t k = 0; k < 3; ++k)
            bits = bits << 8 | (k < part.size() ? static_cast<unsigned char>(part[k]) : 0U);
        for (std::size_t k = 0; k < 4; ++k)
            result += k <= part.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
    }
    return result;
}

std::string subjects_of(std::span<const Match> matches) {
    std::set<int> ranks;
    std::vector<std::string> others;
    for (const Match& one : matches) {
        int rank = 0;
        if (rank_number(one.subject, rank))
            ranks.insert(rank);
        else if (!one.subject.empty())
            others.push_back(one_line(one.subject));
    }
    if (!ranks.empty()) {
        const std::vector<int> list(ranks.begin(), ranks.end());
        others.insert(others.begin(), (list.size() == 1 ? "rank " : "ranks ") + format_list(list));
    }
    if (others.size() <= kMostSubjects)
        return join(others, ", ");
    const std::size_t more = others.size() - kMostSubjects;
    others.resize(kMostSubjects);
    return join(others, ", ") + " and " + std::to_string(more) + " more";
}

AlertText text_of(const Notice& notice, const AlertedJob& job) {
    const bool began = notice.kind == Notice::Kind::began;
    std::vector<std::string> names;
    for (const FiringAlert& alert : notice.alerts)
        names.push_back(alert.name);
    AlertText text;
    text.subject = one_line(
        (began ? '[' + std::string(name_of(gravest(notice))) + "] " : std::string("[resolved] ")) +
        join(names, ", ") + ": " + name_of_job(job));
    if (began && !job.cause.empty())
        text.body += one_line(job.cause) + "\n\n";
    for (const FiringAlert& alert : notice.alerts)
        text.body += lines_of(alert);
    text.body += where_to_look(job) + limits_text(notice);
    return text;
}

std::string mail_of(const Notice& notice, const AlertedJob& job, const std::string& from,
                    std::span<const std::string> to) {
    const bool began = notice.kind == Notice::Kind::began;
    const AlertText text = text_of(notice, job);
    std::string mail = "Date: " + formatted(notice.at, "%a, %d %b %Y %H:%M:%S +0000") + "\r\n";
    mail += "From: autolaunch <" + from + ">\r\nTo: " + join(to, ", ") + "\r\n";
    mail += "Subject: " + header_text((began ? "" : "Re: ") + text.subject) + "\r\n";
    mail += "Message-ID: " + message_id(notice, job, began ? "began" : "over") + "\r\n";
    if (!began)
        mail += "In-Reply-To: " + message_id(notice, job, "began") +
                "\r\nReferences: " + message_id(notice, job, "began") + "\r\n";
    mail +=
        "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
        "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n";
    return mail + with_crlf(text.body);
}

std::string slack_json(const Notice& notice, const AlertedJob& job) {
    // Its three characters with a meaning; all else is plain in a text of type plain_text.
    const AlertText text = text_of(notice, job);
    std::string escaped;
    for (const char c : text.subject)
        escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    const json section = {{"type", "section"},
                          {"text", {{"type", "plain_text"}, {"text", text.body.substr(0, 2900)}}}};
    const json header = {{"type", "header"},
                         {"text", {{"type", "plain_text"}, {"text", text.subject.substr(0, 140)}}}};
    return dumped({{"text", escaped}, {"blocks", json::array({header, section})}});
}

std::string alertmanager_json(std::span<const FiringAlert> alerts, const AlertedJob& job,
                              WallTime ends_at) {
    json all = json::array();
    for (const FiringAlert& alert : alerts) {
        json labels = {{"alertname", alert.name},
                       {"severity", name_of(alert.severity)},
                       {"source", "autolaunch"},
                       {"job_name", job.name},
                       {"run_id", job.run_id}};
        if (!job.job_id.empty())
            labels["job_id"] = job.job_id;
        std::string summary = alert.condition;
        if (const std::string subjects = subjects_of(alert.matches); !subjects.empty())
            summary += ", of " + subjects;
        json annotations = {{"summary", summary}, {"run_dir", job.run_dir}};
        if (!alert.matches.empty())
            annotations["value"] = alert.matches.front().value;
        if (!job.cause.empty())
            annotations["cause"] = job.cause;
        all.push_back({{"labels", labels},
                       {"annotations", annotations},
                       {"startsAt", iso_time(alert.since)},
                       {"endsAt", iso_time(alert.until.value_or(ends_at))}});
    }
    return dumped(all);
}

std::string notice_json(const Notice& notice, const AlertedJob& job) {
    json alerts = json::array();
    for (const FiringAlert& alert : notice.alerts)
        alerts.push_back(json_of(alert));
    const AlertText text = text_of(notice, job);
    return dumped({{"kind", notice.kind == Notice::Kind::began ? "began" : "over"},
                   {"incident", notice.incident},
                   {"at", iso_time(notice.at)},
                   {"job_name", job.name},
                   {"job_id", job.job_id},
                   {"run_id", job.run_id},
                   {"run_dir", job.run_dir},
                   {"user", job.user},
                   {"cause", job.cause},
                   {"subject", text.subject},
                   {"text", text.body},
                   {"alerts", alerts},
                   {"held_back", notice.held_back}}) +
           '\n';
}

}  // namespace autolaunch::launcher::alerts
