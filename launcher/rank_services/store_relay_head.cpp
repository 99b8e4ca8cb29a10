#include "rank_services/store_relay_head.hpp"

#include "rank_services/credited_stream.hpp"
#include "rank_services/store_relay_protocol.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace autolaunch::launcher {

namespace relay = store_relay;

using store::Command;
using store::TableService;

namespace store_relay {

/// One node's relay: what it asks, what it is told, and what it waits for.
class Link : public std::enable_shared_from_this<Link> {
public:
    Link(asio::io_context& io, std::shared_ptr<TableService> table,
         relay::CreditedStream::Send send)
        : io_(io),
          table_(std::move(table)),
          stream_(std::move(send)),
          reader_(relay::question_limit(table_->limits())),
          held_(table_->budget()) {}

    void receive(std::string_view message);
    void close();

private:
    void serve();
    void answer(relay::Item&& item);
    void answer(relay::Ask& ask);
    void answer(const relay::Watch& watch);
    void answer(const relay::Unwatch& unwatch);
    void start_barrier(relay::Ask& ask);
    TableService::Waiter enroll(std::uint64_t ticket,
                                std::function<relay::Answer(std::uint64_t push)> make_answer);
    void end_wait(std::uint64_t ticket);
    void tell(const relay::Answer& answer);
    void flush();

    asio::io_context& io_;
    std::shared_ptr<TableService> table_;
    relay::CreditedStream stream_;
    relay::ItemReader reader_;
    store::Share held_;
    std::unordered_map<std::uint64_t, TableService::Waiter> waiters_;  // by ticket
    std::size_t untold_bytes_ = 0;  // came, and are not served yet
    bool flush_pending_ = false;
    bool closed_ = false;
};

void Link::receive(std::string_view message) {
    if (closed_)
        return;
    try {
        const std::string_view bytes = stream_.receive(message);
        reader_.feed(bytes);
        untold_bytes_ += bytes.size();
        serve();
        flush();
        held_.resize(store::beyond_free(reader_.buffered_bytes() + stream_.backlog_bytes()));
    } catch (const Error&) {  // it sent nonsense, or more than there is room for
        tell(relay::Hangup{});
        stream_.flush();
        close();
    }
}

/// Until the node owes us reading; then nothing more is let come.
void Link::serve() {
    while (stream_.backlog_bytes() <= relay::CreditedStream::kPauseAboveBytes) {
        auto item = reader_.next();
        if (!item) {
            stream_.taken(std::exchange(untold_bytes_, 0));
            return;
        }
        answer(std::move(*item));
    }
}

void Link::flush() {
    stream_.flush();
    while (untold_bytes_ > 0 &&
           stream_.backlog_bytes() <= relay::CreditedStream::kPauseAboveBytes) {
        serve();
        stream_.flush();
    }
    held_.shrink(store::beyond_free(reader_.buffered_bytes() + stream_.backlog_bytes()));
}

/// A bad item costs only the one who asked.
void Link::answer(relay::Item&& item) {
    const std::uint64_t ticket = item.ticket;
    try {
        relay::Question question = relay::parse_question(std::move(item), table_->limits());
        std::visit([this](auto& asked) { answer(asked); }, question);
    } catch (const std::exception&) {
        tell(relay::Refused{ticket});
    }
}

void Link::answer(relay::Ask& ask) {
    if (ask.request.command == Command::barrier)
        return start_barrier(ask);
    if (ask.request.command == Command::wait || ask.request.command == Command::cancel_wait)
        throw Error(ErrorCode::corrupt, "store relay: a wait that is no Watch");
    constexpr TableService::Waiter kNobody = 0;
    std::string bytes = table_->answer(kNobody, ask.request);
    if (!store::has_reply(ask.request.command))
        return;
    if (bytes.size() > relay::answer_limit(table_->limits()))
        throw Error(ErrorCode::corrupt, "store relay: the reply is too large");
    tell(relay::Reply{ask.ticket, std::move(bytes)});
}

void Link::start_barrier(relay::Ask& ask) {
    const std::uint64_t ticket = ask.ticket;
    const auto waiter = enroll(ticket, [ticket](std::uint64_t) {
        return relay::Reply{ticket, store::wait_reply(store::WaitReply::stop_waiting)};
    });
    std::string bytes;
    try {
        bytes = table_->answer(waiter, ask.request);
    } catch (...) {
        end_wait(ticket);
        throw;
    }
    if (bytes.empty())
        return;
    end_wait(ticket);
    tell(relay::Reply{ticket, std::move(bytes)});
}

void Link::answer(const relay::Watch& watch) {
    const std::uint64_t ticket = watch.ticket;
    const auto waiter = enroll(ticket, [ticket](std::uint64_t push) {
        return relay::Appeared{ticket, push};
    });
    const auto push = table_->watch(waiter, watch.key, watch.after);
    if (!push)
        return;
    end_wait(ticket);
    tell(relay::Appeared{ticket, *push});
}

/// One that was woken by a push meanwhile, and does not want the element, leaves it to the next.
void Link::answer(const relay::Unwatch& unwatch) {
    if (waiters_.contains(unwatch.ticket))
        return end_wait(unwatch.ticket);
    table_->rouse(unwatch.key);
}

TableService::Waiter Link::enroll(std::uint64_t ticket,
                                  std::function<relay::Answer(std::uint64_t push)> make_answer) {
    end_wait(ticket);
    const auto waiter =
        table_->enroll([this, ticket, make_answer](TableService::Waiter, std::uint64_t push) {
            end_wait(ticket);
            tell(make_answer(push));
        });
    waiters_.emplace(ticket, waiter);
    return waiter;
}

void Link::end_wait(std::uint64_t ticket) {
    const auto found = waiters_.find(ticket);
    if (found == waiters_.end())
        return;
    table_->dismiss(found->second);
    waiters_.erase(found);
}

/// Sent together with everything else of this turn of the event loop.
void Link::tell(const relay::Answer& answer) {
    relay::append(stream_.output(), answer);
    if (std::exchange(flush_pending_, true))
        return;
    asio::post(io_, [self = shared_from_this()] {
        self->flush_pending_ = false;
        if (!self->closed_)
            self->flush();
    });
}

void Link::close() {
    closed_ = true;
    reader_ = relay::ItemReader(0);
    held_.resize(0);
    for (const auto& [ticket, waiter] : std::exchange(waiters_, {}))
        table_->dismiss(waiter);
}

}  // namespace store_relay

