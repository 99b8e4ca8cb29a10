#include "store/budget.hpp"
#include "store/key_value_table.hpp"
#include "store/protocol.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace store_table_test {

using namespace autolaunch;
using namespace autolaunch::store;

namespace {

constexpr std::size_t kPlenty = 1U << 20;
using Waiters = KeyValueTable::Waiters;

std::string message(Command command) { return std::string(1, static_cast<char>(command)); }

std::string validation() {
    std::string out = message(Command::validate);
    append_u32(out, kValidationMagic);
    return out;
}

std::string set_message(const std::string& key, const std::string& value) {
    std::string out = message(Command::set);
    append_bytes(out, key);
    append_bytes(out, value);
    return out;
}

/// What comes out of a parser that is fed `bytes` in pieces.
std::vector<Request> parse(const std::string& bytes, std::size_t piece, const Limits& limits = {}) {
    RequestParser parser(limits);
    std::vector<Request> requests;
    Request request;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        parser.feed(std::string_view(bytes).substr(at, piece));
        while (parser.next(request))
            requests.push_back(request);
    }
    return requests;
}

}  // namespace

TEST_CASE("a waiter is woken once all its keys exist, whatever makes them") {
    KeyValueTable table(kPlenty);
    std::int64_t sum = 0;
    std::string held;
    CHECK_FALSE(table.wait(7, {"a", "b", "c", "d"}));
    CHECK(table.set("a", "1").empty());
    CHECK(table.add("b", 1, sum).empty());
    CHECK(table.append("c", "x").empty());
    CHECK(table.compare_set("d", "", "y", held) == Waiters{7});
    CHECK(table.set("a", "2").empty());  // woken once only
    CHECK(table.wait(7, {"a", "b", "c", "d"}));
    CHECK(table.wait(7, {}));
}

TEST_CASE("a canceled wait wakes nobody, and other waiters stay") {
    KeyValueTable table(kPlenty);
    CHECK_FALSE(table.wait(1, {"a"}));
    CHECK_FALSE(table.wait(2, {"a"}));
    table.cancel_wait(1);
    table.cancel_wait(99);
    CHECK(table.set("a", "") == Waiters{2});
}

TEST_CASE("a new wait replaces the earlier one, and a key named twice counts once") {
    KeyValueTable table(kPlenty);
    CHECK_FALSE(table.wait(1, {"a"}));
    CHECK_FALSE(table.wait(1, {"b", "b"}));
    CHECK(table.set("a", "").empty());
    CHECK(table.set("b", "") == Waiters{1});
}

TEST_CASE("add keeps decimal numbers and refuses what is none") {
    KeyValueTable table(kPlenty);
    std::int64_t sum = 0;
    table.add("n", 5, sum);
    table.add("n", -8, sum);
    CHECK(sum == -3);
    CHECK(*table.find("n") == "-3");
    table.set("n", "9223372036854775807");
    CHECK_THROWS_AS(table.add("n", 1, sum), Error);
    table.set("n", "nine");
    CHECK_THROWS_AS(table.add("n", 1, sum), Error);
    CHECK(*table.find("n") == "nine");
}

TEST_CASE("compare_set answers as c10d's does") {
    KeyValueTable table(kPlenty);
    std::string held;
    table.compare_set("k", "expected", "desired", held);
    CHECK(held == "expected");
    CHECK(table.find("k") == nullptr);
    table.compare_set("k", "", "first", held);
    CHECK(held == "first");
    table.compare_set("k", "other", "second", held);
    CHECK(held == "first");
    table.compare_set("k", "first", "second", held);
    CHECK(held == "second");
}

TEST_CASE("a queue wakes one waiter an element, in order of arrival") {
    KeyValueTable table(kPlenty);
    CHECK_FALSE(table.wait(1, {"q"}));
    CHECK_FALSE(table.wait(2, {"q"}));
    CHECK(table.queue_push("q", "x") == Waiters{1});
    CHECK(table.queue_pop("q") == "x");
    CHECK(table.queue_push("q", "y") == Waiters{2});
    CHECK(table.queue_push("q", "z").empty());
    CHECK(table.queue_length("q") == 2);
    CHECK(table.wait(3, {"q"}));
    CHECK(table.queue_pop("q") == "y");
    CHECK(table.queue_pop("q") == "z");
    CHECK_FALSE(table.queue_pop("q").has_value());
}

