#include "rendezvous/head_search.hpp"

#include <asio/ip/address.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr milliseconds kApart{100};  // between first dials, unless the one before has failed sooner
constexpr milliseconds kFirstPause{5};  // before the likeliest end is dialled again; doubles
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kConnectTime{3000};
constexpr milliseconds kProofTime{
    3000};  // before other ends may try, too; a busy head takes its time
constexpr milliseconds kBesideProof{1000};  // between dials beside an end that takes longer
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

HeadSearch::HeadSearch(asio::io_context& io, std::shared_ptr<ControlSecurity> security,
                       Options options)
    : io_(io),
      security_(std::move(security)),
      options_(std::move(options)),
      lookup_(io),
      lookup_timer_(io),
      timer_(io),
      random_(static_cast<unsigned>(::getpid()) ^
              static_cast<unsigned>(Clock::now().time_since_epoch().count())) {}

void HeadSearch::start(Found found) {
    found_ = std::move(found);
    look_up();
}

void HeadSearch::stop() {
    if (std::exchange(stopped_, true))
        return;
    lookup_.cancel();
    lookup_timer_.cancel();
    timer_.cancel();
    asio::error_code ignored;
    for (Dial& dial : dials_) {
        if (dial.socket)
            dial.socket->close(ignored);
        if (dial.connection != nullptr)
            dial.connection->set_handlers({});
        dial.connection.reset();
    }
    found_ = {};
}

// A quarter more or less, so that thousands of nodes do not dial in step.
milliseconds HeadSearch::jittered(milliseconds pause) {
    std::uniform_int_distribution<long> spread(-pause.count() / 4, pause.count() / 4);
    return pause + milliseconds(spread(random_));
}

void HeadSearch::look_up() {
    std::vector<HostName> hosts = options_.hosts;
    if (options_.moved)
        for (HostName& host : options_.moved())
            hosts.push_back(std::move(host));
    lookup_.start(std::move(hosts), [weak = weak_from_this()](std::vector<NameLookup>&& lookups) {
        if (const auto self = weak.lock(); self && !self->stopped_)
            self->on_lookups(std::move(lookups));
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
    lookup_pause_ =
        dials_.empty() ? std::clamp(lookup_pause_ * 2, kFirstPause, kLongestPause) : kLookUpAgain;
    lookup_timer_.expires_after(jittered(lookup_pause_));
    lookup_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
        if (!error && !self->stopped_)
            self->look_up();
    });
    advance();
}

void HeadSearch::add_dials(const std::vector<asio::ip::address>& addresses) {
    Clock::time_point at = Clock::now();
    for (const std::uint16_t port : options_.ports) {
        for (const auto& address : addresses) {
            const tcp::endpoint endpoint(address, port);
            const bool known = std::any_of(dials_.begin(), dials_.end(), [&](const Dial& dial) {
                return dial.endpoint == endpoint;
            });
            if (known)
                continue;
            const int rarer =
                1 + static_cast<int>(dials_.size() / std::max<std::size_t>(1, addresses.size()));
            dials_.push_back({endpoint, rarer, DialState::waiting, at, {}, {}, {}, {}});
            at += kApart;
        }
    }
}

// Does what is due, and sleeps until something else is. While one end proves the key no other is
// dialled: the same head may answer on several addresses, and one proof is enough.
void HeadSearch::advance() {
    const auto now = Clock::now();
    if (proving_ != nullptr && proof_until_ <= now)
        proving_ = nullptr;  // it may come through all the same
    prove_next();
    for (Dial& dial : dials_) {
        asio::error_code ignored;
        if (dial.state == DialState::connecting && dial.at <= now)
            dial.socket->close(ignored);
        if (dial.state == DialState::waiting && dial.at <= now && next_dial_ <= now && may_dial())
            connect(dial);
    }
    sleep();
}

bool HeadSearch::may_dial() const { return proving_ == nullptr && connecting_ < kMostConnecting; }

void HeadSearch::sleep() {
    auto next = Clock::time_point::max();
    for (const Dial& dial : dials_) {
        if (dial.state == DialState::connecting)
            next = std::min(next, dial.at);
        if (dial.state == DialState::waiting && may_dial())
            next = std::min(next, std::max(dial.at, next_dial_));
    }
    if (proving_ != nullptr)
        next = std::min(next, proof_until_);
    if (next == Clock::time_point::max())
        return;
    timer_.expires_at(next);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
        if (!error && !self->stopped_)
            self->advance();
    });
}

