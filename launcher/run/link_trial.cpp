#include "run/link_trial.hpp"

#include "base/file_io.hpp"

#include <asio/buffer.hpp>
#include <asio/ip/address.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using asio::ip::tcp;
using std::chrono::steady_clock;

constexpr std::size_t kSecretBytes = 32, kMostIncoming = 4;
constexpr int kBacklog = 64;

// xorshift64: every bit of a link changes all the time, and both ends make the same.
std::vector<unsigned char> data_from(const std::string& secret) {
    std::vector<unsigned char> data(LinkTrial::kBytes);
    std::uint64_t state = 1469598103934665603u;
    for (const char c : secret)
        state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
    state |= 1;
    for (std::size_t at = 0; at < data.size(); at += sizeof state) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        for (std::size_t byte = 0; byte < sizeof state; ++byte)
            data[at + byte] = static_cast<unsigned char>(state >> (8 * byte));
    }
    return data;
}

std::uint64_t count_wrong(const std::vector<unsigned char>& came,
                          const std::vector<unsigned char>& expected) {
    if (std::memcmp(came.data(), expected.data(), expected.size()) == 0)
        return 0;
    std::uint64_t wrong = 0;
    for (std::size_t at = 0; at < expected.size(); ++at)
        wrong += came[at] != expected[at] ? 1 : 0;
    return wrong;
}

std::string padded(std::string secret) {
    secret.resize(kSecretBytes, '.');
    return secret;
}

}  // namespace

struct LinkTrial::Incoming {
    explicit Incoming(Socket from) : socket(std::move(from)) {}
    Socket socket;
    std::array<char, kSecretBytes> secret{};
    std::vector<unsigned char> bytes;  // empty: it has not said the secret yet
    std::array<unsigned char, 8> answer{};
};

LinkTrial::LinkTrial(asio::io_context& io, const std::string& address, const std::string& secret)
    : io_(io),
      secret_(padded(secret)),
      data_(data_from(secret_)),
      acceptor_(io),
      to_(std::make_shared<Socket>(io)),
      timer_(io),
      end_timer_(io) {
    std::error_code error;
    const auto ours = asio::ip::make_address(address, error);
    const tcp::endpoint endpoint(ours, 0);
    if (!error)
        acceptor_.open(endpoint.protocol(), error);
    if (!error) {
        close_on_exec(acceptor_.native_handle());
        acceptor_.bind(endpoint, error);
    }
    if (!error)
        acceptor_.listen(kBacklog, error);
    if (error) {
        acceptor_.close(error);
        return;
    }
    accept();
    end_timer_.expires_after(kLimit);
    end_timer_.async_wait([this, alive = alive_](const std::error_code& cancelled) {
        std::error_code ignored;
        if (*alive && !cancelled)
            acceptor_.close(ignored);
    });
}

LinkTrial::~LinkTrial() {
    *alive_ = false;
    std::error_code ignored;
    acceptor_.close(ignored);
    to_->close(ignored);
    for (const auto& known : incoming_)
        if (const auto from = known.lock())
            from->socket.close(ignored);
}

std::uint16_t LinkTrial::port() const {
    std::error_code error;
    const auto endpoint = acceptor_.local_endpoint(error);
    return error ? std::uint16_t{0} : endpoint.port();
}

void LinkTrial::accept() {
    acceptor_.async_accept([this, alive = alive_](const std::error_code& error, Socket socket) {
        if (!*alive || error)
            return;
        close_on_exec(socket.native_handle());
        if (make_room()) {
            const auto from = std::make_shared<Incoming>(std::move(socket));
            incoming_.push_back(from);
            greet(from);
        }
        accept();
    });
}

// A stranger that holds a place would make this node look bad: the eldest that has not said the
// secret goes.
bool LinkTrial::make_room() {
    incoming_.remove_if([](const auto& known) { return known.expired(); });
    if (incoming_.size() < kMostIncoming)
        return true;
    for (auto place = incoming_.begin(); place != incoming_.end(); ++place) {
        const auto from = place->lock();
        if (from && !from->bytes.empty())
            continue;
        std::error_code ignored;
        if (from)
            from->socket.close(ignored);
        incoming_.erase(place);
        return true;
    }
    return false;
}

void LinkTrial::greet(const std::shared_ptr<Incoming>& from) {
    asio::async_read(from->socket, asio::buffer(from->secret),
                     [this, alive = alive_, from](const std::error_code& error, std::size_t) {
                         if (!*alive || error ||
                             !std::equal(from->secret.begin(), from->secret.end(), secret_.begin(),
                                         secret_.end()))
                             return;
                         from->bytes.resize(kBytes);
                         receive(from);
                     });
}

void LinkTrial::receive(const std::shared_ptr<Incoming>& from) {
    asio::async_read(from->socket, asio::buffer(from->bytes),
                     [this, alive = alive_, from](const std::error_code& error, std::size_t) {
                         if (!*alive || error)
                             return;
                         const std::uint64_t wrong = count_wrong(from->bytes, data_);
                         for (std::size_t byte = 0; byte < from->answer.size(); ++byte)
                             from->answer[byte] = static_cast<unsigned char>(wrong >> (8 * byte));
                         asio::async_write(
                             from->socket, asio::buffer(from->answer),
                             [this, alive, from](const std::error_code& failed, std::size_t) {
                                 if (*alive && !failed)
                                     receive(from);
                             });
                     });
}

void LinkTrial::send_to(const std::string& address, std::uint16_t port, Done done) {
    done_ = std::move(done);
    timer_.expires_after(kSendTime);
    timer_.async_wait([this, alive = alive_](const std::error_code& error) {
        if (*alive && !error)
            finish("not all was sent in 3 s");
    });
    std::error_code error;
    const tcp::endpoint theirs(asio::ip::make_address(address, error), port);
    if (error)
        return finish(address + " is no address");
    to_->async_connect(theirs, [this, alive = alive_, to = to_](const std::error_code& failed) {
        if (!*alive)
            return;
        if (failed)
            return finish("no connection: " + failed.message());
        std::error_code ignored;
        to_->set_option(tcp::no_delay(true), ignored);
        asio::async_write(*to_, asio::buffer(secret_),
                          [this, alive, to](const std::error_code& broken, std::size_t) {
                              if (*alive)
                                  broken ? finish(broken.message()) : send_round();
                          });
    });
}

void LinkTrial::send_round() {
    if (rounds_left_-- == 0)
        return finish({});
    round_began_ = steady_clock::now();
    asio::async_write(*to_, asio::buffer(data_),
                      [to = to_](const std::error_code&, std::size_t) {});
    asio::async_read(
        *to_, asio::buffer(answer_),
        [this, alive = alive_, to = to_](const std::error_code& error, std::size_t) {
            if (!*alive || !done_)
                return;
            if (error)
                return finish("it broke off: " + error.message());
            const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
                steady_clock::now() - round_began_);
            const auto us = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(took.count()));
            result_.best_us = result_.best_us == 0 ? us : std::min(result_.best_us, us);
            std::uint64_t wrong = 0;
            for (std::size_t byte = answer_.size(); byte-- > 0;)
                wrong = wrong << 8 | answer_[byte];
            result_.wrong += wrong;
            send_round();
        });
}

// Once.
void LinkTrial::finish(const std::string& problem) {
    if (!done_)
        return;
    timer_.cancel();
    std::error_code ignored;
    to_->close(ignored);
    result_.problem = problem;
    std::exchange(done_, {})(result_);
}

}  // namespace autolaunch::launcher
