// Which tokens are whose, what files of tokens and states of readers may say, and how files are
// read: what of a reader of tokens is pure.
#include "../fuzz/token_data_check.hpp"
#include "data/choose_reading.hpp"
#include "data/permutation.hpp"
#include "data/read_plan.hpp"
#include "fuzz_seeds.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session/batch.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>

namespace token_rows_test {

using namespace autolaunch;
using namespace autolaunch::data;

namespace {

std::vector<TokenShard> shards_of(std::initializer_list<std::int64_t> tokens) {
    std::vector<TokenShard> shards;
    for (const std::int64_t count : tokens) {
        const std::string name = std::to_string(shards.size()) + ".bin";
        shards.push_back({name, "/data/" + name, static_cast<std::uint64_t>(count) * 2, count});
    }
    return shards;
}

/// Of each row of the list, the numbers that its tokens have in all shards joined.
std::vector<std::vector<std::int64_t>> tokens_of(RowList& list,
                                                 const std::vector<TokenShard>& shards,
                                                 std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> before{0};
    for (const TokenShard& shard : shards)
        before.push_back(before.back() + shard.tokens);
    std::vector<std::vector<std::int64_t>> rows;
    std::vector<Piece> pieces;
    for (std::int64_t row = first; row < first + count; ++row) {
        list.find(row, pieces);
        auto& tokens = rows.emplace_back();
        for (const Piece& piece : pieces) {
            REQUIRE(piece.first >= 0);
            REQUIRE(piece.count > 0);
            REQUIRE(piece.first + piece.count <= shards[piece.shard].tokens);
            for (std::int64_t i = 0; i < piece.count; ++i)
                tokens.push_back(before[piece.shard] + piece.first + i);
        }
    }
    return rows;
}

std::string refusal(const std::function<void()>& call, ErrorCode code) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.code() == code);
        return error.what();
    }
    return "nothing was thrown";
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
    std::string bytes(1024, '\0');
    const std::int32_t numbers[] = {magic, version, tokens};
    std::copy_n(reinterpret_cast<const char*>(numbers), sizeof numbers, bytes.data());
    return bytes;
}

ReaderState sample_state() {
    ReaderState state;
    state.epoch = 2;
    state.row = 1234;
    state.length = 1024;
    state.global_batch = 480;
    state.order = Order::shuffled;
    state.seed = 0xffffffffffffffffu;
    state.shards = {{"fineweb_train_000001.bin", {}, 200001024, 0},
                    {"fineweb_train_000002.bin", {}, 100001024, 0}};
    state.beginnings = {1, 0xfedcba9876543210u};
    state.digest = digest_of(state.shards, state.beginnings);
    return state;
}

}  // namespace

TEST_CASE("a permutation has each number once, and another order for another key") {
    for (const std::uint64_t count : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 63u, 64u, 65u, 1000u, 4097u}) {
        std::set<std::vector<std::uint64_t>> orders;
        for (std::uint64_t key = 0; key < 20; ++key) {
            const Permutation permutation(count, key_of(7, key, 3));
            std::vector<std::uint64_t> order(count), sorted;
            for (std::uint64_t i = 0; i < count; ++i)
                order[i] = permutation(i);
            sorted = order;
            std::sort(sorted.begin(), sorted.end());
            for (std::uint64_t i = 0; i < count; ++i)
                REQUIRE(sorted[i] == i);
            orders.insert(order);
        }
        CHECK(orders.size() >= (count < 16 ? (count + 1) / 2 : 20));
    }
    // Far more than memory holds.
    const Permutation large((std::uint64_t{1} << 40) + 1, 5);
    CHECK(large(0) <= std::uint64_t{1} << 40);
    CHECK(large(1) != large(2));
}

// Numbers that never change: a checkpoint's reader goes on with a later version's.
TEST_CASE("a permutation is the one that is written down") {
    CHECK(mix(1) == 0x5692161d100b05e5u);
    const Permutation permutation(10, key_of(1, 2, 3));
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < 10; ++i)
        order.push_back(permutation(i));
    CHECK(order == std::vector<std::uint64_t>{1, 3, 6, 2, 0, 4, 8, 9, 5, 7});
}

