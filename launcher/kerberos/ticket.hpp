#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

using SystemTime = std::chrono::system_clock::time_point;

/// The ticket that gets all others: of krbtgt of the principal's own realm.
struct KerberosTicket {
    std::string cache;      ///< "FILE:/tmp/krb5cc_1000", as klist names it
    std::string principal;  ///< "ann@EXAMPLE.ORG"
    SystemTime expires;
    std::optional<SystemTime> renew_until;
    bool renewable = false;
};

/// What klist said: a ticket, or why there is none.
struct TicketFinding {
    std::optional<KerberosTicket> ticket;
    std::string why_none;
};

/// Of `klist -f` in the C locale and in UTC: MIT's. Whatever it prints, no cache among it, is a
/// finding. Pure.
TicketFinding parse_klist(std::string_view text);

/// What is to be said of it before the job starts; empty: nothing. `ends_at`: of the job, where it
/// is known. The last line is what to type. Pure.
std::string ticket_warning(const TicketFinding& finding, const std::optional<SystemTime>& ends_at,
                           SystemTime now);

/// When to renew it: after half of what is left, and 10 minutes before its end at the latest; for
/// one of minutes a third before. Nothing: it cannot be renewed, or a renewal gains nothing, or the
/// job ends before. Pure.
std::optional<SystemTime> renewal_time(const KerberosTicket& ticket,
                                       const std::optional<SystemTime>& ends_at, SystemTime now);

/// When to try again after a renewal that failed; nothing: the ticket is over. Pure.
std::optional<SystemTime> next_attempt(const KerberosTicket& ticket, SystemTime now);

/// "3 h 20 min", for people.
std::string span_text(std::chrono::seconds span);

}  // namespace autolaunch::launcher
