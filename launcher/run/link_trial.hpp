#pragma once
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Data between this node and its neighbours in a ring, as a step of a collective sends it: all
/// nodes send to the next one at once, and look at what comes from the one before. Bytes and rounds
/// are in docs/control-protocol.md.
///
/// Owner: QuickCheck. Threads: the one that runs the context. Blocks: never. The port is closed
/// after kLimit, or at its end.
class LinkTrial {
public:
    struct Result {
        std::uint64_t bytes = kBytes;  ///< of a round
        std::uint64_t best_us = 0;     ///< that the fastest took; 0: none came to its end
        std::uint64_t wrong = 0;       ///< bytes that arrived as others
        std::string problem = {};      ///< why none, or not all, were sent
    };
    using Done = std::function<void(const Result& result)>;

    static constexpr std::size_t kBytes = std::size_t{4} << 20;
    static constexpr int kRounds = 3;
    static constexpr std::chrono::seconds kSendTime{3}, kLimit{6};

    /// Listens at this address, numeric; who does not know `secret` is not heard.
    LinkTrial(asio::io_context& io, const std::string& address, const std::string& secret);
    LinkTrial(const LinkTrial&) = delete;
    LinkTrial& operator=(const LinkTrial&) = delete;
    ~LinkTrial();

    /// 0: nobody can send to us.
    std::uint16_t port() const;
    /// To the next node. Calls `done` within kSendTime.
    void send_to(const std::string& address, std::uint16_t port, Done done);

private:
    using Socket = asio::ip::tcp::socket;
    struct Incoming;
    void accept();
    bool make_room();
    void greet(const std::shared_ptr<Incoming>& from);
    void receive(const std::shared_ptr<Incoming>& from);
    void send_round();
    void finish(const std::string& problem);

    asio::io_context& io_;
    std::string secret_;
    std::vector<unsigned char> data_;
    asio::ip::tcp::acceptor acceptor_;
    std::list<std::weak_ptr<Incoming>> incoming_;
    std::shared_ptr<Socket> to_;  ///< kept by what is under way on it
    asio::steady_timer timer_, end_timer_;
    std::chrono::steady_clock::time_point round_began_;
    std::array<unsigned char, 8> answer_{};
    int rounds_left_ = kRounds;
    Result result_;
    Done done_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace autolaunch::launcher