// A place in the first half and the place after it: neither says where a thing goes.
TEST_CASE("a permutation spreads what was side by side") {
    constexpr std::uint64_t kCount = 10000;
    const Permutation permutation(kCount, key_of(1, 0, 1));
    double distance = 0;
    std::uint64_t upper = 0;
    for (std::uint64_t i = 0; i + 1 < kCount; ++i) {
        const auto a = static_cast<double>(permutation(i)),
                   b = static_cast<double>(permutation(i + 1));
        distance += a < b ? b - a : a - b;
        upper += i < kCount / 2 && a >= kCount / 2 ? 1 : 0;
    }
    CHECK(distance / kCount == doctest::Approx(kCount / 3.0).epsilon(0.05));  // of random pairs
    CHECK(static_cast<double>(upper) == doctest::Approx(kCount / 4.0).epsilon(0.1));
}

TEST_CASE("with join every token is a target in each epoch, but the first, and windows follow") {
    for (const std::int64_t length : {1, 2, 3, 7, 10, 23})
        for (const auto& shards : {shards_of({24}), shards_of({5, 1, 40, 2, 2, 30}),
                                   shards_of({0, 13, 0, 0, 12, 0}), shards_of({1, 1, 25, 1, 1})}) {
            std::int64_t all = 0;
            for (const TokenShard& shard : shards)
                all += shard.tokens;
            RowList list(Windows(shards, length, 4, Boundary::join), Order::sequential, 0);
            CAPTURE(length);
            REQUIRE(list.rows_per_epoch() == (all - 1 + length - 1) / length);
            const auto rows = tokens_of(list, shards, 0, 2 * list.rows_per_epoch());
            for (std::size_t row = 0; row < rows.size(); ++row) {
                const std::int64_t j = static_cast<std::int64_t>(row) % list.rows_per_epoch();
                std::vector<std::int64_t> expected(static_cast<std::size_t>(length) + 1);
                std::iota(expected.begin(), expected.end(), std::min(j * length, all - 1 - length));
                REQUIRE(rows[row] == expected);
            }
        }
}

TEST_CASE("no window lies in two shards with separate, and no batch with drop_tail") {
    const auto shards = shards_of({24, 41, 30});
    RowList separate(Windows(shards, 10, 2, Boundary::separate), Order::sequential, 0);
    std::vector<std::int64_t> begins;
    for (const auto& row : tokens_of(separate, shards, 0, separate.rows_per_epoch()))
        begins.push_back(row.front());
    CHECK(begins == std::vector<std::int64_t>{0, 10, 13, 24, 34, 44, 54, 65, 75, 84});

    RowList drops(Windows(shards, 10, 2, Boundary::drop_tail), Order::sequential, 0);
    begins.clear();
    for (const auto& row : tokens_of(drops, shards, 0, drops.rows_per_epoch()))
        begins.push_back(row.front());
    CHECK(begins == std::vector<std::int64_t>{0, 10, 24, 34, 44, 54, 65, 75});
}

TEST_CASE("a shuffled epoch has the windows of a sequential one, in another order each time") {
    const auto shards = shards_of({500, 0, 1, 320, 77, 905});
    for (const Boundary boundary : {Boundary::join, Boundary::separate, Boundary::drop_tail}) {
        const auto used = boundary == Boundary::join ? shards : shards_of({500, 320, 77, 905});
        const Windows windows(used, 6, 4, boundary);
        RowList sequential(windows, Order::sequential, 0), shuffled(windows, Order::shuffled, 9),
            other(windows, Order::shuffled, 10);
        const std::int64_t count = sequential.rows_per_epoch();
        auto expected = tokens_of(sequential, used, 0, count);
        const auto first = tokens_of(shuffled, used, 0, count),
                   second = tokens_of(shuffled, used, count, count);
        CHECK(first != expected);
        CHECK(first != second);
        CHECK(first != tokens_of(other, used, 0, count));
        CHECK(first == tokens_of(shuffled, used, 0, count));  // and back
        std::sort(expected.begin(), expected.end());
        for (auto rows : {first, second}) {
            std::sort(rows.begin(), rows.end());
            CHECK(rows == expected);
        }
    }
}

