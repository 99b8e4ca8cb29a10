#pragma once
#include "base/unique_fd.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A port of the loopback at which ranks ask for PMI-1 (PMI_PORT), for those that have no
/// descriptor for it. It costs nothing until one comes.
///
/// Takes connections of our own user only, by the kernel's word; others are closed unread.
///
/// Owner: Pmi1Service. Threads: the agent's one. Blocks: never.
class Pmi1Port {
public:
    struct Handlers {
        /// A process says that it is `rank`; `rest` is what it has sent after that.
        std::function<void(int rank, UniqueFd socket, std::string rest)> on_rank;
        std::function<void(const std::string& text)> on_warning;  ///< once, of another user
    };

    /// Throws Error.
    Pmi1Port(asio::io_context& io, Handlers handlers);
    Pmi1Port(const Pmi1Port&) = delete;
    Pmi1Port& operator=(const Pmi1Port&) = delete;
    ~Pmi1Port();

    std::uint16_t number() const { return number_; }

private:
    struct Caller;
    void accept_next();
    void greet(asio::ip::tcp::socket socket);
    void read(const std::shared_ptr<Caller>& caller);
    void hand_over(const std::shared_ptr<Caller>& caller, std::size_t line_end);

    asio::io_context& io_;
    Handlers handlers_;
    asio::ip::tcp::acceptor acceptor_;
    std::uint16_t number_ = 0;
    asio::steady_timer pause_;                   ///< after an accept that failed
    std::set<std::shared_ptr<Caller>> callers_;  ///< who has not said yet which rank it is
    bool told_of_stranger_ = false;
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

/// The rank in PMI-1's first line at a port, "cmd=initack pmiid=3"; nothing for any other. Pure.
std::optional<int> parse_initack(std::string_view line);

}  // namespace autolaunch::launcher
