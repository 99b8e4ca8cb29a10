#pragma once
#include "kerberos/ticket.hpp"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What klist prints, as anything: a ticket with its cache, or one line that says why there is
/// none; what is said of it is one line, and a renewal is before its end. Aborts where that is not
/// so. Whether it is a ticket.
inline bool check_klist_bytes(std::string_view bytes) {
    const SystemTime now = std::chrono::system_clock::from_time_t(1795866582);
    const TicketFinding finding = parse_klist(bytes);
    if (finding.ticket ? finding.ticket->cache.empty() : finding.why_none.empty())
        std::abort();
    for (const auto& ends_at :
         {std::optional<SystemTime>(), std::optional(now + std::chrono::hours(24))})
        if (ticket_warning(finding, ends_at, now).find('\n') != std::string::npos)
            std::abort();
    if (!finding.ticket)
        return false;
    const auto renewal = renewal_time(*finding.ticket, {}, now);
    if (renewal && (*renewal < now || finding.ticket->expires <= now))
        std::abort();
    next_attempt(*finding.ticket, now);
    return true;
}

}  // namespace autolaunch::launcher
