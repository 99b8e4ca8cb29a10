// The parts of the store's relay that decide: its codec, its stream, and what it merges.
#include "rank_services/credited_stream.hpp"
#include "rank_services/request_merger.hpp"
#include "rank_services/store_relay_protocol.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace store_relay_test {

using namespace autolaunch;
using namespace autolaunch::launcher::store_relay;
using store::Command;
using store::Request;

namespace {

Request request_of(Command command, std::vector<std::string> keys = {},
                   std::vector<std::string> values = {}, std::int64_t number = 0) {
    return {command, std::move(keys), std::move(values), number};
}

std::string number_bytes(std::uint64_t number) {
    std::string bytes;
    store::append_u64(bytes, number);
    return bytes;
}

std::vector<Item> cut(const std::string& bytes, std::size_t piece, std::size_t limit = 1U << 20) {
    ItemReader reader(limit);
    std::vector<Item> items;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        reader.feed(std::string_view(bytes).substr(at, piece));
        while (auto item = reader.next())
            items.push_back(std::move(*item));
    }
    return items;
}

/// What the merger says, in order.
struct Recorder final : RequestMerger::Outlet {
    void ask(const Question& question) override { asked.push_back(question); }
    void reply(RequestMerger::Client client, std::string_view bytes) override {
        replies.emplace_back(client, std::string(bytes));
    }
    void drop(RequestMerger::Client client) override {
        dropped.push_back(client);
        if (merger != nullptr)
            merger->leave(client);
    }

    /// The oldest question that was not looked at.
    template <class T>
    T next() {
        REQUIRE_FALSE(asked.empty());
        const Question question = asked.front();
        asked.pop_front();
        REQUIRE(std::holds_alternative<T>(question));
        return std::get<T>(question);
    }

    RequestMerger* merger = nullptr;
    std::deque<Question> asked;
    std::vector<std::pair<RequestMerger::Client, std::string>> replies;
    std::vector<RequestMerger::Client> dropped;
};

struct Relay {
    Recorder says;
    RequestMerger merger{says, std::make_shared<store::Budget>(std::size_t{1} << 20)};
    std::vector<RequestMerger::Client> clients;

    explicit Relay(int count) {
        says.merger = &merger;
        for (int i = 0; i < count; ++i)
            clients.push_back(merger.join());
    }
    void ask_all(const Request& request) {
        for (const auto client : clients)
            merger.request(client, Request(request));
    }
};

const std::string kReady(1, '\0');

}  // namespace

TEST_CASE("questions and answers survive their encoding, in pieces of any size") {
    std::string bytes;
    append(bytes, Ask{7, request_of(Command::set, {"k"}, {std::string("\0v", 2)})});
    append(bytes, Watch{8, 99, "key"});
    append(bytes, Unwatch{std::uint64_t{1} << 63, ""});
    for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, bytes.size()}) {
        auto items = cut(bytes, piece);
        REQUIRE(items.size() == 3);
        const auto ask = std::get<Ask>(parse_question(std::move(items[0]), {}));
        CHECK(ask.ticket == 7);
        CHECK(ask.request.values == std::vector<std::string>{std::string("\0v", 2)});
        const auto watch = std::get<Watch>(parse_question(std::move(items[1]), {}));
        CHECK(watch.after == 99);
        CHECK(watch.key == "key");
        CHECK(std::get<Unwatch>(parse_question(std::move(items[2]), {})).ticket == std::uint64_t{1}
                                                                                       << 63);
    }
    bytes.clear();
    append(bytes, Reply{1, "bytes"});
    append(bytes, Appeared{2, 3});
    append(bytes, Refused{4});
    append(bytes, Hangup{});
    auto items = cut(bytes, 3);
    REQUIRE(items.size() == 4);
    CHECK(std::get<Reply>(parse_answer(std::move(items[0]))).bytes == "bytes");
    CHECK(std::get<Appeared>(parse_answer(std::move(items[1]))).push == 3);
    CHECK(std::get<Refused>(parse_answer(std::move(items[2]))).ticket == 4);
    CHECK(std::holds_alternative<Hangup>(parse_answer(std::move(items[3]))));
}