TEST_CASE("a barrier lets everybody go when the last one arrives") {
    KeyValueTable table(kPlenty);
    Waiters woken;
    CHECK_FALSE(table.barrier(1, "b", 3, woken));
    CHECK_FALSE(table.barrier(2, "b", 3, woken));
    CHECK(table.barrier(3, "b", 3, woken));
    CHECK(woken == Waiters{1, 2});
}

TEST_CASE("the table refuses to grow past its limit, and gives back what is deleted") {
    KeyValueTable table(1000);
    table.set("k", std::string(800, 'x'));
    CHECK_THROWS_AS(table.set("other", std::string(400, 'x')), Error);
    CHECK_THROWS_AS(table.append("k", std::string(400, 'x')), Error);
    CHECK_THROWS_AS(table.queue_push("q", std::string(400, 'x')), Error);
    CHECK(table.find("k")->size() == 800);
    CHECK(table.erase("k"));
    CHECK_FALSE(table.erase("k"));
    CHECK(table.bytes() == 0);
    table.set("other", std::string(400, 'x'));
}

TEST_CASE("keys that are waited for have a bound of their own, and leave the table alone") {
    const auto budget = std::make_shared<Budget>(std::size_t{64} << 10);
    {
        KeyValueTable table(budget);
        std::vector<std::string> keys;
        for (int i = 0; i < 8; ++i)
            keys.push_back(std::string(300, static_cast<char>('a' + i)));
        CHECK_FALSE(table.wait(1, keys));
        const std::size_t one = budget->used();
        CHECK(one > 8 * 2 * 300);
        CHECK_THROWS_AS(table.wait(2, keys), Error);  // an eighth is 8 KiB
        CHECK(budget->used() == one);
        table.set(keys[0], std::string(16U << 10, 'v'));
        CHECK_FALSE(table.wait(2, {"who asks for little"}));
        table.cancel_wait(1);
        CHECK_FALSE(table.wait(3, {keys.begin() + 1, keys.end()}));
        for (int i = 1; i < 8; ++i)
            table.set(keys[static_cast<std::size_t>(i)], "v");
        table.cancel_wait(2);
        CHECK(budget->used() == table.bytes());
        CHECK(table.queue_push(std::string(1000, 'q'), "v").empty());
        CHECK(table.bytes() > 17000);
        const std::size_t with_queue = table.bytes();
        CHECK(table.queue_pop(std::string(1000, 'q')) == "v");
        CHECK(table.bytes() < with_queue - 1000);
    }
    CHECK(budget->used() == 0);
}

TEST_CASE("requests come out the same however the bytes are cut") {
    std::string bytes = validation() + set_message("key", std::string(300, 'v'));
    bytes += message(Command::multi_set);
    append_u64(bytes, 2);
    for (const char* text : {"a", "1", "b", ""})
        append_bytes(bytes, text);
    bytes += message(Command::key_count);
    bytes += message(Command::add);
    append_bytes(bytes, "n");
    append_u64(bytes, static_cast<std::uint64_t>(-2));
    for (const std::size_t piece :
         {std::size_t{1}, std::size_t{3}, std::size_t{64}, bytes.size()}) {
        const auto requests = parse(bytes, piece);
        REQUIRE(requests.size() == 5);
        CHECK(requests[1].keys == std::vector<std::string>{"key"});
        CHECK(requests[1].values[0].size() == 300);
        CHECK(requests[2].keys == std::vector<std::string>{"a", "b"});
        CHECK(requests[2].values == std::vector<std::string>{"1", ""});
        CHECK(requests[3].command == Command::key_count);
        CHECK(requests[4].number == -2);
    }
}

TEST_CASE("the old dialect is told by its first bytes") {
    std::string set = std::string(1, '\0');  // SET = 0 there
    append_bytes(set, "key");
    append_bytes(set, "value");
    const std::string count(1, '\6');  // GETNUMKEYS = 6
    for (const std::string& bytes : {set + count, count + set}) {
        const auto requests = parse(bytes, 1);
        REQUIRE(requests.size() == 2);
        const bool set_first = bytes[0] == '\0';
        CHECK(requests[set_first ? 0 : 1].command == Command::set);
        CHECK(requests[set_first ? 1 : 0].command == Command::key_count);
    }
    CHECK(command_code(Dialect::torch1, Command::delete_key) == 8);
    CHECK(command_code(Dialect::torch1, Command::cancel_wait) == -1);
    CHECK(command_code(Dialect::torch2_0, Command::delete_key) == 7);
    CHECK(command_code(Dialect::torch2_0, Command::cancel_wait) == 11);
    CHECK(command_code(Dialect::torch2_0, Command::ping) == -1);
    CHECK(command_code(Dialect::current, Command::barrier) == 18);
}