TEST_CASE("what is read for a batch has its rows, and what follows in a file is one extent") {
    const auto shards = shards_of({100, 200, 300});
    for (const Order order : {Order::sequential, Order::shuffled}) {
        RowList list(Windows(shards, 10, 4, Boundary::join), order, 1);
        ReadPlan plan;
        plan_reads(plan, list, 3, 1, 1024, 2);
        plan_reads(plan, list, 4, 39, 1024, 2);
        REQUIRE(plan.rows() == 40);
        const auto expected = tokens_of(list, shards, 3, 40);
        for (std::size_t row = 0; row < plan.rows(); ++row) {
            std::vector<std::int64_t> tokens;
            for (std::size_t i = plan.first_part[row]; i < plan.first_part[row + 1]; ++i) {
                const RowPart& part = plan.parts[i];
                const Extent& extent = plan.extents[part.extent];
                REQUIRE(part.begin >= extent.begin);
                REQUIRE(part.begin + part.bytes <= extent.end);
                const std::int64_t before = extent.shard == 0 ? 0 : extent.shard == 1 ? 100 : 300;
                for (std::uint64_t byte = part.begin; byte < part.begin + part.bytes; byte += 2)
                    tokens.push_back(before + static_cast<std::int64_t>(byte - 1024) / 2);
            }
            CHECK(tokens == expected[row]);
        }
        if (order == Order::sequential)
            CHECK(plan.extents ==
                  std::vector<Extent>{{0, 1084, 1224}, {1, 1024, 1424}, {2, 1024, 1286}});
    }
}

TEST_CASE("data that is too short is refused with the numbers") {
    CHECK(refusal(
              [] {
                  Windows(shards_of({5, 5}), 10, 1, Boundary::join);
              },
              ErrorCode::invalid_argument) ==
          "the data has 10 tokens in all, and a window of length 10 takes 11");
    CHECK(refusal(
              [] {
                  Windows(shards_of({50, 10}), 10, 1, Boundary::separate);
              },
              ErrorCode::invalid_argument) ==
          "/data/1.bin has 10 tokens, and a window of length 10 takes 11");
    CHECK(refusal(
              [] {
                  Windows(shards_of({41, 40}), 10, 4, Boundary::drop_tail);
              },
              ErrorCode::invalid_argument) ==
          "/data/1.bin has 40 tokens, and a global batch of 4 rows of length 10 takes 41");
}

TEST_CASE("a header says how many tokens of which width, or is refused with both numbers") {
    const auto parsed = parse_token_header(header(20240520, 1, 3), 1030, "/d/a.bin", Format::bin);
    CHECK(parsed.type == TokenType::u16);
    CHECK(parsed.tokens == 3);
    CHECK(parsed.bytes == 1024);
    CHECK(parse_token_header(header(20240801, 7, 3), 1036, "/d/a", Format::automatic).type ==
          TokenType::u32);
    CHECK(parse_token_header("To be", 5, "/d/a.txt", Format::automatic).tokens == 5);
    CHECK(parse_token_header(header(20240520, 1, 3), 1030, "/d/a.bin", Format::text).tokens ==
          1030);

    const auto refused = [](const std::string& bytes, std::uint64_t file_bytes) {
        return refusal(
            [&] { parse_token_header(bytes, file_bytes, "/d/a.bin", Format::automatic); },
            ErrorCode::corrupt);
    };
    CHECK(refused("To be", 5) == "/d/a.bin has 5 bytes, and the header of a .bin has 1024");
    CHECK(refused(header(20240522, 1, 3), 1030) ==
          "/d/a.bin is no file of tokens: it begins with 20240522, and not with 20240520 or "
          "20240801");
    CHECK(refused(header(20240520, 2, 3), 1030) ==
          "/d/a.bin is of version 2 of its format (GPT-2, uint16), and only 1 is known");
    CHECK(refused(header(20240520, 1, 4), 1030) ==
          "/d/a.bin has 1030 bytes, and by its header 4 tokens, which take 1032");
    CHECK(refused(header(20240801, 7, 1), 1030) ==
          "/d/a.bin has 1030 bytes, and by its header 1 tokens, which take 1028");
    CHECK(refused(header(20240520, 1, 0), 1024) == "/d/a.bin: its header says 0 tokens");
    CHECK(refused(header(20240520, 1, -1), 1022) == "/d/a.bin: its header says -1 tokens");
}

