#pragma once
#include "site/site_settings.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A way to tell people, as alerting.channels of the administrator's file has it. It names files
/// with secrets, and holds none.
struct AlertChannel {
    enum class Kind { email, slack, webhook };
    Kind kind = Kind::email;
    bool only_critical = false;
    std::vector<std::string> recipients;               ///< email
    std::string smarthost, from, user, password_file;  ///< email
    std::string url_file, slack_channel;               ///< slack
    std::string url, token_file;                       ///< webhook
};

/// Throws Error with every mistake at its place; a secret in the file is one. `notes`: what the
/// administrator has to do besides.
std::vector<AlertChannel> read_channels(const SiteSettings& settings,
                                        std::vector<std::string>& notes);

}  // namespace autolaunch::launcher
