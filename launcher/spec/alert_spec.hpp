#pragma once
#include "spec/value.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// An entry of `alerting.alerts`. Its condition has been parsed once, and is parsed again where it
/// is used.
struct AlertRuleSpec {
    std::string name;
    std::string condition;
    std::chrono::milliseconds hold{0};  ///< so long must it hold before anybody is told
    std::string severity = "warning";   ///< info, warning, critical
    std::vector<std::string> notify;    ///< names of channels; empty: all

    bool operator==(const AlertRuleSpec&) const = default;
};

/// An entry of `alerting.channels`. It holds no secret: those are in files, or in variables of the
/// environment, and are read when a message is sent.
struct AlertChannelSpec {
    enum class Kind { email, slack, alertmanager, webhook, command };

    std::string name;  ///< its type, where it has none
    Kind kind = Kind::command;
    std::vector<std::string> recipients;  ///< email
    std::string from;                     ///< email; empty: autolaunch@ this machine
    std::string smtp = "smtp://localhost:25";
    bool starttls = true;                ///< a server without it is refused
    std::string user, password_file;     ///< email, and alertmanager by HTTP
    std::string ca_file;                 ///< PEM; empty: the system's
    std::string url_file, url_variable;  ///< slack: where its webhook is told; one of them
    std::string url;                     ///< alertmanager, webhook
    std::string token_file;              ///< webhook: sent as a bearer token
    bool only_critical = false;          ///< it is told of no others
    std::vector<std::string> command;    ///< gets the message as JSON on its stdin

    bool operator==(const AlertChannelSpec&) const = default;
};

/// Who is told of what, while the job runs.
struct AlertSpec {
    std::vector<AlertRuleSpec> rules;
    std::vector<AlertChannelSpec> channels;
    int messages_a_day = 50;

    bool operator==(const AlertSpec&) const = default;
};

}  // namespace autolaunch::launcher
