#include "rendezvous/head_search.hpp"

#include <asio/ip/address.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr milliseconds kApart{10};      // between the first dials: the likeliest go first
constexpr milliseconds kFirstPause{5};  // before an end is dialled again; doubles
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kConnectTime{3000};
constexpr milliseconds kProofTime{3000};  // before the next connected end may try to prove the key, too
constexpr milliseconds kLookUpAgain{5000};
constexpr int kMostConnecting = 16;

std::string describe_error(const asio::error_code& error) {
    switch (error.value()) {
        case ECONNREFUSED:
            return "refused";
        case ETIMEDOUT:
            return "timed out";
        case EHOSTUNREACH:
            return "no route to it";
        case ENETUNREACH:
            return "its network is unreachable";
        default:
            return error.message();
    }
}

}  // namespace

HeadSearch::HeadSearch(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options)
    : io_(io),
      security_(std::move(security)),
      options_(std::move(options)),
      lookup_(io),
      lookup_timer_(io),
      proof_timer_(io),
      random_(static_cast<unsigned>(::getpid()) ^
              static_cast<unsigned>(std::chrono::steady_clock::now().time_since_epoch().count())) {}

void HeadSearch::start(Found found) {
    found_ = std::move(found);
    look_up();
}

void HeadSearch::stop() {
    if (std::exchange(stopped_, true)) return;
    lookup_.cancel();
    lookup_timer_.cancel();
    proof_timer_.cancel();
    asio::error_code ignored;
    for (const auto& dial : dials_) {
        dial->timer.cancel();
        dial->socket.close(ignored);
        if (dial->connection != nullptr) dial->connection->set_handlers({});
        dial->connection.reset();
    }
    found_ = {};
}

void HeadSearch::after(asio::steady_timer& timer, milliseconds pause, std::function<void()> then) {
    timer.expires_after(pause);
    timer.async_wait([self = shared_from_this(), then = std::move(then)](const asio::error_code& error) {
        if (!error && !self->stopped_) then();
    });
}

// A quarter more or less, so that thousands of nodes do not dial in step.
milliseconds HeadSearch::jittered(milliseconds pause) {
    std::uniform_int_distribution<long> spread(-pause.count() / 4, pause.count() / 4);
    return pause + milliseconds(spread(random_));
}

void HeadSearch::look_up() {
    lookup_.start(options_.hosts, [weak = weak_from_this()](std::vector<NameLookup>&& lookups) {
        if (const auto self = weak.lock(); self && !self->stopped_) self->on_lookups(std::move(lookups));
    });
}

// Names are looked up again: a pod's may be new, and a host's may move.
void HeadSearch::on_lookups(std::vector<NameLookup>&& lookups) {
    lookups_ = std::move(lookups);
    std::vector<asio::ip::address> addresses;
    for (const auto& lookup : lookups_) {
        for (const auto& text : lookup.addresses) {
            asio::error_code error;
            const auto address = asio::ip::make_address(text, error);
            if (!error && std::find(addresses.begin(), addresses.end(), address) == addresses.end())
                addresses.push_back(address);
        }
    }
    add_dials(addresses);
    lookup_pause_ = dials_.empty() ? std::clamp(lookup_pause_ * 2, kFirstPause, kLongestPause) : kLookUpAgain;
    after(lookup_timer_, jittered(lookup_pause_), [this] { look_up(); });
}

void HeadSearch::add_dials(const std::vector<asio::ip::address>& addresses) {
    int added = 0;
    for (const std::uint16_t port : options_.ports) {
        for (const auto& address : addresses) {
            const tcp::endpoint endpoint(address, port);
            const bool known =
                std::any_of(dials_.begin(), dials_.end(), [&](const auto& dial) { return dial->endpoint == endpoint; });
            if (known) continue;
            dials_.push_back(std::make_unique<Dial>(io_, endpoint));
            Dial& dial = *dials_.back();
            if (added++ == 0)
                connect(dial);
            else
                after(dial.timer, kApart * (added - 1), [this, &dial] { connect(dial); });
        }
    }
}

