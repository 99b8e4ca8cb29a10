#include "base/private_way.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

namespace autolaunch {

namespace {

bool ends_with_name(const std::string& host, std::string_view name) {
    if (host.size() < name.size())
        return false;
    const std::string end = host.substr(host.size() - name.size());
    return ::strcasecmp(end.c_str(), std::string(name).c_str()) == 0 &&
           (host.size() == name.size() || host[host.size() - name.size() - 1] == '.');
}

// Of what stands behind "://": no user, no port, no path. What is before the last @ is a user.
std::string_view host_of(std::string_view rest) {
    rest = rest.substr(0, rest.find_first_of("/?#\\"));
    if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos)
        rest.remove_prefix(at + 1);
    if (rest.starts_with('['))
        return rest.substr(0, rest.find(']') == std::string_view::npos ? 0 : rest.find(']') + 1);
    return rest.substr(0, rest.find(':'));
}

}  // namespace

bool is_loopback(std::string_view host) {
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    const std::string text(host);
    in_addr v4{};
    if (::inet_pton(AF_INET, text.c_str(), &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    in6_addr v6{};
    if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return text.find('\0') == std::string::npos && ends_with_name(text, "localhost");
}

std::string why_not_private(std::string_view url) {
    const std::size_t end = url.find("://");
    if (end == std::string_view::npos)
        return "it has no scheme";
    const std::string scheme(url.substr(0, end));
    if (::strcasecmp(scheme.c_str(), "https") == 0)
        return {};
    if (::strcasecmp(scheme.c_str(), "http") != 0)
        return "its scheme is " + scheme;
    const std::string_view host = host_of(url.substr(end + 3));
    if (is_loopback(host))
        return {};
    return "http sends in the clear, and " + (host.empty() ? "its host" : std::string(host)) +
           " is not this machine";
}

}  // namespace autolaunch
