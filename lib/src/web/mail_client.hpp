#pragma once
#include "base/deadline.hpp"

#include <string>
#include <vector>

namespace autolaunch::web {

/// Who takes mails to send on.
struct MailServer {
    std::string url;        ///< smtp://HOST[:PORT], or smtps://HOST[:PORT] for TLS from the start
    bool encrypted = true;  ///< smtp://: whether a server without STARTTLS is refused
    std::string user, password;  ///< empty: it takes mails of anybody
    std::string ca_file;         ///< PEM; empty: the system's
};

struct Mail {
    std::string from;             ///< name@host
    std::vector<std::string> to;  ///< the same; not empty
    std::string text;  ///< RFC 5322: headers, an empty line, the body; lines end with \r\n
};

/// Hands one mail over, by libcurl. Blocks until the server has taken it for all of `to`, at most
/// until the deadline. Throws TimeoutError; Error{invalid_argument} where user and password, or a
/// recipient, are refused; Error{system} where it is not trusted or has no STARTTLS; Error{closed}
/// where the connection fails; Error{unsupported} without libcurl. No error has the password.
void send_mail(const MailServer& server, const Mail& mail, const Deadline& deadline);

}  // namespace autolaunch::web
