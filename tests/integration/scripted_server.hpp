#pragma once
// Servers of a test on loopback: one that says what it is told to, in the place of services that no
// test can have, and a proxy that tunnels (CONNECT).
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "s3_server.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::s3::testing {

/// Accepts connections, each served by a thread. Ends with its owner.
class LoopbackServer {
public:
    using Serve = std::function<void(UniqueFd client, const std::stop_token& stop)>;

    explicit LoopbackServer(Serve serve) : serve_(std::move(serve)) {
        listening_ = listen_on_free_port(port_);
        accepting_ = std::jthread([this](const std::stop_token& stop) {
            std::vector<std::jthread> connections;
            while (!stop.stop_requested()) {
                pollfd readable = {listening_.get(), POLLIN, 0};
                if (::poll(&readable, 1, 20) <= 0)
                    continue;
                UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
                connections.emplace_back(
                    [this, fd = std::move(client)](const std::stop_token& end) mutable {
                        serve_(std::move(fd), end);
                    });
            }
        });
    }
    int port() const { return port_; }

private:
    Serve serve_;
    UniqueFd listening_;
    int port_ = 0;
    std::jthread accepting_;
};

inline bool send_text(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

/// Up to the empty line, and what came behind it.
inline std::pair<std::string, std::string> receive_head(int fd) {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0)
            return {text, ""};
        text.append(buffer, static_cast<std::size_t>(got));
    }
    const std::size_t end = text.find("\r\n\r\n") + 4;
    return {text.substr(0, end), text.substr(end)};
}

struct ScriptedRequest {
    std::string line;  ///< "PUT /latest/api/token"
    std::string head;  ///< all of it, in lower case
    std::string body;
};
struct ScriptedAnswer {
    int status = 200;
    std::string body = {};
    std::string headers = {};  ///< more of them, each with its end of line
};

/// Not the service itself: it answers what the test says.
class ScriptedServer {
public:
    using Answer = std::function<ScriptedAnswer(const ScriptedRequest& request)>;

    explicit ScriptedServer(Answer answer)
        : answer_(std::move(answer)),
          server_([this](UniqueFd client, const std::stop_token&) { serve(client.get()); }) {}

    std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
    std::vector<ScriptedRequest> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }

private:
    void serve(int fd) {
        auto [head, body] = receive_head(fd);
        ScriptedRequest request;
        request.line = head.substr(0, head.find(' ', head.find(' ') + 1));
        request.head = head;
        for (char& c : request.head)
            c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        long long length = 0;
        if (const auto at = request.head.find("content-length:"); at != std::string::npos)
            parse_integer(std::string(trim(
                              request.head.substr(at + 15, request.head.find('\r', at) - at - 15))),
                          length);
        char buffer[4096];
        while (body.size() < static_cast<std::size_t>(length)) {
            const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
            if (got <= 0)
                break;
            body.append(buffer, static_cast<std::size_t>(got));
        }
        request.body = body;
        const ScriptedAnswer answer = answer_(request);
        {
            const std::lock_guard lock(mutex_);
            requests_.push_back(request);
        }
        send_text(fd, "HTTP/1.1 " + std::to_string(answer.status) + " X\r\nConnection: close\r\n" +
                          answer.headers + "Content-Length: " + std::to_string(answer.body.size()) +
                          "\r\n\r\n");
        if (!request.line.starts_with("HEAD "))
            send_text(fd, answer.body);
        ::shutdown(fd, SHUT_WR);
    }

    Answer answer_;
    mutable std::mutex mutex_;
    std::vector<ScriptedRequest> requests_;
    LoopbackServer server_;  // last: it uses the others
};

/// Tunnels to any port of this machine. `refuses`: says 407 instead.
class TunnelProxy {
public:
    explicit TunnelProxy(bool refuses = false)
        : refuses_(refuses), server_([this](UniqueFd client, const std::stop_token& stop) {
              serve(std::move(client), stop);
          }) {}

    std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
    std::vector<std::string> asked() const {
        const std::lock_guard lock(mutex_);
        return asked_;
    }

private:
    void serve(UniqueFd client, const std::stop_token& stop) {
        const std::string head = receive_head(client.get()).first;
        {
            const std::lock_guard lock(mutex_);
            asked_.push_back(head.substr(0, head.find(" HTTP/")));
        }
        if (refuses_) {
            send_text(client.get(),
                      "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        const std::size_t colon = head.find(':');
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(head.c_str() + colon + 1)));
        const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            !send_text(client.get(), "HTTP/1.1 200 Connection established\r\n\r\n"))
            return;
        while (!stop.stop_requested() && pass_on(client.get(), server.get())) {
        }
    }

    // Once each way; false when one side has ended.
    static bool pass_on(int client, int server) {
        pollfd ends[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        ::poll(ends, 2, 20);
        char buffer[65536];
        for (int i = 0; i < 2; ++i) {
            if ((ends[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0)
                continue;
            const ssize_t got = ::recv(ends[i].fd, buffer, sizeof buffer, 0);
            if (got <= 0 || !send_text(ends[1 - i].fd, {buffer, static_cast<std::size_t>(got)}))
                return false;
        }
        return true;
    }

    bool refuses_;
    mutable std::mutex mutex_;
    std::vector<std::string> asked_;
    LoopbackServer server_;
};

}  // namespace autolaunch::s3::testing