TEST_CASE("a bad item is refused, a bad length ends the stream") {
    store::Limits limits;
    limits.key_bytes = 8;
    const auto bad = [&](std::uint8_t kind, std::string body) {
        CHECK_THROWS_AS(parse_question(Item{kind, 1, std::move(body)}, limits), Error);
    };
    bad(0, "");                                 // no request
    bad(0, std::string(1, '\x63'));             // an unknown one
    bad(0, std::string(1, '\x07') + "more");    // GETNUMKEYS and then some
    bad(1, "short");                            // a Watch without its number
    bad(1, number_bytes(0) + "longer than 8");  // a key over the limit
    bad(2, "longer than 8");
    bad(3, "");
    CHECK_THROWS_AS(parse_answer(Item{1, 1, "x"}), Error);
    CHECK_THROWS_AS(parse_answer(Item{2, 1, "x"}), Error);
    CHECK_THROWS_AS(parse_answer(Item{4, 0, ""}), Error);
    CHECK_THROWS_AS(cut(number_bytes(8) + std::string(8, 'x'), 4),
                    Error);  // no room for kind and ticket
    CHECK_THROWS_AS(cut(number_bytes(std::uint64_t{1} << 63), 8), Error);  // refused by its length
    CHECK_THROWS_AS(cut(number_bytes(9 + 11) + std::string(9, 'x'), 4, 10),
                    Error);  // over the limit
    CHECK(cut(number_bytes(9 + 10) + std::string(9 + 10, 'x'), 4, 10).size() == 1);
}

TEST_CASE("a stream sends a window, and goes on as it is taken") {
    std::deque<std::string> wire;
    CreditedStream sender([&](std::string message) { wire.push_back(std::move(message)); });
    std::deque<std::string> back;
    CreditedStream receiver([&](std::string message) { back.push_back(std::move(message)); });
    std::string data(3 * CreditedStream::kWindowBytes + 12345, '\0');
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<char>(i * 2654435761U >> 11);
    sender.output() = data;
    sender.flush();
    CHECK(sender.backlog_bytes() == data.size() - CreditedStream::kWindowBytes);
    sender.flush();
    CHECK(sender.backlog_bytes() ==
          data.size() - CreditedStream::kWindowBytes);  // nothing was taken yet
    std::string got;
    while (!wire.empty()) {
        CHECK(wire.front().size() <= CreditedStream::kMessageBytes + 4);
        const std::string_view part = receiver.receive(wire.front());
        got.append(part);
        receiver.taken(part.size());
        wire.pop_front();
        receiver.flush();
        for (; !back.empty(); back.pop_front())
            CHECK(sender.receive(back.front()).empty());
        sender.flush();
    }
    CHECK(got == data);
    CHECK(sender.backlog_bytes() == 0);
}

TEST_CASE("a peer that breaks the rules of the stream is noticed") {
    CreditedStream stream([](std::string) {});
    CHECK_THROWS_AS(stream.receive("abc"), Error);
    CHECK_THROWS_AS(stream.receive(std::string("\1\0\0\0", 4)),
                    Error);  // nothing was sent that it could have taken
    CreditedStream other([](std::string) {});
    CHECK_NOTHROW(other.receive(std::string(4 + CreditedStream::kWindowBytes, '\0')));
    CHECK_THROWS_AS(other.receive(std::string(5, '\0')), Error);  // the window is full
}

TEST_CASE("a wait of many clients for one key is one question") {
    Relay relay(8);
    relay.ask_all(request_of(Command::wait, {"k"}));
    const auto watch = relay.says.next<Watch>();
    CHECK(watch.key == "k");
    CHECK(relay.says.asked.empty());
    CHECK(relay.says.replies.empty());
    relay.merger.take(Appeared{watch.ticket, 0});
    CHECK(relay.says.replies.size() == 8);
    relay.merger.take(Appeared{watch.ticket, 0});  // a second time is nothing
    CHECK(relay.says.replies.size() == 8);
}

TEST_CASE("a wait ends when its last key has appeared, and keys are counted once") {
    Relay relay(2);
    relay.merger.request(relay.clients[0], request_of(Command::wait, {"a", "b", "a"}));
    relay.merger.request(relay.clients[1], request_of(Command::wait, {"b"}));
    const auto a = relay.says.next<Watch>();
    const auto b = relay.says.next<Watch>();
    CHECK(relay.says.asked.empty());
    relay.merger.take(Appeared{b.ticket, 0});
    CHECK(relay.says.replies == decltype(relay.says.replies){{relay.clients[1], kReady}});
    relay.merger.take(Appeared{a.ticket, 0});
    CHECK(relay.says.replies.back().first == relay.clients[0]);
    relay.merger.request(relay.clients[0], request_of(Command::wait, {}));
    CHECK(relay.says.replies.size() == 3);
    CHECK(relay.says.asked.empty());
}

