#pragma once
#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/s3/s3_client.hpp"

#include <autolaunch/error.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::s3::testing {

inline UniqueFd listen_on_free_port(int& port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd.get(), 64) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
        throw SystemError(errno, "find a free port");
    port = ntohs(address.sin_port);
    return fd;
}

/// s3_server.sh with its own folder and ports: a real S3 server. It ends with this process, however
/// that ends.
class S3Server {
public:
    S3Server()
        : folder_(std::filesystem::temp_directory_path() / ("autolaunch-s3-" + random_hex(8))) {
        int monitor_port = 0;
        {
            const UniqueFd first = listen_on_free_port(port_),
                           second = listen_on_free_port(monitor_port),
                           third = listen_on_free_port(tls_port_);
        }
        std::array<int, 2> in = {-1, -1}, out = {-1, -1};
        if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
            throw SystemError(errno, "make a pipe");
        const UniqueFd their_in(in[0]), their_out(out[1]);
        input_.reset(in[1]);
        output_.reset(out[0]);
        ::posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, their_in.get(), STDIN_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions, their_out.get(), STDOUT_FILENO);
        std::vector<std::string> words = {"bash",
                                          AUTOLAUNCH_SOURCE_DIR "/tests/integration/s3_server.sh",
                                          folder_.string(),
                                          std::to_string(port_),
                                          std::to_string(monitor_port),
                                          std::to_string(tls_port_)};
        std::vector<char*> arguments;
        for (std::string& word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const int error =
            ::posix_spawn(&pid_, "/bin/bash", &actions, nullptr, arguments.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        if (error != 0)
            throw SystemError(error, "start the S3 server");
    }
    S3Server(const S3Server&) = delete;
    S3Server& operator=(const S3Server&) = delete;
    ~S3Server() {
        input_.reset();
        if (pid_ > 0)
            ::waitpid(pid_, nullptr, 0);
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    /// Until it serves. Throws where it does not.
    void wait(const Deadline& deadline) {
        std::string said;
        while (said.find("ready\n") == std::string::npos) {
            pollfd readable = {output_.get(), POLLIN, 0};
            if (::poll(&readable, 1, deadline.poll_timeout_ms()) <= 0)
                throw TimeoutError("the S3 server did not start");
            char buffer[256];
            const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
            if (got <= 0)
                throw Error(ErrorCode::closed,
                            "the S3 server ended; see " + folder_.string() + ": " + said);
            said.append(buffer, static_cast<std::size_t>(got));
        }
    }

    int port() const { return port_; }
    /// The same with TLS, and who signed its certificate, which is for localhost.
    int tls_port() const { return tls_port_; }
    std::string ca_file() const { return folder_ / "ca.pem"; }

private:
    std::filesystem::path folder_;
    UniqueFd input_, output_;
    pid_t pid_ = -1;
    int port_ = 0, tls_port_ = 0;
};

/// Exits with 77 where Debian's radosgw is missing, or this build has no S3.
inline void need_s3_server() {
    try {
        HttpClient("");
        crypto::random_secret(1);
        crypto::sha256({});
    } catch (const Error& error) {
        std::printf("skipped: %s\n", error.what());
        std::exit(77);
    }
    for (const char* program : {"radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph",
                                "ceph-authtool", "monmaptool"})
        if (std::system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) != 0) {
            std::printf("skipped: %s is not installed (Debian: radosgw, ceph-mon, ceph-osd)\n",
                        program);
            std::exit(77);
        }
}

/// The one of this test, started at the first call.
inline S3Server& server() {
    static S3Server running;
    static const bool ready = (running.wait(Deadline::after(std::chrono::seconds(100))), true);
    (void)ready;
    return running;
}

inline Credentials test_credentials() {
    const std::string secret = "test/secret+with/slashes=";
    return {"AKIATEST", {secret.begin(), secret.end()}, {}};
}

inline Location location_at(int port, const std::string& bucket, const std::string& prefix = "") {
    return locate("s3://" + bucket + '/' + prefix,
                  {{"AWS_ENDPOINT_URL", "http://localhost:" + std::to_string(port)}});
}

/// Between a client and the server: each new connection gets the next fate, and after the last one
/// all are forwarded.
class BadNetwork {
public:
    enum class Fate {
        forward,
        close,           ///< at once
        cut_answer,      ///< forwarded, and closed when the answer begins
        cut_body,        ///< forwarded, and closed after 3 MiB of requests
        unavailable,     ///< 503 SlowDown, as a busy server says
        silence,         ///< nothing, for good
        repeat_secrets,  ///< 403 with all that came in its message
        ended_session,   ///< 400 ExpiredToken, as AWS says it
        other_region     ///< 301, as AWS says where a bucket is
    };

