// Credentials that a container's agent has for it: of ECS, of EKS' pod identities.
#include "base/private_way.hpp"
#include "base/refuse.hpp"
#include "checkpoint/s3/credential_http.hpp"
#include "checkpoint/s3/credential_source.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <string>
#include <string_view>

namespace autolaunch::s3 {
namespace {

constexpr std::string_view kAgent = "http://169.254.170.2";

// "host", of "http://host:port/path"; an address of IPv6 without its brackets.
std::string_view host_of(std::string_view url) {
    url.remove_prefix(std::min(url.size(), url.find("://") + 3));
    url = url.substr(0, url.find_first_of("/?#"));
    if (url.starts_with('['))
        return url.substr(1, url.find(']') - 1);
    return url.substr(0, url.find(':'));
}

// A secret comes back from there, so the way has to be private, or to end on this machine; the
// agents' addresses do.
void require_agent(const std::string& url) {
    const std::string_view host = host_of(url);
    const bool is_agent =
        host == "169.254.170.2" || host == "169.254.170.23" || host == "fd00:ec2::23";
    const bool is_http = url.starts_with("http://");
    if (!is_http && !url.starts_with("https://"))
        refuse("AWS_CONTAINER_CREDENTIALS_FULL_URI is " + url,
               "it begins with https:// or http://");
    if (url.find('@') != std::string::npos ||
        std::any_of(url.begin(), url.end(), [](char c) { return c <= ' ' || c > '~'; }))
        refuse("AWS_CONTAINER_CREDENTIALS_FULL_URI is not an address");
    if (is_http && !is_agent && !is_loopback(host))
        refuse("AWS_CONTAINER_CREDENTIALS_FULL_URI is " + url +
                   ": http is for this machine and for the addresses of containers' agents",
               "write https://, or an address: 127.0.0.1, 169.254.170.2, 169.254.170.23 or "
               "[fd00:ec2::23]");
}

std::string url_of(const Environment& environment) {
    const std::string relative = value_of(environment, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    if (relative.empty()) {
        const std::string url = value_of(environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
        require_agent(url);
        return url;
    }
    if (!relative.starts_with('/'))
        refuse("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is " + relative, "it begins with /");
    return std::string(kAgent) + relative;
}

}  // namespace

AskForCredentials ask_container(const Environment& environment) {
    CredentialQuestion question{.url = url_of(environment)};
    question.direct = question.url.starts_with("http://");
    question.ca_file = value_of(environment, "AWS_CA_BUNDLE");
    question.whom = "the container's agent at " + std::string(host_of(question.url));
    const std::string file = value_of(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                      token = value_of(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (token.find_first_of("\r\n") != std::string::npos)
        refuse("AWS_CONTAINER_AUTHORIZATION_TOKEN has more than one line");
    return [question, file, token](const Deadline& deadline) {
        CredentialQuestion asked = question;
        if (const std::string shown = file.empty() ? token : read_token_file(file); !shown.empty())
            asked.headers["authorization"] = shown;
        try {
            return parse_credentials_json(ask(asked, deadline));
        } catch (const Error& error) {
            throw Error(error.code(), std::string("no credentials for S3: ") + error.what(),
                        "see AWS_CONTAINER_CREDENTIALS_FULL_URI and the container's role");
        }
    };
}

}  // namespace autolaunch::s3