TEST_CASE("who cancels, waits anew or leaves is not woken; the last one takes the question back") {
    Relay relay(3);
    relay.ask_all(request_of(Command::wait, {"k"}));
    const auto watch = relay.says.next<Watch>();
    relay.merger.request(relay.clients[0], request_of(Command::cancel_wait));
    CHECK(relay.says.replies ==
          decltype(relay.says.replies){{relay.clients[0], std::string(1, '\1')}});
    relay.merger.request(relay.clients[1], request_of(Command::wait, {"other"}));
    CHECK(relay.says.next<Watch>().key == "other");
    relay.merger.leave(relay.clients[2]);
    const auto unwatch = relay.says.next<Unwatch>();
    CHECK(unwatch.ticket == watch.ticket);
    CHECK(unwatch.key == "k");
    relay.merger.take(Appeared{watch.ticket, 0});  // it was under way
    CHECK(relay.says.replies.size() == 1);
}

TEST_CASE("one push wakes one client, and the others wait for the next") {
    Relay relay(3);
    relay.merger.request(relay.clients[0], request_of(Command::wait, {"q", "more"}));
    relay.merger.request(relay.clients[1], request_of(Command::wait, {"q"}));
    relay.merger.request(relay.clients[2], request_of(Command::wait, {"q"}));
    const auto first = relay.says.next<Watch>();
    CHECK(relay.says.next<Watch>().key == "more");
    CHECK(first.after == 0);
    relay.merger.take(Appeared{first.ticket, 41});
    CHECK(relay.says.replies ==
          decltype(relay.says.replies){{relay.clients[1], kReady}});  // not who waits for more
    const auto second = relay.says.next<Watch>();
    CHECK(second.after == 41);
    relay.merger.take(Appeared{second.ticket, 42});
    CHECK(relay.says.replies.back().first == relay.clients[2]);
    const auto third = relay.says.next<Watch>();
    relay.merger.take(Appeared{third.ticket, 43});
    CHECK(relay.says.replies.size() == 2);  // the first still waits for "more"
    CHECK(relay.says.asked.empty());
}

TEST_CASE("equal reads go up one at a time, and what comes meanwhile goes together") {
    Relay relay(8);
    relay.ask_all(request_of(Command::get, {"k"}));
    const auto first = relay.says.next<Ask>();
    CHECK(relay.says.asked.empty());
    for (const auto client : relay.clients)
        CHECK(relay.merger.busy(client));
    relay.merger.take(Reply{first.ticket, "old"});
    CHECK(relay.says.replies == decltype(relay.says.replies){{relay.clients[0], "old"}});
    const auto second = relay.says.next<Ask>();
    relay.merger.leave(relay.clients[7]);
    relay.merger.take(Reply{second.ticket, "new"});  // asked after all of them
    CHECK(relay.says.replies.size() == 7);
    CHECK(relay.says.replies.back().second == "new");
    CHECK(relay.says.asked.empty());
    relay.merger.request(relay.clients[0], request_of(Command::get, {"k"}));
    relay.merger.request(relay.clients[1], request_of(Command::get, {"other"}));
    relay.merger.request(relay.clients[2], request_of(Command::check, {"k"}));
    CHECK(relay.says.asked.size() == 3);  // nothing is remembered, and others do not wait
}

TEST_CASE("reads whose clients have all left are not sent again") {
    Relay relay(2);
    relay.ask_all(request_of(Command::key_count));
    const auto first = relay.says.next<Ask>();
    relay.merger.leave(relay.clients[0]);
    relay.merger.leave(relay.clients[1]);
    relay.merger.take(Reply{first.ticket, number_bytes(1)});
    CHECK(relay.says.asked.empty());
    CHECK(relay.says.replies.empty());
}

TEST_CASE("ADDs are summed up, and each client gets its own sum") {
    Relay relay(4);
    for (int i = 0; i < 4; ++i)
        relay.merger.request(relay.clients[i],
                             request_of(Command::add, {"n"}, {}, i == 3 ? -10 : i + 1));
    const auto first = relay.says.next<Ask>();
    CHECK(first.request.number == 1);
    relay.merger.leave(relay.clients[1]);  // what it added stays added
    relay.merger.take(Reply{first.ticket, number_bytes(101)});
    const auto rest = relay.says.next<Ask>();
    CHECK(rest.request.number == 2 + 3 - 10);
    relay.merger.take(Reply{rest.ticket, number_bytes(static_cast<std::uint64_t>(101 - 5))});
    const decltype(relay.says.replies) expected = {{relay.clients[0], number_bytes(101)},
                                                   {relay.clients[2], number_bytes(106)},
                                                   {relay.clients[3], number_bytes(96)}};
    CHECK(relay.says.replies == expected);
}