void HeadSearch::connect(Dial& dial) {
    const int fd =
        ::socket(dial.endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(dial, describe_error({errno, asio::error::get_system_category()}));
    asio::error_code error;
    dial.socket.emplace(io_, dial.endpoint.protocol(), fd);
    if (options_.own_address) {
        const int later =
            1;  // the port is chosen with the connection, among all that lead elsewhere
        ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof later);
        dial.socket->bind({*options_.own_address, 0}, error);
    }
    if (error)
        return fail(dial, describe_error(error));
    dial.state = DialState::connecting;
    dial.at = Clock::now() + kConnectTime;
    ++connecting_;
    const bool is_aside = std::any_of(dials_.begin(), dials_.end(), [](const Dial& other) {
        return other.state == DialState::proving;
    });
    if (is_aside)
        next_dial_ = Clock::now() + kBesideProof;
    dial.socket->async_connect(dial.endpoint,
                               [self = shared_from_this(), &dial](const asio::error_code& result) {
                                   --self->connecting_;
                                   if (self->stopped_)
                                       return;
                                   self->on_connected(dial, result);
                                   self->advance();
                               });
}

void HeadSearch::on_connected(Dial& dial, const asio::error_code& error) {
    const bool timed_out = error == asio::error::operation_aborted || !dial.socket->is_open();
    if (timed_out)
        return fail(dial, "timed out");
    if (error)
        return fail(dial, describe_error(error));
    dial.state = DialState::connected;
}

void HeadSearch::prove_next() {
    if (proving_ != nullptr)
        return;
    const auto next = std::find_if(dials_.begin(), dials_.end(), [](const Dial& dial) {
        return dial.state == DialState::connected;
    });
    if (next != dials_.end())
        prove(*next);
}

void HeadSearch::prove(Dial& dial) {
    dial.state = DialState::proving;
    proving_ = &dial;
    proof_until_ = Clock::now() + kProofTime;
    const auto if_alive = [weak = weak_from_this()](auto&& act) {
        const auto self = weak.lock();
        if (self && !self->stopped_)
            act(*self);
    };
    dial.connection = ControlConnection::connect(
        std::move(*dial.socket), security_, options_.connection,
        {.on_ready = [if_alive, &dial] { if_alive([&](HeadSearch& self) { self.win(dial); }); },
         .on_message = {},
         .on_end =
             [if_alive, &dial](const ConnectionEnd& end) {
                 if_alive([&](HeadSearch& self) { self.on_proof_failed(dial, end); });
             }});
    dial.socket.reset();
}

void HeadSearch::on_proof_failed(Dial& dial, const ConnectionEnd& end) {
    dial.connection.reset();
    key_was_refused_ = key_was_refused_ || end.kind == ConnectionEnd::Kind::key_refused;
    if (proving_ == &dial)
        proving_ = nullptr;
    fail(dial, end.reason.empty() ? "broke off" : end.reason);
    advance();
}

void HeadSearch::fail(Dial& dial, const std::string& error) {
    dial.socket.reset();
    dial.last_error = error;
    dial.pause = std::clamp(dial.pause * 2, kFirstPause * dial.rarer, kLongestPause * dial.rarer);
    dial.state = DialState::waiting;
    dial.at = Clock::now() + jittered(dial.pause);
    const auto next = std::find_if(dials_.begin(), dials_.end(), [](const Dial& other) {
        return other.state == DialState::waiting && other.last_error.empty();
    });
    if (next != dials_.end())
        next->at = Clock::now();
}

void HeadSearch::win(Dial& dial) {
    const auto connection = std::exchange(dial.connection, nullptr);
    const Found found = std::move(found_);
    stop();
    found(connection);
}

void HeadSearch::describe(SearchRecord& record) const {
    record.lookups = lookups_;
    for (const Dial& dial : dials_) {
        const std::string address = dial.endpoint.address().to_string();
        auto known =
            std::find_if(record.dials.begin(), record.dials.end(),
                         [&](const DialRecord& entry) { return entry.address == address; });
        if (known == record.dials.end())
            known = record.dials.insert(record.dials.end(), {address, route_to(address), {}});
        known->last_error[dial.endpoint.port()] =
            dial.last_error.empty() ? "no answer yet" : dial.last_error;
    }
}

}  // namespace autolaunch::launcher
