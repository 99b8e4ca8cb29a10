#pragma once
#include "checkpoint/crypto/crypto.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

// The lines of an audit trail; docs/audit.md has them byte by byte. Pure.

/// Who does something, where.
struct AuditActor {
    std::string user;
    std::uint32_t uid = 0;
    std::string node;
    int pid = 0;
    bool operator==(const AuditActor&) const = default;
};

/// What one line says. `event` is a word of audit_kinds.hpp, `detail` a JSON object.
struct AuditLine {
    std::uint64_t seq = 0;
    std::string prev;  ///< 64 digits: the SHA-256 of the line before
    std::string time;  ///< "2026-01-31T12:00:00.123456Z"
    std::string event;
    AuditActor actor;
    std::string job;  ///< empty: of no job
    nlohmann::ordered_json detail = nlohmann::ordered_json::object();
};

/// Longer lines are cut: their detail is replaced by a word that says so.
inline constexpr std::size_t kLongestAuditLine = std::size_t{64} << 10;

/// Without its newline: ASCII, one object, no spaces.
std::string to_text(const AuditLine& line);
/// Nothing where it is no such line: torn, or not written by us.
std::optional<AuditLine> parse_audit_line(std::string_view text);

/// Of a line as it stands in the file, without its newline; lower-case hexadecimal.
std::string audit_digest(std::string_view line);
/// Of the line before the first.
std::string no_audit_digest();

/// UTC, with microseconds.
std::string audit_time(std::chrono::system_clock::time_point at);
/// Nothing where it is none.
std::optional<std::chrono::system_clock::time_point> parse_audit_time(std::string_view text);

}  // namespace autolaunch::launcher
