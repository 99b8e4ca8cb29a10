// Tickets as MIT's klist prints them, what is said of them beside a job's end, when they are
// renewed, and which mounts want one.

#include "kerberos/kerberos_mounts.hpp"
#include "kerberos/ticket.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace kerberos_ticket_test {

using namespace autolaunch::launcher;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

const SystemTime kNow = std::chrono::system_clock::from_time_t(1795866582);  // 11/28/26 11:49:42

// As Debian's krb5-user 1.20 prints it.
constexpr const char* kRenewable =
    "Ticket cache: FILE:/tmp/krb5cc_1000\n"
    "Default principal: ann@EXAMPLE.ORG\n"
    "\n"
    "Valid starting     Expires            Service principal\n"
    "11/28/26 11:49:42  11/28/26 21:49:42  krbtgt/EXAMPLE.ORG@EXAMPLE.ORG\n"
    "\trenew until 12/05/26 11:49:42, Flags: FRIA\n"
    "11/28/26 11:50:00  11/29/26 21:49:42  nfs/server@EXAMPLE.ORG\n"
    "\trenew until 12/09/26 11:49:42, Flags: FRA\n";

KerberosTicket ticket(seconds left, seconds renewable = seconds(0)) {
    KerberosTicket made{"FILE:/tmp/c", "ann@R", kNow + left, {}, renewable.count() > 0};
    if (made.renewable)
        made.renew_until = kNow + renewable;
    return made;
}

std::string warning(const KerberosTicket& of, const std::optional<SystemTime>& ends_at) {
    return ticket_warning({of, {}}, ends_at, kNow);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// Minutes from now at which it is renewed; -1: it is not.
long long renewed_after(const KerberosTicket& of, const std::optional<SystemTime>& ends_at = {}) {
    const auto when = renewal_time(of, ends_at, kNow);
    return when ? std::chrono::duration_cast<minutes>(*when - kNow).count() : -1;
}

}  // namespace

TEST_CASE("the ticket of the user's own realm counts, and not those that it got") {
    const TicketFinding found = parse_klist(kRenewable);
    REQUIRE(found.ticket);
    CHECK(found.ticket->cache == "FILE:/tmp/krb5cc_1000");
    CHECK(found.ticket->principal == "ann@EXAMPLE.ORG");
    CHECK(found.ticket->expires == kNow + hours(10));
    CHECK(found.ticket->renewable);
    CHECK(found.ticket->renew_until == kNow + hours(24 * 7));
}

TEST_CASE("caches of all kinds, and tickets that cannot be renewed") {
    for (const std::string cache :
         {"DIR::/run/user/1/krb5cc/tkt", "KCM:1000:4711", "KEYRING:persistent:1000:krb_ccache_x"}) {
        const TicketFinding found = parse_klist(
            "Ticket cache: " + cache +
            "\nDefault principal: ann/admin@R\n\nValid starting     Expires            Service "
            "principal\n11/28/26 11:49:49  11/28/26 11:59:42  krbtgt/R@R\n\tFlags: I\n"
            "11/28/26 11:49:49  11/28/26 21:59:49  krbtgt/OTHER@R\n\tFlags: FR\n");
        REQUIRE(found.ticket);
        CHECK(found.ticket->cache == cache);
        CHECK(found.ticket->expires == kNow + minutes(10));
        CHECK_FALSE(found.ticket->renewable);
        CHECK_FALSE(found.ticket->renew_until);
    }
}

TEST_CASE("what is no ticket is a reason, whatever it is") {
    CHECK(parse_klist("").why_none == "klist gave no answer");
    CHECK(parse_klist("klist: No credentials cache found (filename: /tmp/krb5cc_0)\n").why_none ==
          "klist: No credentials cache found (filename: /tmp/krb5cc_0)");
    CHECK(has(parse_klist("env: 'klist': No such file or directory\n").why_none, "No such file"));
    CHECK(has(parse_klist("Ticket cache: FILE:/c\nDefault principal: a@R\n\n").why_none,
              "the cache FILE:/c has no ticket of krbtgt/R@R"));
    // Heimdal's, other locales, and hostile ones: no ticket, and no crash.
    for (const std::string text :
         {"Credentials cache: FILE:/tmp/c\n  Principal: a@R\n  Nov 28 11:49:42 2026  x  krbtgt/R@R",
          "Ticket cache: FILE:/c\nDefault principal: a@R\n28.11.26 11:49:42  x y  krbtgt/R@R\n",
          "Ticket cache: FILE:/c\nDefault principal: a@R\n99/99/99 99:99:99  1/1 1:1 krbtgt/R@R\n",
          "11/28/26 11:49:42  11/28/26 21:49:42  krbtgt/R@R\n", "\x1b[2J\n\xff\xfe\n",
          "\n\n\t\n"}) {
        const TicketFinding found = parse_klist(text);
        CHECK_FALSE(found.ticket);
        CHECK_FALSE(found.why_none.empty());
        CHECK_FALSE(has(found.why_none, "\x1b"));
    }
}