TEST_CASE("of several ADDs that are refused, each is tried alone") {
    Relay relay(4);
    relay.ask_all(request_of(Command::add, {"n"}, {}, INT64_MAX));
    relay.merger.take(Reply{relay.says.next<Ask>().ticket, number_bytes(0)});
    for (int i = 1; i < 4; ++i) {  // two of these would be beyond 63 bits
        const auto ask = relay.says.next<Ask>();
        CHECK(ask.request.number == INT64_MAX);
        relay.merger.take(Refused{ask.ticket});
    }
    CHECK(relay.says.dropped ==
          std::vector<RequestMerger::Client>(relay.clients.begin() + 1, relay.clients.end()));
    Relay small(3);
    small.ask_all(request_of(Command::add, {"n"}, {}, 1));
    small.merger.take(Reply{small.says.next<Ask>().ticket, number_bytes(1)});
    small.merger.take(Refused{small.says.next<Ask>().ticket});  // both others together
    const auto alone = small.says.next<Ask>();
    CHECK(alone.request.number == 1);
    small.merger.take(Reply{alone.ticket, number_bytes(2)});
    small.merger.take(Refused{small.says.next<Ask>().ticket});
    CHECK(small.says.dropped == std::vector<RequestMerger::Client>{small.clients[2]});
    CHECK(small.says.asked.empty());
}

TEST_CASE("what cannot be merged goes alone, in the order of its client") {
    Relay relay(2);
    relay.merger.request(relay.clients[0], request_of(Command::set, {"k"}, {"v"}));
    CHECK_FALSE(relay.merger.busy(relay.clients[0]));
    CHECK(relay.says.next<Ask>().ticket == relay.clients[0]);
    relay.ask_all(request_of(Command::compare_set, {"k"}, {"", "x"}));
    const auto first = relay.says.next<Ask>();
    const auto second = relay.says.next<Ask>();
    relay.merger.take(Reply{second.ticket, "2"});
    relay.merger.take(Reply{first.ticket, "1"});
    CHECK(relay.says.replies ==
          decltype(relay.says.replies){{relay.clients[1], "2"}, {relay.clients[0], "1"}});
    relay.merger.request(relay.clients[0], request_of(Command::multi_get));
    relay.merger.take(Reply{relay.says.next<Ask>().ticket, ""});  // of no keys: no bytes
    CHECK_FALSE(relay.merger.busy(relay.clients[0]));
    relay.merger.request(relay.clients[0], request_of(Command::ping, {}, {}, 0x01020304));
    CHECK(relay.says.replies.back().second == "\x04\x03\x02\x01");
}

TEST_CASE("a refused request costs its client the connection, whatever it was") {
    Relay relay(4);
    relay.merger.request(relay.clients[0], request_of(Command::append, {"k"}, {"v"}));
    relay.merger.take(Refused{relay.says.next<Ask>().ticket});
    relay.merger.request(relay.clients[1], request_of(Command::queue_pop, {"q"}));
    relay.merger.take(Refused{relay.says.next<Ask>().ticket});
    relay.merger.request(relay.clients[2], request_of(Command::barrier, {"b"}, {}, 9));
    relay.merger.take(Refused{relay.says.next<Ask>().ticket});
    relay.merger.request(relay.clients[3], request_of(Command::wait, {"k"}));
    CHECK(relay.says.next<Unwatch>().key == "b");
    relay.merger.take(Refused{relay.says.next<Watch>().ticket});
    CHECK(relay.says.dropped == relay.clients);
    relay.merger.take(Refused{12345});
    CHECK(relay.says.dropped.size() == 4);
}

TEST_CASE("a barrier is a wait: it may be cancelled, and its reply comes later") {
    Relay relay(2);
    relay.ask_all(request_of(Command::barrier, {"b"}, {}, 3));
    const auto first = relay.says.next<Ask>();
    const auto second = relay.says.next<Ask>();
    CHECK_FALSE(relay.merger.busy(relay.clients[0]));
    relay.merger.request(relay.clients[1], request_of(Command::cancel_wait));
    CHECK(relay.says.next<Unwatch>().ticket == second.ticket);
    relay.merger.take(Reply{second.ticket, kReady});  // was under way
    CHECK(relay.says.replies.size() == 1);
    relay.merger.take(Reply{first.ticket, kReady});
    CHECK(relay.says.replies.back() == std::pair(relay.clients[0], kReady));
    relay.merger.leave(relay.clients[0]);
    CHECK(relay.says.asked.empty());
}

}  // namespace store_relay_test