TEST_CASE("request 8 of an older client is DELETE_KEY alone and APPEND with a value") {
    std::string eight(1, '\x8');
    append_bytes(eight, "key");
    std::string with_value = eight;
    append_bytes(with_value, "value");

    auto requests = parse(eight, 1000);
    REQUIRE(requests.size() == 1);
    CHECK(requests[0].command == Command::delete_key);

    requests = parse(with_value, 1000);
    REQUIRE(requests.size() == 1);
    CHECK(requests[0].command == Command::append);
    CHECK(requests[0].values == std::vector<std::string>{"value"});

    // Once the dialect is settled, the bytes may come one by one.
    std::string seven(1, '\x7');
    append_bytes(seven, "key");
    requests = parse(seven + with_value + std::string(1, '\xb'), 1);
    REQUIRE(requests.size() == 3);
    CHECK(requests[0].command == Command::delete_key);
    CHECK(requests[1].command == Command::append);
    CHECK(requests[2].command == Command::cancel_wait);
}

TEST_CASE("garbage and excess are refused before memory is spent on them") {
    CHECK_THROWS_AS(parse("GET / HTTP/1.1\r\n\r\n", 64), Error);
    CHECK_THROWS_AS(parse(validation() + std::string(1, '\x7f'), 64), Error);
    std::string long_key = validation() + message(Command::get);
    append_u64(long_key, std::uint64_t{1} << 62);
    CHECK_THROWS_AS(parse(long_key, 64), Error);
    std::string many_keys = validation() + message(Command::wait);
    append_u64(many_keys, ~std::uint64_t{0});
    CHECK_THROWS_AS(parse(many_keys, 64), Error);
    Limits tight;
    tight.request_bytes = 100;
    CHECK_THROWS_AS(parse(validation() + set_message("key", std::string(98, 'v')), 64, tight),
                    Error);
    CHECK(parse(validation() + set_message("key", std::string(97, 'v')), 64, tight).size() == 2);
}

TEST_CASE("a watch sees keys, and each push to a queue once") {
    KeyValueTable table(kPlenty);
    CHECK_FALSE(table.watch(1, "k", 0).has_value());
    CHECK(table.set("k", "v") == Waiters{1});
    CHECK(table.watch(1, "k", 0) == 0);
    CHECK_FALSE(table.watch(1, "q", 0).has_value());
    CHECK_FALSE(table.watch(2, "q", 0).has_value());
    CHECK(table.queue_push("q", "first") == Waiters{1});
    const std::uint64_t push = table.push_count();
    CHECK(table.watch(3, "q", 0) == push);               // not empty
    CHECK_FALSE(table.watch(1, "q", push).has_value());  // that one it has seen
    CHECK(table.queue_push("q", "second") == Waiters{2});
    CHECK(table.watch(4, "q", push) == table.push_count());
    CHECK(table.rouse("q") == Waiters{1});
    CHECK(table.rouse("q").empty());  // nobody is left
    table.queue_pop("q");
    table.queue_pop("q");
    CHECK_FALSE(table.watch(1, "q", 0).has_value());
    CHECK(table.rouse("q").empty());  // empty
}

TEST_CASE("every request survives its encoding, and only whole ones are taken") {
    for (std::size_t code = 0; code < kCommandCount; ++code) {
        Request request;
        request.command = static_cast<Command>(code);
        request.keys = {"a", std::string("\0b", 2)};
        request.values = {"", std::string(300, 'v')};
        request.number = request.command == Command::validate || request.command == Command::ping
                             ? std::int64_t{kValidationMagic}
                             : -7;
        std::string bytes;
        append_request(bytes, request);
        const Request read = parse_request(bytes, {});
        std::string again;
        append_request(again, read);
        CHECK(again == bytes);
        CHECK_THROWS_AS(parse_request(bytes + "x", {}), Error);
        CHECK_THROWS_AS(parse_request(std::string_view(bytes).substr(0, bytes.size() - 1), {}),
                        Error);
    }
}

}  // namespace store_table_test
