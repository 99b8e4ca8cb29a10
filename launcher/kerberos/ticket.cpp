#include "kerberos/ticket.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <ctime>

namespace autolaunch::launcher {

namespace {

using std::chrono::duration_cast;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kMargin = minutes(10);
constexpr seconds kSoonest{1}, kBetweenAttempts = minutes(5);
constexpr std::size_t kMaxText = 200;  // of a line that is quoted

std::optional<SystemTime> parse_time(std::string_view date, std::string_view time) {
    std::tm parts{};
    const std::string text = std::string(date) + ' ' + std::string(time);
    const char* const end = ::strptime(text.c_str(), "%m/%d/%y %H:%M:%S", &parts);
    if (end == nullptr || *end != '\0')
        return std::nullopt;
    return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    for (const std::string& word : split(line, ' '))
        if (!trim(word).empty())
            words.emplace_back(trim(word));
    return words;
}

// "11/28/26 11:49:42  11/28/26 11:50:42  krbtgt/R@R"
std::optional<SystemTime> end_of(std::string_view line, const std::string& service) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() != 5 || words[4] != service)
        return std::nullopt;
    return parse_time(words[2], words[3]);
}

// "\trenew until 11/28/26 11:59:42, Flags: RI"; the first half only where there is one.
void read_flags(std::string_view line, KerberosTicket& ticket) {
    constexpr std::string_view kRenew = "renew until ", kFlags = "Flags: ";
    line = trim(line);
    if (line.starts_with(kRenew)) {
        const auto words = words_of(line.substr(kRenew.size(), line.find(',') - kRenew.size()));
        if (words.size() == 2)
            ticket.renew_until = parse_time(words[0], words[1]);
    }
    if (const std::size_t at = line.find(kFlags); at != std::string_view::npos)
        ticket.renewable = line.substr(at + kFlags.size()).find('R') != std::string_view::npos;
}

std::string after(std::string_view line, std::string_view label) {
    return line.starts_with(label) ? std::string(trim(line.substr(label.size()))) : std::string();
}

std::string quoted(std::string_view text) {
    text = trim(text);
    std::string line(text.substr(0, std::min(text.find('\n'), kMaxText)));
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
    return line;
}

std::string whole_days(seconds span) {
    return std::to_string(std::max<long long>((span + hours(24) - seconds(1)) / hours(24), 1)) +
           "d";
}

// Long enough for the job, as MIT's kinit reads it.
std::string kinit_line(const std::optional<SystemTime>& ends_at, SystemTime now,
                       const std::string& principal) {
    const seconds wanted =
        ends_at ? std::max(duration_cast<seconds>(*ends_at - now), seconds(0)) : seconds(0);
    const long long whole = std::max<long long>((wanted + hours(2) - seconds(1)) / hours(1), 10);
    return "kinit -l " + std::to_string(whole) + "h -r " +
           whole_days(std::max<seconds>(wanted + hours(24), hours(24 * 7))) +
           (principal.empty() ? "" : " " + principal);
}

bool can_gain(const KerberosTicket& ticket) {
    return ticket.renewable && ticket.renew_until && *ticket.renew_until > ticket.expires;
}

}  // namespace

std::string span_text(seconds span) {
    const long long total = std::max<long long>(span.count(), 0);
    if (total < 120)
        return std::to_string(total) + " s";
    if (total < 2 * 3600)
        return std::to_string(total / 60) + " min";
    return std::to_string(total / 3600) + " h " + std::to_string(total / 60 % 60) + " min";
}

TicketFinding parse_klist(std::string_view text) {
    KerberosTicket ticket;
    std::string service;
    std::optional<SystemTime> expires;
    bool flags_follow = false;
    for (const std::string& line : split(text, '\n')) {
        if (const std::string cache = after(line, "Ticket cache: "); !cache.empty())
            ticket.cache = cache;
        if (const std::string name = after(line, "Default principal: "); !name.empty()) {
            ticket.principal = name;
            const std::string realm = name.substr(name.rfind('@') + 1);
            service = "krbtgt/" + realm + '@' + realm;
        }
        if (flags_follow && line.starts_with('\t'))
            read_flags(line, ticket);
        flags_follow = false;
        const auto end = service.empty() ? std::nullopt : end_of(line, service);
        if (end && (!expires || *end > *expires)) {
            expires = end;
            ticket.renew_until.reset();
            ticket.renewable = false;
            flags_follow = true;
        }
    }
    if (expires && !ticket.cache.empty()) {
        ticket.expires = *expires;
        return {std::move(ticket), {}};
    }
    if (trim(text).empty())
        return {{}, "klist gave no answer"};
    if (!ticket.cache.empty())
        return {{},
                "the cache " + ticket.cache + " has no ticket of " +
                    (service.empty() ? "any realm" : service)};
    return {{}, quoted(text)};
}

std::string ticket_warning(const TicketFinding& finding, const std::optional<SystemTime>& ends_at,
                           SystemTime now) {
    if (!finding.ticket)
        return "Kerberos: there is no ticket (" + finding.why_none +
               "): what is mounted with sec=krb5 cannot be reached. " +
               kinit_line(ends_at, now, "");
    const KerberosTicket& ticket = *finding.ticket;
    const std::string name = "Kerberos: the ticket of " + ticket.principal;
    const std::string line = kinit_line(ends_at, now, ticket.principal);
    if (ticket.expires <= now)
        return name + " is over since " + span_text(duration_cast<seconds>(now - ticket.expires)) +
               ". " + line;
    const auto left = duration_cast<seconds>(ticket.expires - now);
    if (ends_at && ticket.expires >= *ends_at)
        return {};
    const std::string job = ends_at ? ", and the job's time ends in " +
                                          span_text(duration_cast<seconds>(*ends_at - now))
                                    : ", and how long the job takes is not known";
    if (!can_gain(ticket))
        return name + " lasts " + span_text(left) + job + "; it cannot be renewed. " + line;
    if (ends_at && *ticket.renew_until < *ends_at)
        return name + " can be renewed for " +
               span_text(duration_cast<seconds>(*ticket.renew_until - now)) + job + ". " + line;
    return {};  // it is renewed
}

std::optional<SystemTime> renewal_time(const KerberosTicket& ticket,
                                       const std::optional<SystemTime>& ends_at, SystemTime now) {
    if (!can_gain(ticket) || ticket.expires <= now || (ends_at && ticket.expires >= *ends_at))
        return std::nullopt;
    const auto left = ticket.expires - now;
    const auto before = std::min<SystemTime::duration>(
        std::max<SystemTime::duration>(left / 2, SystemTime::duration(kMargin)), left * 2 / 3);
    return std::max(ticket.expires - before, now + SystemTime::duration(kSoonest));
}

std::optional<SystemTime> next_attempt(const KerberosTicket& ticket, SystemTime now) {
    const auto left = ticket.expires - now;
    if (left <= SystemTime::duration(kSoonest))
        return std::nullopt;
    return now + std::clamp<SystemTime::duration>(left / 3, SystemTime::duration(kSoonest),
                                                  SystemTime::duration(kBetweenAttempts));
}

}  // namespace autolaunch::launcher
