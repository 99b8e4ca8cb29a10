#pragma once
#include "audit/audit_line.hpp"
#include "audit/read_anchors.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A line of a trail, which its user may have written anew: a line or none, and a line is written
/// as one that reads the same and fits. Aborts where that is not so. Whether it is a line.
inline bool check_audit_bytes(std::string_view bytes) {
    std::uint64_t seq = 0;
    AnchoredHead head;
    read_journal_entry(std::string(bytes), seq, head);
    const auto line = parse_audit_line(bytes);
    if (!line)
        return false;
    const std::string text = to_text(*line);
    if (text.find('\n') != text.npos)
        std::abort();
    if (text.size() > kLongestAuditLine)
        return true;  // names that no system gives: such a line is read, and never written
    const auto again = parse_audit_line(text);
    if (!again || again->seq != line->seq || again->prev != line->prev ||
        again->actor.uid != line->actor.uid || to_text(*again) != text)
        std::abort();
    return true;
}

}  // namespace autolaunch::launcher