/// The links of all nodes.
class StoreRelayHead::Desk {
public:
    Desk(asio::io_context& io, Member& member, int generation, std::shared_ptr<TableService> table)
        : io_(io), member_(member), generation_(generation), table_(std::move(table)) {}

    void receive(int node, std::string_view message) {
        auto& link = links_[node];
        if (link == nullptr)
            link = make_link(node);
        std::shared_ptr<relay::Link>(link)->receive(message);
    }
    void forget(int node) {
        const auto found = links_.find(node);
        if (found != links_.end())
            found->second->close();
    }
    void close() {
        for (const auto& [node, link] : links_)
            link->close();
    }

private:
    std::shared_ptr<relay::Link> make_link(int node) {
        return std::make_shared<relay::Link>(
            io_, table_, [&member = member_, generation = generation_, node](std::string message) {
                member.relay(control::RelayChannel::store, generation, node, std::move(message));
            });
    }

    asio::io_context& io_;
    Member& member_;
    int generation_;
    std::shared_ptr<TableService> table_;
    std::unordered_map<int, std::shared_ptr<relay::Link>> links_;
};

StoreRelayHead::StoreRelayHead(asio::io_context& io, Member& member, int generation,
                               std::shared_ptr<store::TableService> table)
    : member_(member),
      generation_(generation),
      desk_(std::make_shared<Desk>(io, member, generation, std::move(table))) {
    member_.on_relay(
        control::RelayChannel::store, generation_,
        [desk = desk_](int source, std::string_view bytes) { desk->receive(source, bytes); });
}

StoreRelayHead::~StoreRelayHead() {
    member_.on_relay(control::RelayChannel::store, generation_, nullptr);
    desk_->close();
}

void StoreRelayHead::forget(int node) { desk_->forget(node); }

}  // namespace autolaunch::launcher