TEST_CASE("a state has no beginning of a file that nobody has seen, and goes on with any") {
    ReaderState state = sample_state();
    state.beginnings[1] = std::nullopt;
    state.digest = digest_of(state.shards, state.beginnings);
    const std::string text = to_text(state);
    CHECK(text.find("\"version\":2") != std::string::npos);
    const ReaderState read = reader_state_from(text);
    CHECK(read.beginnings == state.beginnings);
    CHECK_NOTHROW(check_goes_on(read, sample_state()));
    CHECK_NOTHROW(check_goes_on(sample_state(), read));
    ReaderState other = sample_state();
    other.beginnings[0] = 9;
    other.digest = digest_of(other.shards, other.beginnings);
    CHECK_THROWS_AS(check_goes_on(read, other), Error);
    std::string old = text;
    old.replace(old.find("\"version\":2"), 11, "\"version\":1");
    CHECK(refusal([&] { reader_state_from(old); }, ErrorCode::corrupt).find("begin is ") !=
          std::string::npos);
}

TEST_CASE("what comes is listed in the order in which it does, and nothing else is a listing") {
    const StreamListing listing{.is_file = false, .files = {{"b c/1", 5}, {"a", 0}}};
    CHECK(as_text(listing) == "autolaunch stream 1 folder 2 5\n5 b%20c/1\n0 a\n");
    CHECK(parse_stream_listing(as_text(listing)) == listing);
    const StreamListing one{.is_file = true, .files = {{"w.bin", 7}}};
    CHECK(parse_stream_listing(as_text(one)) == one);
    for (const char* text :
         {"", "autolaunch stream 1 folder 0 0", "autolaunch stream 2 folder 0 0\n",
          "autolaunch stream 1 pipe 0 0\n", "autolaunch stream 1 folder 1 5\n",
          "autolaunch stream 1 folder 1 5\n5 a", "autolaunch stream 1 folder 1 4\n5 a\n",
          "autolaunch stream 1 folder 2 5\n5 a\n0 a\n", "autolaunch stream 1 folder 1 5\n05 a\n",
          "autolaunch stream 1 folder 1 5\n5 ../a\n", "autolaunch stream 1 folder 1 5\n5 /a\n",
          "autolaunch stream 1 folder 1 5\n5 a b\n", "autolaunch stream 1 folder 1 5\n5 %6\n",
          "autolaunch stream 1 folder 1 5\n5 %61\n", "autolaunch stream 1 file 1 5\n5 a/b\n",
          "autolaunch stream 1 folder 1 9223372036854775808\n9223372036854775808 a\n"}) {
        CAPTURE(text);
        CHECK(refusal([&] { parse_stream_listing(text); }, ErrorCode::corrupt)
                  .starts_with("this is no listing of data that comes: "));
    }
    const StreamFailure failure{"a\nb", "ask"};
    CHECK(as_text(failure) == "autolaunch stream failed 1\na b\nask\n");
    CHECK(parse_stream_failure(as_text(failure)) == StreamFailure{"a b", "ask"});
    CHECK_FALSE(parse_stream_failure("autolaunch stream failed 1\na b\n"));
    CHECK_FALSE(parse_stream_failure(""));
}

