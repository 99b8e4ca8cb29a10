#include "kerberos/ticket_watch.hpp"

#include "base/text.hpp"

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

constexpr seconds kCommandTime{30};

// Words and times that do not depend on the user's locale and zone.
std::vector<std::string> klist(const std::string& cache) {
    std::vector<std::string> argv = {"env", "LC_ALL=C", "TZ=UTC0", "klist", "-f"};
    if (!cache.empty())
        argv.push_back(cache);
    return argv;
}

}  // namespace

TicketInquiry::TicketInquiry() : klist_(klist(""), SlurmCommand::Errors::take) {}

TicketFinding TicketInquiry::finding(const Deadline& deadline) {
    return parse_klist(klist_.wait(deadline));
}

TicketWatch::TicketWatch(asio::io_context& io, std::optional<SystemTime> ends_at,
                         std::function<void(const std::string&)> say)
    : ends_at_(ends_at), say_(std::move(say)), timer_(io), wait_(io) {}

void TicketWatch::begin(const KerberosTicket& ticket) {
    ticket_ = ticket;
    await(renewal_time(ticket, ends_at_, system_clock::now()), &TicketWatch::renew);
}

void TicketWatch::await(const std::optional<SystemTime>& when, void (TicketWatch::*next)()) {
    if (!when)
        return;
    timer_.expires_at(*when);
    timer_.async_wait([this, next](const std::error_code& cancelled) {
        if (!cancelled)
            (this->*next)();
    });
}

void TicketWatch::run(std::vector<std::string> argv, std::function<void(const std::string&)> then) {
    command_.emplace(std::move(argv), SlurmCommand::Errors::take);
    wait_.begin(
        command_->fd(), [this] { return command_->advance(); }, kCommandTime,
        [this, then = std::move(then)](bool) {
            const std::string answer = command_->answer();
            command_.reset();
            then(answer);
        });
}

// It says nothing when all went well: klist tells what came of it.
void TicketWatch::renew() {
    run({"kinit", "-R", "-c", ticket_->cache}, [this](const std::string& said) {
        reason_ = std::string(trim(said));
        look();
    });
}

void TicketWatch::look() {
    run(klist(ticket_->cache), [this](const std::string& answer) { judge(answer); });
}

void TicketWatch::judge(const std::string& answer) {
    TicketFinding found = parse_klist(answer);
    if (!found.ticket && reason_.empty())
        reason_ = found.why_none;
    if (!found.ticket || found.ticket->expires <= ticket_->expires)
        return failed();
    ticket_ = std::move(found.ticket);
    if (std::exchange(has_failed_, false))
        say_("Kerberos: the ticket of " + ticket_->principal + " is renewed now");
    const auto now = system_clock::now();
    if (const std::string warning = ticket_warning({ticket_, {}}, ends_at_, now);
        !warning.empty() && !renewal_time(*ticket_, ends_at_, now))
        say_(warning);
    begin(*ticket_);
}

void TicketWatch::failed() {
    const auto now = system_clock::now();
    if (!std::exchange(has_failed_, true)) {
        const std::string line = reason_.substr(0, reason_.find('\n'));
        say_("Kerberos: the ticket of " + ticket_->principal + " could not be renewed: " +
             (line.empty() ? "kinit -R changed nothing (is krb5-user installed?)" : line) +
             "; it ends in " +
             span_text(std::chrono::duration_cast<seconds>(ticket_->expires - now)) +
             ". On this node: kinit " + ticket_->principal);
    }
    const auto again = next_attempt(*ticket_, now);
    await(again ? again : ticket_->expires, again ? &TicketWatch::renew : &TicketWatch::tell_end);
}

void TicketWatch::tell_end() {
    say_(
        "Kerberos: the ticket of " + ticket_->principal +
        " is over: what is mounted with sec=krb5 cannot be reached any more. On this node: kinit " +
        ticket_->principal);
}

}  // namespace autolaunch::launcher
