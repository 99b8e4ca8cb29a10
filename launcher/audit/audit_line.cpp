#include "audit/audit_line.hpp"

#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "base/utc_time.hpp"
#include "base/whole_number.hpp"

#include <cstdio>
#include <ctime>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kDigestDigits = 64, kLineDeepest = 8;

std::string dumped(const Json& json) {
    return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

bool is_digest(const std::string& text) {
    return text.size() == kDigestDigits &&
           text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Json as_json(const AuditLine& line) {
    Json json = {{"v", kVersion},         {"prev", line.prev},       {"seq", line.seq},
                 {"time", line.time},     {"event", line.event},     {"user", line.actor.user},
                 {"uid", line.actor.uid}, {"node", line.actor.node}, {"pid", line.actor.pid}};
    if (!line.job.empty())
        json["job"] = line.job;
    json["detail"] = line.detail;
    return json;
}

}  // namespace

std::string to_text(const AuditLine& line) {
    std::string text = dumped(as_json(line));
    if (text.size() <= kLongestAuditLine)
        return text;
    AuditLine shorter = line;
    shorter.detail = {{"cut", text.size()}};
    shorter.job = line.job.substr(0, 256);
    return dumped(as_json(shorter));
}

std::optional<AuditLine> parse_audit_line(std::string_view text) {
    if (text.size() > 2 * kLongestAuditLine || !nests_at_most(text, kLineDeepest))
        return std::nullopt;
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object())
        return std::nullopt;
    try {
        for (const char* number : {"v", "seq", "uid", "pid"})  // none of them is below 0
            if (!json.at(number).is_number_unsigned())
                return std::nullopt;
        if (whole_number<int>(json.at("v")) != kVersion)
            return std::nullopt;
        AuditLine line;
        json.at("prev").get_to(line.prev);
        line.seq = whole_number<std::uint64_t>(json.at("seq"));
        json.at("time").get_to(line.time);
        json.at("event").get_to(line.event);
        json.at("user").get_to(line.actor.user);
        line.actor.uid = whole_number<decltype(line.actor.uid)>(json.at("uid"));
        json.at("node").get_to(line.actor.node);
        line.actor.pid = whole_number<decltype(line.actor.pid)>(json.at("pid"));
        if (json.contains("job"))
            json.at("job").get_to(line.job);
        line.detail = json.at("detail");
        if (!is_digest(line.prev) || !line.detail.is_object() || !parse_audit_time(line.time))
            return std::nullopt;
        return line;
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

std::string audit_digest(std::string_view line) {
    return hex(crypto::sha256(crypto::bytes_of(line)));
}

std::string no_audit_digest() { return std::string(kDigestDigits, '0'); }

std::string audit_time(std::chrono::system_clock::time_point at) {
    const auto since = std::chrono::floor<std::chrono::microseconds>(at.time_since_epoch());
    const auto whole = std::chrono::floor<std::chrono::seconds>(since);
    const auto seconds = static_cast<std::time_t>(whole.count());
    std::tm utc = {};
    ::gmtime_r(&seconds, &utc);
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900,
                  utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                  static_cast<int>((since - whole).count()));
    return text;
}

std::optional<std::chrono::system_clock::time_point> parse_audit_time(std::string_view text) {
    constexpr std::string_view kForm = "0000-00-00T00:00:00.000000Z";
    const auto time = text.size() == kForm.size() ? parse_utc(text) : std::nullopt;
    return time ? on_clock(*time) : std::nullopt;
}

}  // namespace autolaunch::launcher