TEST_CASE("a reader's state says what it went by, and what differs is named") {
    const ReaderState state = sample_state();
    const ReaderState read = reader_state_from(to_text(state));
    CHECK(read.epoch == 2);
    CHECK(read.row == 1234);
    CHECK(read.seed == state.seed);
    CHECK(read.digest == state.digest);
    CHECK_NOTHROW(check_goes_on(read, state));

    const auto differs = [&](const std::function<void(ReaderState&)>& change) {
        ReaderState now = state;
        change(now);
        now.digest = digest_of(now.shards, now.beginnings);
        const std::string what = refusal([&] { check_goes_on(state, now); }, ErrorCode::mismatch);
        REQUIRE(what.starts_with("the reader cannot go on from this state: "));
        return what.substr(41);
    };
    CHECK(differs([](ReaderState& now) { now.length = 512; }) == "length was 1024 and is 512");
    CHECK(differs([](ReaderState& now) { now.seed = 1; }) ==
          "seed was 18446744073709551615 and is 1");
    CHECK(differs([](ReaderState& now) { now.order = Order::sequential; }) ==
          "order was shuffled and is sequential");
    CHECK(differs([](ReaderState& now) { now.boundary = Boundary::separate; }) ==
          "boundary was join and is separate");
    CHECK(differs([](ReaderState& now) { now.shards[1].bytes += 2; }) ==
          "fineweb_train_000002.bin had 100001024 bytes and has 100001026");
    CHECK(differs([](ReaderState& now) { now.beginnings[0] = 3; }) ==
          "fineweb_train_000001.bin begins with other bytes than it had");
    CHECK(differs([](ReaderState& now) {
              now.shards.erase(now.shards.begin());
              now.beginnings.erase(now.beginnings.begin());
          }) == "fineweb_train_000001.bin is missing");
    CHECK(differs([](ReaderState& now) {
              now.shards.pop_back();
              now.beginnings.pop_back();
          }) == "fineweb_train_000002.bin is missing");
    CHECK(differs([](ReaderState& now) {
              now.shards.insert(now.shards.begin(), {"a.bin", {}, 1, 0});
              now.beginnings.insert(now.beginnings.begin(), 0);
          }) == "a.bin is new");
    CHECK(differs([](ReaderState& now) { now.shards[1].name = "z.bin"; }) ==
          "fineweb_train_000002.bin is missing");

    ReaderState larger = state;
    larger.global_batch = 960;  // a larger batch of the same rows
    CHECK_NOTHROW(check_goes_on(state, larger));
    ReaderState dropping = state;
    dropping.boundary = larger.boundary = Boundary::drop_tail;
    CHECK(refusal([&] { check_goes_on(dropping, larger); }, ErrorCode::mismatch)
              .ends_with("global_batch was 480 and is 960"));
}

TEST_CASE("what is no state is refused") {
    const std::string text = to_text(sample_state());
    const auto refused = [](const std::string& changed) {
        return refusal([&] { reader_state_from(changed); }, ErrorCode::corrupt);
    };
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = text;
        REQUIRE(changed.find(from) != changed.npos);
        return changed.replace(changed.find(from), from.size(), to);
    };
    const std::string begin = "this is no state of a reader of tokens: ";
    CHECK(refused("").starts_with(begin));
    CHECK(refused("[]").starts_with(begin));
    CHECK(refused(std::string(10000, '[')) == begin + "it nests too deep");
    CHECK(refused(with("\"row\":1234", "\"row\":-1")) == begin + "row is -1");
    CHECK(refused(with("\"row\":1234", "\"row\":1.5")).starts_with(begin));
    CHECK(refused(with("\"row\":1234,", "")).starts_with(begin));
    CHECK(refused(with("shuffled", "random")) == begin + "\"random\" is not known");
    CHECK(refused(with("000002", "000003")) == begin + "its digest is not that of its files");
    CHECK(refused(with("200001024", "200001026")) == begin + "its digest is not that of its files");
    CHECK(refused(with("000002", "000000")) == begin + "its files are not in order");
    CHECK(refusal([&] { reader_state_from(with("\"version\":1", "\"version\":3")); },
                  ErrorCode::unsupported) ==
          "this state of a reader of tokens is of version 3, and only 1 and 2 are known");
}