    BadNetwork(int server_port, std::vector<Fate> fates)
        : server_port_(server_port), fates_(std::move(fates)) {
        listening_ = listen_on_free_port(port_);
        accepting_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
    }
    ~BadNetwork() {
        accepting_.request_stop();
        accepting_.join();
        over_ = true;
        connections_.clear();
    }

    int port() const { return port_; }
    int connections() const { return count_; }

private:
    void accept(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            pollfd readable = {listening_.get(), POLLIN, 0};
            if (::poll(&readable, 1, 20) <= 0)
                continue;
            UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            const auto number = static_cast<std::size_t>(count_++);
            const Fate fate = number < fates_.size() ? fates_[number] : Fate::forward;
            connections_.emplace_back(
                [this, fate, fd = std::move(client)]() mutable { serve(std::move(fd), fate); });
        }
    }

    static void send_all(int fd, std::string_view text) {
        while (!text.empty()) {
            const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
            if (sent <= 0)
                return;
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
    }

    static void answer(int fd, const std::string& status, const std::string& body) {
        send_all(fd, "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
                         "\r\nConnection: close\r\n\r\n" + body);
        ::shutdown(fd, SHUT_WR);
        char rest[4096];
        while (::recv(fd, rest, sizeof rest, 0) > 0) {
        }
    }

    void serve(UniqueFd client, Fate fate) {
        char buffer[65536];
        if (fate == Fate::close)
            return;
        if (fate == Fate::silence)
            while (!over_)
                ::usleep(10'000);
        if (fate == Fate::other_region) {
            ::recv(client.get(), buffer, sizeof buffer, 0);
            return answer(client.get(),
                          "301 Moved Permanently\r\nx-amz-bucket-region: eu-central-1",
                          "<Error><Code>PermanentRedirect</Code></Error>");
        }
        if (fate == Fate::ended_session) {
            ::recv(client.get(), buffer, sizeof buffer, 0);
            return answer(client.get(), "400 Bad Request",
                          "<Error><Code>ExpiredToken</Code></Error>");
        }
        if (fate == Fate::unavailable || fate == Fate::repeat_secrets) {
            const ssize_t got = ::recv(client.get(), buffer, sizeof buffer, 0);
            if (fate == Fate::unavailable)
                return answer(client.get(), "503 Slow Down",
                              "<Error><Code>SlowDown</Code></Error>");
            std::string all(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
            all = all.substr(std::min(all.find("authorization"), all.size()), 150);
            return answer(client.get(), "403 Forbidden",
                          "<Error><Code>AccessDenied</Code><Message>test/secret+with/slashes= " +
                              all + "</Message></Error>");
        }
        if (!over_)
            forward(client.get(), fate);
    }

    void forward(int client, Fate fate) {
        const UniqueFd upstream(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(server_port_));
        if (::connect(upstream.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            return;
        std::vector<char> buffer(1 << 20);
        std::size_t requested = 0;
        std::array<pollfd, 2> ends = {pollfd{client, POLLIN, 0}, pollfd{upstream.get(), POLLIN, 0}};
        while (!over_) {
            if (::poll(ends.data(), ends.size(), 20) <= 0)
                continue;
            for (std::size_t i = 0; i < 2; ++i) {
                if (ends[i].revents == 0)
                    continue;
                const ssize_t got = ::recv(ends[i].fd, buffer.data(), buffer.size(), 0);
                if (got <= 0 || (fate == Fate::cut_answer && i == 1))
                    return;
                if (i == 0)
                    requested += static_cast<std::size_t>(got);
                if (fate == Fate::cut_body && requested > std::size_t{3} << 20)
                    return;
                send_all(ends[1 - i].fd, {buffer.data(), static_cast<std::size_t>(got)});
            }
        }
    }

    int server_port_, port_ = 0;
    std::vector<Fate> fates_;
    UniqueFd listening_;
    std::atomic<int> count_ = 0;
    std::atomic<bool> over_ = false;
    std::vector<std::jthread> connections_;
    std::jthread accepting_;
};

}  // namespace autolaunch::s3::testing
