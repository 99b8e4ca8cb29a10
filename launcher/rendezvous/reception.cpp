#include "rendezvous/reception.hpp"

#include "control/peer_text.hpp"

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStrangersRemembered = 256;

Stranger::Told told_by(ConnectionEnd::Kind kind) {
    switch (kind) {
        case ConnectionEnd::Kind::key_refused:
            return Stranger::Told::another_key;
        case ConnectionEnd::Kind::not_ours:
            return Stranger::Told::not_ours;
        default:
            return Stranger::Told::nothing;
    }
}

}  // namespace

Reception::Reception(asio::io_context& io, std::shared_ptr<ControlSecurity> security,
                     const Options& options, Handler on_proven)
    : options_(options),
      security_(std::move(security)),
      on_proven_(std::move(on_proven)),
      way_timer_(io) {}

Reception::~Reception() {
    for (auto& handshake : handshakes_)
        handshake.connection->set_handlers({});
}

void Reception::take(tcp::socket socket) {
    if (waiting_.size() >= options_.most_waiting) {
        asio::error_code gone;
        const tcp::endpoint oldest = waiting_.front().remote_endpoint(gone);
        if (!gone)
            turn_away(numeric_address(oldest), "too many others came after it");
        waiting_.pop_front();
    }
    waiting_.push_back(std::move(socket));
    begin_waiting();
}

void Reception::begin_waiting() {
    do {
        while (!waiting_.empty() && handshakes_.size() < options_.handshakes_at_once) {
            tcp::socket socket = std::move(waiting_.front());
            waiting_.pop_front();
            begin(std::move(socket));
        }
    } while (!waiting_.empty() && make_way());
    if (waiting_.empty() || std::exchange(way_timer_runs_, true))
        return;
    way_timer_.expires_at(handshakes_.front().began + options_.patience);
    way_timer_.async_wait([this](const asio::error_code& error) {
        if (error)
            return;
        way_timer_runs_ = false;
        begin_waiting();
    });
}

void Reception::begin(tcp::socket socket) {
    asio::error_code gone;
    const tcp::endpoint peer = socket.remote_endpoint(gone);
    if (gone)
        return;
    const Place place =
        handshakes_.insert(handshakes_.end(), {nullptr, numeric_address(peer), Clock::now()});
    place->connection = ControlConnection::accept(
        std::move(socket), security_, options_.connection,
        {.on_ready = [this, place] { on_proven(place); },
         .on_message = {},
         .on_end = [this, place](const ConnectionEnd& end) { on_end(place, end); }});
}

void Reception::on_proven(Place place) {
    const Handshake handshake = std::move(*place);
    handshakes_.erase(place);
    on_proven_(handshake.connection, handshake.address);
    begin_waiting();
}

void Reception::on_end(Place place, const ConnectionEnd& end) {
    turn_away(place->address,
              end.reason.empty() ? "broke off before it had proved anything" : end.reason,
              told_by(end.kind));
    handshakes_.erase(place);
    begin_waiting();
}

// All places are taken and somebody waits: the oldest handshake goes, once it has had its time.
bool Reception::make_way() {
    const Handshake& oldest = handshakes_.front();
    if (oldest.began + options_.patience > Clock::now())
        return false;
    turn_away(oldest.address, "proved nothing while others waited");
    oldest.connection->set_handlers({});
    handshakes_.pop_front();
    return true;
}

// An agent that was refused and then gives up breaks off its last try: that says less than the
// refusal did.
void Reception::turn_away(const std::string& address, const std::string& reason,
                          Stranger::Told told) {
    if (strangers_.size() >= kStrangersRemembered && !strangers_.contains(address))
        return;
    Stranger& stranger = strangers_[address];
    ++stranger.times;
    if (told < stranger.told)
        return;
    stranger.told = told;
    stranger.reason = reason;
}

}  // namespace autolaunch::launcher
