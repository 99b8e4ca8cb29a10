#pragma once
#include "base/deadline.hpp"
#include "web/http_client.hpp"

#include <map>
#include <string>

namespace autolaunch::s3 {

/// A question for credentials, and whom it is asked.
struct CredentialQuestion {
    std::string method = "GET";
    std::string url;
    std::map<std::string, std::string> headers = {};
    std::string body = {};
    bool direct = true;        ///< through no proxy
    std::string ca_file = {};  ///< empty: the system's
    std::string whom = {};     ///< for errors: "STS at https://…"
};

/// The body of an answer 200, of at most 64 KiB. Throws Error that names whom it asked, with the
/// status and the code of an answer and never another word of it: closed where he may answer later
/// (also 429 and 5xx, after three attempts), else system or corrupt.
std::string ask(const CredentialQuestion& question, const Deadline& deadline);

}  // namespace autolaunch::s3
