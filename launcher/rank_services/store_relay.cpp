#include "rank_services/store_relay.hpp"

#include "rank_services/credited_stream.hpp"
#include "rank_services/request_merger.hpp"
#include "rank_services/store_relay_protocol.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace relay = store_relay;

/// Between the server's clients and the head.
class StoreRelay::Forwarder final : public store::Backend,
                                    public relay::RequestMerger::Outlet,
                                    public std::enable_shared_from_this<Forwarder> {
public:
    Forwarder(asio::io_context& io, const store::Limits& limits, relay::CreditedStream::Send send)
        : io_(io),
          budget_(std::make_shared<store::Budget>(limits.table_bytes)),
          merger_(*this, budget_),
          stream_(std::move(send)),
          unsent_(budget_),
          reader_(relay::answer_limit(limits)) {}

    void attach(Server* server) override { server_ = server; }
    Client join() override { return merger_.join(); }
    void leave(Client client) override { merger_.leave(client); }
    bool takes_request_of(Client client) const override {
        return !merger_.busy(client) && !congested();
    }
    void request(Client client, store::Request&& request) override;

    void ask(const relay::Question& question) override;
    void reply(Client client, std::string_view bytes) override { server_->reply(client, bytes); }
    void drop(Client client) override { server_->drop(client); }

    const std::shared_ptr<store::Budget>& budget() const { return budget_; }
    void receive(std::string_view message);
    void flush();
    void close() { closed_ = true; }

private:
    bool congested() const {
        return stream_.backlog_bytes() > relay::CreditedStream::kPauseAboveBytes;
    }
    void take_answers(std::string_view bytes);
    void flush_later();

    asio::io_context& io_;
    std::shared_ptr<store::Budget> budget_;
    relay::RequestMerger merger_;
    relay::CreditedStream stream_;
    store::Share unsent_;
    relay::ItemReader reader_;
    Server* server_ = nullptr;
    bool flush_pending_ = false;
    bool closed_ = false;
};

void StoreRelay::Forwarder::request(Client client, store::Request&& request) {
    if (closed_)
        throw Error(ErrorCode::closed, "the store's head does not listen any more");
    std::size_t bytes = stream_.backlog_bytes();
    for (const auto* strings : {&request.keys, &request.values})
        for (const std::string& string : *strings)
            bytes += string.size();
    unsent_.resize(store::beyond_free(bytes));
    merger_.request(client, std::move(request));
}

void StoreRelay::Forwarder::ask(const relay::Question& question) {
    if (closed_)
        return;
    relay::append(stream_.output(), question);
    flush_later();
}

/// Once for everything that is asked in one turn of the event loop.
void StoreRelay::Forwarder::flush_later() {
    if (std::exchange(flush_pending_, true))
        return;
    asio::post(io_, [self = shared_from_this()] {
        self->flush_pending_ = false;
        self->flush();
    });
}

void StoreRelay::Forwarder::flush() {
    if (closed_)
        return;
    const bool was_congested = congested();
    stream_.flush();
    unsent_.shrink(store::beyond_free(stream_.backlog_bytes()));
    if (was_congested && !congested() && server_ != nullptr)
        server_->go_on();
}

void StoreRelay::Forwarder::receive(std::string_view message) {
    if (closed_ || server_ == nullptr)
        return;
    try {
        take_answers(stream_.receive(message));
    } catch (const Error&) {  // the head speaks another language: nobody can be answered any more
        close();
    }
    if (closed_)
        return server_->drop_all();
    flush();
}

void StoreRelay::Forwarder::take_answers(std::string_view bytes) {
    reader_.feed(bytes);
    stream_.taken(bytes.size());
    while (auto item = reader_.next()) {
        relay::Answer answer = relay::parse_answer(std::move(*item));
        if (std::holds_alternative<relay::Hangup>(answer))
            return close();
        merger_.take(std::move(answer));
    }
}

StoreRelay::StoreRelay(asio::io_context& io, Member& member, int generation,
                       const StoreServerOptions& options)
    : member_(member),
      generation_(generation),
      forwarder_(std::make_shared<Forwarder>(
          io, options.limits,
          [&member, generation, head = member.head_node()](std::string message) {
              member.relay(control::RelayChannel::store, generation, head, std::move(message));
          })),
      server_(std::make_unique<StoreServer>(io, options, forwarder_, forwarder_->budget())) {
    member_.on_relay(
        control::RelayChannel::store, generation_,
        [forwarder = forwarder_, head = member.head_node()](int source, std::string_view bytes) {
            if (source == head)
                forwarder->receive(bytes);
        });
}

StoreRelay::~StoreRelay() {
    member_.on_relay(control::RelayChannel::store, generation_, nullptr);
    server_.reset();
    forwarder_->flush();  // that nobody waits here any more
    forwarder_->close();
}

}  // namespace autolaunch::launcher