void HeadSearch::connect(Dial& dial) {
    if (connecting_ >= kMostConnecting || proving_ != nullptr)
        return after(dial.timer, kApart, [this, &dial] { connect(dial); });
    asio::error_code error;
    dial.socket = tcp::socket(io_);
    const int fd = ::socket(dial.endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail(dial, describe_error({errno, asio::error::get_system_category()}));
    dial.socket.assign(dial.endpoint.protocol(), fd, error);
    if (options_.own_address) dial.socket.bind({*options_.own_address, 0}, error);
    if (error) return fail(dial, describe_error(error));
    ++connecting_;
    after(dial.timer, kConnectTime, [&dial] {
        asio::error_code ignored;
        dial.socket.close(ignored);
    });
    dial.socket.async_connect(dial.endpoint, [self = shared_from_this(), &dial](const asio::error_code& result) {
        --self->connecting_;
        if (!self->stopped_) self->on_connected(dial, result);
    });
}

void HeadSearch::on_connected(Dial& dial, const asio::error_code& error) {
    const bool timed_out = error == asio::error::operation_aborted;
    dial.timer.cancel();
    if (error) return fail(dial, timed_out ? "timed out" : describe_error(error));
    connected_.push_back(&dial);
    if (proving_ == nullptr) prove_next();
}

// One at a time: the same head may answer on several addresses, and one proof is enough.
void HeadSearch::prove_next() {
    proving_ = nullptr;
    proof_timer_.cancel();
    while (proving_ == nullptr && !connected_.empty()) {
        Dial& dial = *connected_.front();
        connected_.pop_front();
        prove(dial);
    }
}

void HeadSearch::prove(Dial& dial) {
    if (!dial.socket.is_open()) return fail(dial, "timed out");
    proving_ = &dial;
    after(proof_timer_, kProofTime, [this] { prove_next(); });
    const std::weak_ptr<HeadSearch> weak = weak_from_this();
    dial.connection = ControlConnection::connect(std::move(dial.socket), security_, options_.connection,
                                                 {.on_ready =
                                                      [weak, &dial] {
                                                          const auto self = weak.lock();
                                                          if (self && !self->stopped_) self->win(dial);
                                                      },
                                                  .on_message = {},
                                                  .on_end =
                                                      [weak, &dial](const ConnectionEnd& end) {
                                                          const auto self = weak.lock();
                                                          if (self && !self->stopped_) self->on_proof_failed(dial, end);
                                                      }});
}

void HeadSearch::on_proof_failed(Dial& dial, const ConnectionEnd& end) {
    dial.connection.reset();
    key_was_refused_ = key_was_refused_ || end.kind == ConnectionEnd::Kind::key_refused;
    const bool was_proving = proving_ == &dial;
    fail(dial, end.reason.empty() ? "broke off" : end.reason);
    if (was_proving) prove_next();
}

void HeadSearch::fail(Dial& dial, const std::string& error) {
    dial.last_error = error;
    dial.pause = std::clamp(dial.pause * 2, kFirstPause, kLongestPause);
    after(dial.timer, jittered(dial.pause), [this, &dial] { connect(dial); });
}

void HeadSearch::win(Dial& dial) {
    const auto connection = std::exchange(dial.connection, nullptr);
    const Found found = std::move(found_);
    stop();
    found(connection);
}

void HeadSearch::describe(SearchRecord& record) const {
    record.lookups = lookups_;
    for (const auto& dial : dials_) {
        const std::string address = dial->endpoint.address().to_string();
        auto known = std::find_if(record.dials.begin(), record.dials.end(),
                                  [&](const DialRecord& entry) { return entry.address == address; });
        if (known == record.dials.end())
            known = record.dials.insert(record.dials.end(), {address, route_to(address), {}});
        known->last_error[dial->endpoint.port()] = dial->last_error.empty() ? "no answer yet" : dial->last_error;
    }
}

}  // namespace autolaunch::launcher
