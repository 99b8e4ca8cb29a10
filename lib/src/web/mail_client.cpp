#include "web/mail_client.hpp"

#include <autolaunch/error.hpp>

#if AUTOLAUNCH_HAVE_CURL
#include "web/curl_library.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#endif

namespace autolaunch::web {

#if AUTOLAUNCH_HAVE_CURL

namespace {

constexpr long kMailConnectMs = 10'000;

std::size_t on_read(char* into, std::size_t size, std::size_t count, void* rest) {
    auto& text = *static_cast<std::string_view*>(rest);
    const std::size_t bytes = std::min(size * count, text.size());
    std::memcpy(into, text.data(), bytes);
    text.remove_prefix(bytes);
    return bytes;
}

struct CloseHandle {
    void operator()(CURL* handle) const { curl_library().curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, CloseHandle>;

void set_server(CURL* handle, const MailServer& server) {
    const auto set = [&](CURLoption option, auto value) { set_curl_option(handle, option, value); };
    set(CURLOPT_URL, server.url.c_str());
    set(CURLOPT_USE_SSL, static_cast<long>(server.encrypted ? CURLUSESSL_ALL : CURLUSESSL_TRY));
    set(CURLOPT_PROXY, "");  // those of the environment are for HTTP
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    set(CURLOPT_NOSIGNAL, 1L);
    if (!server.ca_file.empty())
        set(CURLOPT_CAINFO, server.ca_file.c_str());
    if (!server.user.empty()) {
        set(CURLOPT_USERNAME, server.user.c_str());
        set(CURLOPT_PASSWORD, server.password.c_str());
    }
}

[[noreturn]] void fail_mail(CURL* handle, CURLcode code, const MailServer& server,
                            const Deadline& deadline) {
    long reply = 0;
    curl_library().curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &reply);
    const std::string answered = reply > 0 ? "; its last answer was " + std::to_string(reply) : "";
    if (code == CURLE_OPERATION_TIMEDOUT && deadline.passed())
        throw TimeoutError(server.url + " did not take the mail in time" + answered);
    if (code == CURLE_LOGIN_DENIED)
        throw Error(ErrorCode::invalid_argument,
                    server.url + " refuses the user " + server.user + answered,
                    "look at smtp.user and at what smtp.password_file holds");
    if (code == CURLE_USE_SSL_FAILED)
        throw Error(ErrorCode::system, server.url + " offers no STARTTLS",
                    "use smtps:// where it listens for that; starttls: false sends mails in clear");
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        throw Error(ErrorCode::system,
                    "the certificate of " + server.url + " is not trusted by " +
                        (server.ca_file.empty() ? "the system's certificates" : server.ca_file),
                    "smtp.ca_file is the certificate of who signed it");
    const ErrorCode kind = reply >= 400 ? ErrorCode::invalid_argument : ErrorCode::closed;
    throw Error(kind, server.url + " did not take the mail: " +
                          curl_library().curl_easy_strerror(code) + answered);
}

}  // namespace

void send_mail(const MailServer& server, const Mail& mail, const Deadline& deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining()).count();
    if (left <= 0)
        throw TimeoutError("no time was left to ask " + server.url);
    const Handle handle(curl_library().curl_easy_init());
    if (!handle)
        throw Error(ErrorCode::system, "libcurl cannot make a handle");
    set_server(handle.get(), server);
    const auto set = [&](CURLoption option, auto value) {
        set_curl_option(handle.get(), option, value);
    };
    CurlList recipients;
    for (const std::string& one : mail.to)
        recipients.add('<' + one + '>');
    const std::string sender = '<' + mail.from + '>';
    std::string_view rest = mail.text;
    set(CURLOPT_MAIL_FROM, sender.c_str());
    set(CURLOPT_MAIL_RCPT, recipients.get());
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, &on_read);
    set(CURLOPT_READDATA, &rest);
    set(CURLOPT_TIMEOUT_MS, curl_milliseconds(left));
    set(CURLOPT_CONNECTTIMEOUT_MS, std::min(curl_milliseconds(left), kMailConnectMs));
    const CURLcode code = curl_library().curl_easy_perform(handle.get());
    if (code != CURLE_OK)
        fail_mail(handle.get(), code, server, deadline);
}

#else

void send_mail(const MailServer&, const Mail&, const Deadline&) {
    throw Error(ErrorCode::unsupported, "this build sends no mails",
                "install libcurl's headers (Debian: libcurl4-openssl-dev) and build with "
                "AUTOLAUNCH_WITH_CURL=ON");
}

#endif

}  // namespace autolaunch::web