TEST_CASE("how files are read follows from where they lie and how large they are") {
    constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
    const auto by = [](const ReadingFacts& facts) {
        return choose_reading(ReadBy::automatic, facts).by;
    };
    CHECK(by({.data_bytes = 4 * kGib, .available_bytes = 8 * kGib}) == ReadBy::mapping);
    CHECK(by({.data_bytes = 5 * kGib, .available_bytes = 8 * kGib}) == ReadBy::direct);
    CHECK(by({.data_bytes = 5 * kGib}) == ReadBy::direct);
    CHECK(by({.is_network = true, .data_bytes = 1, .available_bytes = kGib}) == ReadBy::page_cache);
    CHECK(by({.is_memory = true, .data_bytes = 5 * kGib, .available_bytes = 8 * kGib}) ==
          ReadBy::mapping);
    const ReadingFacts shuffled{.data_bytes = 5 * kGib,
                                .largest_shard = 2 * kGib,
                                .random_bytes = 2050,
                                .available_bytes = 8 * kGib};
    CHECK(by(shuffled) == ReadBy::mapping);
    ReadingFacts other = shuffled;
    other.largest_shard = 3 * kGib;
    CHECK(by(other) == ReadBy::direct);
    other = shuffled;
    other.random_bytes = 256 << 10;
    CHECK(by(other) == ReadBy::direct);
    CHECK(choose_reading(ReadBy::direct, {.is_network = true}).why == "as asked");
    CHECK(choose_reading(ReadBy::automatic, {.data_bytes = 5 * kGib, .available_bytes = 8 * kGib})
              .why == "5.0 GiB of data, 8.0 GiB of memory available");

    const std::string meminfo = "MemTotal:  64 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n";
    CHECK(available_memory(meminfo, {}) == 2048 * 1024);
    CHECK(available_memory(meminfo, 4096 * 1024) == 2048 * 1024);
    CHECK(available_memory(meminfo, 1000) == 1000);
    CHECK(available_memory("", 1000) == 1000);
    CHECK(available_memory("", {}) == 0);
}

// AUTOLAUNCH_WRITE_SEEDS=1 writes them anew after a format changed.
TEST_CASE("files of tokens and states of readers are so or refused, with any bit flipped") {
    const std::filesystem::path folder =
        std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) / "tests/fuzz/seeds/token_data";
    const std::pair<const char*, std::string> seeds[] = {
        {"gpt2.bin", header(20240520, 1, 2) + std::string("\1\0\2\0", 4)},
        {"llama3.bin", header(20240801, 7, 1) + std::string("\1\0\1\0", 4)},
        {"cut.bin", header(20240520, 1, 3) + std::string("\1\0\2\0", 4)},
        {"state.json", to_text(sample_state())},
        {"listing",
         as_text(StreamListing{.is_file = false, .files = {{"a b/0.bin", 1028}, {"c", 0}}})},
        {"failed", as_text(StreamFailure{"/data/a was changed while it was staged", "ask"})},
        {"text.txt", "To be, or not to be\n"}};
    for (const auto& [name, content] : seeds) {
        if (std::getenv("AUTOLAUNCH_WRITE_SEEDS"))
            std::ofstream(folder / name, std::ios::binary) << content;
        CHECK(read_file(folder / name) == content);
    }
    std::size_t known = 0;
    CHECK(check_seeds("token_data", [&](const std::string& bytes) {
              known += check_token_data(bytes) ? 1 : 0;
          }) == 7);
    CHECK(known > 1000);
}

}  // namespace token_rows_test
