#pragma once
#include "base/socket_owner.hpp"
#include "control/member.hpp"

#include <asio/io_context.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Whose is a TCP connection that comes from another node? PyTorch's clients cannot prove who they
/// are, so the agent of that node is asked: it looks for the socket with exactly these addresses
/// and ports and says whether it is our own user's. Who comes from an address that no agent of the
/// job has told is turned away. docs/store-protocol.md has the bytes.
///
/// Owner: the agent of node 0, one per generation; `member` must outlive it. Threads: the agent's
/// one. Blocks: never.
class ConnectionVouching {
public:
    ConnectionVouching(asio::io_context& io, Member& member, int generation);
    ConnectionVouching(const ConnectionVouching&) = delete;
    ConnectionVouching& operator=(const ConnectionVouching&) = delete;
    ~ConnectionVouching();

    /// For a connection as it is seen here. Calls back once, in 10 s at most, and never after this
    /// has gone.
    void ask(const TcpEnds& ends, std::function<void(bool)> verdict);

private:
    class Desk;
    Member& member_;
    int generation_;
    std::shared_ptr<Desk> desk_;
};

/// The other end: tells the head the addresses of this node, and answers what it asks.
///
/// Owner: the agent of every other node, one per generation; `member` must outlive it. Threads: the
/// agent's one. Blocks: never, but for what the kernel takes to answer.
class ConnectionVoucher {
public:
    ConnectionVoucher(Member& member, int generation);
    ConnectionVoucher(const ConnectionVoucher&) = delete;
    ConnectionVoucher& operator=(const ConnectionVoucher&) = delete;
    ~ConnectionVoucher();

private:
    Member& member_;
    int generation_;
};

/// What they say to each other. Pure.
namespace vouching {

using Address = std::array<std::uint8_t, 16>;  ///< as TcpEnd's

std::string encode_addresses(const std::vector<Address>& addresses);
std::string encode_question(std::uint64_t ticket, const TcpEnds& ends);
std::string encode_answer(std::uint64_t ticket, bool is_ours);

struct Question {
    std::uint64_t ticket = 0;
    TcpEnds ends;  ///< as the head sees them
};
struct Answer {
    std::uint64_t ticket = 0;
    bool is_ours = false;
};
/// Nothing for what is no such message.
std::optional<std::vector<Address>> parse_addresses(std::string_view bytes);
std::optional<Question> parse_question(std::string_view bytes);
std::optional<Answer> parse_answer(std::string_view bytes);

}  // namespace vouching

}  // namespace autolaunch::launcher