TEST_CASE("a warning names what is missing and the line to type, and a good ticket has none") {
    const auto in_a_day = kNow + hours(24);
    CHECK(warning(ticket(hours(25)), in_a_day).empty());
    CHECK(warning(ticket(hours(10), hours(48)), in_a_day).empty());  // it will be renewed
    const std::string fixed = warning(ticket(hours(10)), in_a_day);
    CHECK(
        has(fixed, "the ticket of ann@R lasts 10 h 0 min, and the job's time ends in 24 h 0 min"));
    CHECK(has(fixed, "cannot be renewed. kinit -l 25h -r 7d ann@R"));
    CHECK(has(warning(ticket(hours(10), hours(20)), in_a_day), "can be renewed for 20 h"));
    CHECK(has(warning(ticket(hours(10), hours(20)), kNow + hours(24 * 10)), "-l 241h -r 11d"));
    CHECK(has(warning(ticket(hours(-1)), in_a_day), "is over since 60 min"));
    CHECK(has(warning(ticket(hours(10)), {}), "how long the job takes is not known"));
    CHECK(warning(ticket(hours(10), hours(24)), {}).empty());
    CHECK(has(ticket_warning({{}, "klist: none"}, {}, kNow),
              "there is no ticket (klist: none): what is mounted with sec=krb5 cannot be reached. "
              "kinit -l 10h -r 7d"));
}

TEST_CASE("a ticket is renewed well before its end, and only where that gains something") {
    CHECK(renewed_after(ticket(hours(10), hours(24 * 7))) == 300);
    CHECK(renewed_after(ticket(minutes(15), hours(1))) == 5);
    CHECK(renewed_after(ticket(minutes(3), hours(1))) == 1);
    CHECK(renewed_after(ticket(hours(10))) == -1);
    CHECK(renewed_after(ticket(hours(10), hours(10))) == -1);  // renewed for long enough already
    CHECK(renewed_after(ticket(seconds(-1), hours(1))) == -1);
    CHECK(renewed_after(ticket(hours(10), hours(48)), kNow + hours(9)) == -1);
    CHECK(renewed_after(ticket(hours(10), hours(48)), kNow + hours(11)) == 300);
    CHECK(*renewal_time(ticket(seconds(1), hours(1)), {}, kNow) == kNow + seconds(1));

    CHECK(*next_attempt(ticket(hours(5)), kNow) == kNow + minutes(5));
    CHECK(*next_attempt(ticket(seconds(60)), kNow) == kNow + seconds(20));
    CHECK_FALSE(next_attempt(ticket(seconds(1)), kNow));
    CHECK_FALSE(next_attempt(ticket(seconds(-9)), kNow));
}

TEST_CASE("mounts that want a ticket are those that the job's paths lie on") {
    constexpr const char* kMounts =
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "36 22 0:51 / /home rw,noatime shared:9 - nfs4 s:/home rw,vers=4.2,sec=krb5p,addr=10.1\n"
        "37 22 0:52 / /home/open rw - nfs4 s:/open rw,vers=4.2,sec=sys\n"
        "38 22 0:53 / /data\\040set rw - cifs //s/data rw,sec=krb5i,cache=strict\n"
        "39 22 0:54 / /work rw - nfs4 s:/w rw,sec=krb5\n"
        "40 22 0:55 / /work rw - tmpfs tmpfs rw\n"
        "broken line\n";
    using Points = std::vector<std::string>;
    CHECK(kerberos_mounts(kMounts, {"/home/ann/runs", "/home/ann/c", "/tmp"}) == Points{"/home"});
    CHECK(kerberos_mounts(kMounts, {"/home/open/x"}) == Points{});
    CHECK(kerberos_mounts(kMounts, {"/homes/x"}) == Points{});
    CHECK(kerberos_mounts(kMounts, {"/data set/x"}) == Points{"/data set"});
    CHECK(kerberos_mounts(kMounts, {"/work/x"}) == Points{});  // hidden by the last
    CHECK(kerberos_mounts("", {"/work/x"}) == Points{});
}

}  // namespace kerberos_ticket_test
