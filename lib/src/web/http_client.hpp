#pragma once
#include "base/deadline.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace autolaunch::web {

struct HttpResponse {
    int status = 0;
    std::map<std::string, std::string> headers;  ///< lower-case names
    std::string body;                            ///< at most 16 MiB
    std::size_t into_bytes = 0;                  ///< how much of `into` was filled
};

struct HttpRequest {
    std::string method = "GET";
    std::string url;  ///< encoded
    std::map<std::string, std::string> headers;
    std::span<const std::byte> body;
    std::span<std::byte>
        into;  ///< where the body of an answer 2xx goes; empty: into HttpResponse::body
    /// In its place: gets the body of an answer 2xx in parts, as they come, with its status and
    /// headers. False: no more is wanted, and the answer counts as whole.
    std::function<bool(const HttpResponse& head, std::span<const std::byte> part)> take = {};
    std::atomic<std::int64_t>* arrived = nullptr;  ///< grows by each byte of a body, at once
    std::chrono::seconds stall{30};  ///< with nothing that comes, before it counts as broken
    bool direct = false;             ///< through no proxy, whatever the environment names
};

/// libcurl, loaded at the first client. Keeps its connection for the next request; follows no
/// redirects. Threads: one.
class HttpClient {
public:
    /// Throws Error{unsupported} where libcurl or its headers were missing. `ca_file` may be empty;
    /// hints say that `ca_variable` names it. Requests end with AbortedError within about a second
    /// of `stop`, which may be null.
    explicit HttpClient(std::string ca_file, std::shared_ptr<const std::atomic<bool>> stop = {},
                        const char* ca_variable = "AWS_CA_BUNDLE");
    HttpClient(HttpClient&&) noexcept;
    HttpClient& operator=(HttpClient&&) noexcept;
    ~HttpClient();

    /// Blocks until the answer is whole, at most until the deadline; a transfer that moves nothing
    /// for its `stall` ends sooner. Throws TimeoutError, Error{closed} when the connection fails,
    /// and Error{corrupt} when the answer is longer than there is room for. A status is no error.
    HttpResponse perform(const HttpRequest& request, const Deadline& deadline);

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::web
