#pragma once
#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"
#include "kerberos/ticket.hpp"
#include "spawn/command_wait.hpp"

#include <asio/io_context.hpp>
#include <asio/system_timer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One `klist`, beside whatever else is done: of KRB5CCNAME's cache, whatever kind it is, as MIT's
/// library finds it.
///
/// Owner: the launch. Threads: its owner's. Blocks: finding(), until its deadline.
class TicketInquiry {
public:
    TicketInquiry();
    TicketFinding finding(const Deadline& deadline);

private:
    SlurmCommand klist_;
};

/// Renews a ticket where it is: `kinit -R` well before its end, again and again, until it cannot be
/// renewed any more or the job is over. A failure is a line, and so is the end.
///
/// Owner: the launch. Threads: the one that runs the context. Blocks: no; its end a second at most,
/// for a kinit that hangs in the kernel.
class TicketWatch {
public:
    /// `say` shows a line to the user. Both must outlive it.
    TicketWatch(asio::io_context& io, std::optional<SystemTime> ends_at,
                std::function<void(const std::string&)> say);

    /// Does nothing for a ticket that lasts, or that cannot be renewed.
    void begin(const KerberosTicket& ticket);

private:
    void await(const std::optional<SystemTime>& when, void (TicketWatch::*next)());
    void run(std::vector<std::string> argv, std::function<void(const std::string&)> then);
    void renew();
    void look();
    void judge(const std::string& answer);
    void failed();
    void tell_end();

    std::optional<SystemTime> ends_at_;
    std::function<void(const std::string&)> say_;
    std::optional<KerberosTicket> ticket_;
    std::string reason_;  ///< what kinit has printed
    bool has_failed_ = false;
    asio::system_timer timer_;
    std::optional<SlurmCommand> command_;
    CommandWait wait_;
};

}  // namespace autolaunch::launcher
