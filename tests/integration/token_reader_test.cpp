// Tokens from files to ranks: every way of reading gives the same ones, a reader goes on exactly,
// on any number of ranks, and files that are not as they were are named.
#include "fsdp_ranks.hpp"

#include "base/io_queue.hpp"

#include <autolaunch/data/staged_files.hpp>
#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace token_reader_test {

using namespace autolaunch;
using namespace autolaunch::data;
using fsdp::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

using Tokens = std::vector<std::int32_t>;

std::int32_t token_at(std::int64_t i) {
    return static_cast<std::int32_t>((static_cast<std::uint64_t>(i) * 2654435761u >> 7) % 50257);
}

template <class Token>
void write_shard(const fs::path& path, std::int64_t first, std::int64_t count) {
    constexpr bool is_u16 = sizeof(Token) == 2;
    std::int32_t header[256] = {is_u16 ? 20240520 : 20240801, is_u16 ? 1 : 7,
                                static_cast<std::int32_t>(count)};
    std::vector<Token> tokens;
    for (std::int64_t i = first; i < first + count; ++i)
        tokens.push_back(static_cast<Token>(token_at(i)));
    std::ofstream out(path, std::ios::binary);
    if (sizeof(Token) > 1)
        out.write(reinterpret_cast<const char*>(header), sizeof header);
    out.write(reinterpret_cast<const char*>(tokens.data()),
              static_cast<std::streamsize>(tokens.size() * sizeof(Token)));
    REQUIRE(out.good());
}

/// Three shards of odd sizes, of which the second is shorter than a window of 64.
template <class Token>
std::int64_t write_set(const fs::path& folder) {
    const std::int64_t counts[] = {20011, 37, 30000};
    std::int64_t first = 0;
    for (int i = 0; i < 3; ++i) {
        write_shard<Token>(folder / ("s" + std::to_string(i) + (sizeof(Token) > 1 ? ".bin" : "")),
                           first, counts[i]);
        first += counts[i];
    }
    return first;
}

struct Copy {
    std::int64_t first_row = 0, rows = 0, global_rows = 0, epoch = 0;
    Tokens inputs, targets;
    bool operator==(const Copy&) const = default;
};

std::optional<Copy> next_of(TokenReader& reader) {
    const auto batch = reader.next();
    if (!batch)
        return std::nullopt;
    return Copy{batch->first_row,
                batch->rows,
                batch->global_rows,
                batch->epoch,
                {batch->inputs.begin(), batch->inputs.end()},
                {batch->targets.begin(), batch->targets.end()}};
}

/// A step's global batch, put together of what each rank of a world has.
Copy global_batch(const TokenReaderOptions& options, int world, const std::string& from,
                  std::string& after) {
    Copy all;
    for (int rank = 0; rank < world; ++rank) {
        TokenReaderOptions mine = options;
        mine.rank = rank;
        mine.world_size = world;
        TokenReader reader(mine);
        if (!from.empty())
            reader.restore(from);
        const auto batch = next_of(reader);
        REQUIRE(batch);
        if (rank == 0)
            all.first_row = batch->first_row;
        REQUIRE(batch->first_row == all.first_row + all.rows);
        all.rows += batch->rows;
        all.global_rows = batch->global_rows;
        all.epoch = batch->epoch;
        all.inputs.insert(all.inputs.end(), batch->inputs.begin(), batch->inputs.end());
        all.targets.insert(all.targets.end(), batch->targets.begin(), batch->targets.end());
        REQUIRE((rank == 0 || after == reader.state()));  // the same on every rank
        after = reader.state();
    }
    return all;
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

const std::map<ReadBy, const char*> kWays = {
    {ReadBy::mapping, "mapping"}, {ReadBy::direct, "direct"}, {ReadBy::page_cache, "page cache"}};

template <class Token>
void check_sequential(const fs::path& folder, ReadBy way) {
    const std::int64_t all = write_set<Token>(folder);
    const bool is_text = sizeof(Token) == 1;
    TokenReader reader({.data = folder.string(),
                        .length = 64,
                        .global_batch = 24,
                        .rank = 1,
                        .world_size = 5,
                        .read_by = way});
    CHECK(reader.token_count() == all);
    CHECK(reader.rows_of_rank() == 5);
    const std::int64_t rows = (all - 1 + 63) / 64;
    CHECK(reader.rows_per_epoch() == rows);
    for (int step = 0; step < 100; ++step) {  // over the ends of two epochs
        const auto batch = next_of(reader);
        REQUIRE(batch);
        REQUIRE(batch->first_row == step * 24 + 5);
        REQUIRE(batch->rows == 5);
        for (std::int64_t row = 0; row < batch->rows; ++row) {
            const std::int64_t window = (batch->first_row + row) % rows;
            const std::int64_t begin = std::min(window * 64, all - 1 - 64);
            for (std::int64_t i = 0; i < 64; ++i) {
                const auto at = static_cast<std::size_t>(row * 64 + i);
                const auto is = [&](std::int32_t token) { return is_text ? token & 255 : token; };
                REQUIRE(batch->inputs[at] == is(token_at(begin + i)));
                REQUIRE(batch->targets[at] == is(token_at(begin + i + 1)));
            }
        }
    }
    MESSAGE(reader.reading_by());
}

}  // namespace

TEST_CASE("rows are the files' tokens, whichever way and of whatever width") {
    if (!make_uring_queue(1))
        MESSAGE("skipped: io_uring, which this kernel or build has not; threads read");
    for (const auto& [way, name] : kWays) {
        CAPTURE(name);
        const TemporaryDirectory text, gpt2, llama3;
        check_sequential<std::uint8_t>(text.path(), way);
        check_sequential<std::uint16_t>(gpt2.path(), way);
        check_sequential<std::uint32_t>(llama3.path(), way);
    }
}

TEST_CASE("a run whose ranks change at every step has the batches of one that was not broken off") {
    const TemporaryDirectory folder;
    write_set<std::uint16_t>(folder.path());
    for (const Order order : {Order::sequential, Order::shuffled}) {
        const TokenReaderOptions options{.data = folder.path().string(),
                                         .length = 1000,
                                         .global_batch = 9,
                                         .order = order,
                                         .seed = 3};
        TokenReader whole(options);
        std::string state;
        for (int step = 0; step < 24; ++step) {  // four epochs
            const int world = 1 + step % 8;
            CAPTURE(step);
            const auto expected = next_of(whole);
            REQUIRE(expected);
            std::string after;
            REQUIRE(global_batch(options, world, state, after) == *expected);
            REQUIRE(after == whole.state());
            state = after;
        }
    }
}

TEST_CASE("every way of reading shuffles alike, and goes on in place") {
    const TemporaryDirectory folder;
    write_set<std::uint16_t>(folder.path());
    std::map<std::int64_t, std::vector<Copy>> runs;
    for (const auto& [way, name] : kWays)
        for (const int prefetch : {0, 1, 7}) {
            CAPTURE(name);
            TokenReader reader({.data = (folder.path() / "s[02].bin").string(),
                                .length = 128,
                                .global_batch = 32,
                                .rank = 2,
                                .world_size = 3,
                                .order = Order::shuffled,
                                .seed = 5,
                                .boundary = Boundary::separate,
                                .read_by = way,
                                .prefetch = prefetch});
            std::vector<Copy> run;
            std::string middle;
            for (int step = 0; step < 40; ++step) {
                if (step == 17)
                    middle = reader.state();
                run.push_back(*next_of(reader));
            }
            reader.restore(middle);
            for (std::size_t step = 17; step < 40; ++step)
                REQUIRE(*next_of(reader) == run[step]);
            auto& first = runs.emplace(0, run).first->second;
            CHECK(run == first);
        }
}

TEST_CASE("raw rows are the converted ones, and lie in the page cache") {
    const TemporaryDirectory folder;
    write_set<std::uint16_t>(folder.path());
    const TokenReaderOptions options{.data = folder.path().string(),
                                     .length = 300,
                                     .global_batch = 10,
                                     .order = Order::shuffled,
                                     .read_by = ReadBy::mapping};
    TokenReader raw(options), converted(options);
    for (int step = 0; step < 30; ++step) {
        const auto rows = raw.next_raw();
        const auto batch = converted.next();
        REQUIRE((rows && batch && rows->rows == batch->rows));
        for (std::int64_t row = 0; row < rows->rows; ++row) {
            const auto tokens = rows->row<std::uint16_t>(row);
            REQUIRE(tokens.size() == 301);
            for (std::size_t i = 0; i < 300; ++i) {
                const auto at = static_cast<std::size_t>(row) * 300 + i;
                REQUIRE(tokens[i] == batch->inputs[at]);
                REQUIRE(tokens[i + 1] == batch->targets[at]);
            }
        }
        CHECK(refusal([&] { (void)rows->row<std::uint32_t>(0); }, ErrorCode::mismatch) ==
              "the files' tokens have 2 bytes, not 4");
    }
    Tokens inputs(3000), targets(3000), small(2999);
    CHECK_THROWS_AS(raw.next_into(small, targets), Error);
    const auto given = raw.next_into(inputs, targets);
    REQUIRE(given);
    CHECK(given->inputs.data() == inputs.data());
    CHECK(next_of(converted)->inputs == inputs);
}

TEST_CASE("after the last epoch there is nothing more, and its last batch is what is left") {
    const TemporaryDirectory folder;
    write_shard<std::uint16_t>(folder.path() / "a.bin", 0, 1001);  // 10 rows of 100
    for (const int world : {1, 4}) {
        std::int64_t rows = 0, batches = 0;
        for (int rank = 0; rank < world; ++rank) {
            TokenReader reader({.data = folder.path() / "a.bin",
                                .length = 100,
                                .global_batch = 4,
                                .rank = rank,
                                .world_size = world,
                                .epochs = 3});
            std::int64_t last = 4;
            while (const auto batch = reader.next()) {
                CHECK(last == 4);
                rows += batch->rows;
                last = batch->global_rows;
                ++batches;
            }
            CHECK(last == 2);
            CHECK_FALSE(reader.next());
            CHECK(reader.next_row() == 30);
        }
        CHECK(rows == 30);
        CHECK(batches == 8 * world);
    }
}

TEST_CASE("what is no data set is refused, and what is not taken is said") {
    const TemporaryDirectory folder;
    const auto refused = [&](const fs::path& data, ErrorCode code, Format format = {}) {
        std::string what = refusal(
            [&] { TokenReader({.data = data, .format = format, .length = 10, .global_batch = 1}); },
            code);
        for (std::size_t at; (at = what.find(folder.path().string())) != what.npos;)
            what.replace(at, folder.path().string().size(), "D");
        return what;
    };
    const auto in = [&](const char* name) { return folder.path() / name; };
    CHECK(refused(in(""), ErrorCode::invalid_argument) == "there are no files of tokens at D/");
    CHECK(refused(in("none"), ErrorCode::invalid_argument) == "there is no data at D/none");
    CHECK(refused(in("*.bin"), ErrorCode::invalid_argument) ==
          "there are no files of tokens at D/*.bin");
    write_shard<std::uint16_t>(in("x_train_1.bin"), 0, 100);
    write_shard<std::uint16_t>(in("x_train_0.bin"), 0, 100);
    std::ofstream(in("SHA256SUMS")) << "not tokens\n";
    std::ofstream(in(".hidden")) << "nor this\n";
    TokenReader reader({.data = folder.path(), .length = 10, .global_batch = 1});
    CHECK(reader.passed_over() == std::vector<std::string>{".hidden", "SHA256SUMS"});
    REQUIRE(reader.shards().size() == 2);
    CHECK(reader.shards()[0].name == "x_train_0.bin");
    CHECK(reader.shards()[0].path == in("x_train_0.bin"));

    write_shard<std::uint16_t>(in("x_val_0.bin"), 0, 100);
    CHECK(refused(folder.path(), ErrorCode::invalid_argument) ==
          "D has files to train on and files to validate with (_train, _val)");
    write_shard<std::uint32_t>(in("x_train_2.bin"), 0, 100);
    CHECK(refused(in("x_train_*"), ErrorCode::mismatch) ==
          "D/x_train_2.bin has tokens of 4 bytes, and D/x_train_0.bin of 2 bytes");
    fs::resize_file(in("x_train_1.bin"), 1222);
    CHECK(refused(in("x_train_[01].bin"), ErrorCode::corrupt) ==
          "D/x_train_1.bin has 1222 bytes, and by its header 100 tokens, which take 1224");
    CHECK(refused(in("SHA256SUMS"), ErrorCode::corrupt, Format::bin)
              .starts_with("D/SHA256SUMS has 11 bytes, and the header"));
    REQUIRE(::mkfifo(in("pipe").c_str(), 0600) == 0);
    CHECK(refused(in("pipe"), ErrorCode::invalid_argument) == "D/pipe is not a regular file");
    CHECK(refusal([&] { TokenReader({.data = in("x_val_0.bin")}); }, ErrorCode::invalid_argument) ==
          "TokenReaderOptions::length is 0, and may be 1 to 2147483647");
}

TEST_CASE(
    "a state of other data is refused with the file's name, and of the same elsewhere taken") {
    const TemporaryDirectory folder, elsewhere;
    write_set<std::uint16_t>(folder.path());
    const auto reader_at = [](const fs::path& path) {
        return TokenReader({.data = path / "s*.bin", .length = 10, .global_batch = 7});
    };
    TokenReader reader = reader_at(folder.path());
    for (int step = 0; step < 5; ++step)
        (void)reader.next();
    const std::string state = reader.state();
    const auto expected = next_of(reader);

    fs::copy(folder.path(), elsewhere.path());
    TokenReader other = reader_at(elsewhere.path());
    other.restore(state);
    CHECK(next_of(other) == expected);

    const auto refused = [&] {
        return refusal([&] { reader_at(folder.path()).restore(state); }, ErrorCode::mismatch);
    };
    const std::string begin = "the reader cannot go on from this state: ";
    fs::remove(folder.path() / "s1.bin");
    CHECK(refused() == begin + "s1.bin is missing");
    write_shard<std::uint16_t>(folder.path() / "s1.bin", 0, 36);
    CHECK(refused() == begin + "s1.bin had 1098 bytes and has 1096");
    write_shard<std::uint16_t>(folder.path() / "s1.bin", 5, 37);
    CHECK(refused() == begin + "s1.bin begins with other bytes than it had");
}

TEST_CASE("a file that is cut while it is read is named, and ends no process") {
    for (const auto& [way, name] : kWays) {
        const TemporaryDirectory folder;
        const fs::path path = folder.path() / "a.bin";
        write_shard<std::uint16_t>(path, 0, 400000);
        TokenReader reader(
            {.data = path, .length = 1000, .global_batch = 4, .read_by = way, .prefetch = 1});
        CAPTURE(name);
        REQUIRE(reader.next());
        fs::resize_file(path, 500000);
        const std::string what = refusal(
            [&] {
                while (reader.next()) {
                }
            },
            ErrorCode::corrupt);
        CHECK(what == path.string() + " had 801024 bytes when the reader was made, and has 500000");
        CHECK(refusal([&] { (void)reader.next(); }, ErrorCode::corrupt) == what);
    }
}

TEST_CASE("a token that the vocabulary has not is named with its place") {
    const TemporaryDirectory folder;
    const fs::path path = folder.path() / "a.bin";
    write_shard<std::uint32_t>(path, 0, 1000);
    const auto refused = [&](std::int64_t vocabulary) {
        TokenReader reader(
            {.data = path, .length = 7, .global_batch = 5, .vocabulary = vocabulary});
        return refusal(
            [&] {
                for (int step = 0; step < 30; ++step)
                    (void)reader.next();
            },
            ErrorCode::corrupt);
    };
    CHECK(refused(0) == "nothing was thrown");
    CHECK(refused(50257) == "nothing was thrown");
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const std::uint32_t wrong = 50257, negative = 0x80000001u;
    file.seekp(1024 + 4 * 500).write(reinterpret_cast<const char*>(&wrong), 4).flush();
    CHECK(refused(0) == "nothing was thrown");
    CHECK(refused(50257) == path.string() + ": token 500 is 50257, and the vocabulary has 50257");
    file.seekp(1024 + 4 * 999).write(reinterpret_cast<const char*>(&negative), 4).flush();
    CHECK(refused(0) ==
          path.string() + ": token 999 is 2147483649, and the vocabulary has 2147483647");
}

TEST_CASE("in memory there is no O_DIRECT, and the reader says how it reads instead") {
    const fs::path memory = "/dev/shm/autolaunch-tokens-" + std::to_string(::getpid());
    struct statfs facts = {};
    if (::statfs("/dev/shm", &facts) != 0 || facts.f_type != 0x01021994) {
        MESSAGE("skipped: /dev/shm is no tmpfs");
        return;
    }
    write_shard<std::uint16_t>(memory, 0, 5000);
    TokenReader mapped({.data = memory, .format = Format::bin, .length = 10, .global_batch = 3});
    CHECK(mapped.reading_by() == "mapping: in memory already");
    TokenReader direct({.data = memory,
                        .format = Format::bin,
                        .length = 10,
                        .global_batch = 3,
                        .read_by = ReadBy::direct});
    for (int step = 0; step < 200; ++step)
        REQUIRE(next_of(direct) == next_of(mapped));
    fs::remove(memory);
    const std::string words = direct.reading_by();
    // Newer kernels' tmpfs takes the flag.
    CHECK((words.starts_with("O_DIRECT by ") ||
           (words.starts_with("page cache by ") &&
            words.ends_with(", for the file system refuses O_DIRECT: as asked"))));
    MESSAGE(words);
}

// As a container that forbids io_uring does; in a process of its own, for there is no way back.
TEST_CASE("where io_uring is refused, threads read the same, and the reader says so") {
    const TemporaryDirectory folder;
    write_set<std::uint16_t>(folder.path());
    const TokenReaderOptions options{
        .data = folder.path(), .length = 100, .global_batch = 30, .read_by = ReadBy::direct};
    const auto expected = [&] {
        TokenReader reader(options);
        return next_of(reader);
    }();  // and its thread is over: a fork has no other
    const pid_t child = ::fork();
    if (child == 0) {
        const sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog program = {4, const_cast<sock_filter*>(filter)};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            ::_exit(1);
        TokenReader reader(options);
        if (next_of(reader) != expected)
            ::_exit(2);
        ::_exit(reader.reading_by().find(" by threads, for this ") == std::string::npos ? 3 : 0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

namespace al = autolaunch;

namespace {

// [tokens]
al::data::TokenReader open_tokens(const al::Session& session) {
    return al::data::TokenReader({.data = al::data::staged_data("tokens") / "fineweb_train_*.bin",
                                  .length = 1024,
                                  .global_batch = 480,
                                  .rank = session.rank(),
                                  .world_size = session.world_size(),
                                  .order = al::data::Order::shuffled,
                                  .seed = 1,
                                  .vocabulary = 50257});
}
// [/tokens]

}  // namespace

TEST_CASE("the guide's reader takes the shards to train on out of the staged folder") {
    const TemporaryDirectory folder;
    write_shard<std::uint16_t>(folder.path() / "fineweb_train_000002.bin", 300000, 300000);
    write_shard<std::uint16_t>(folder.path() / "fineweb_train_000001.bin", 0, 300000);
    write_shard<std::uint16_t>(folder.path() / "fineweb_val_000000.bin", 0, 10);
    ::setenv("AUTOLAUNCH_DATA_TOKENS", folder.path().c_str(), 1);
    const auto session = al::Session::from_environment();
    TokenReader reader = open_tokens(session);
    ::unsetenv("AUTOLAUNCH_DATA_TOKENS");
    CHECK(reader.token_count() == 600000);
    CHECK(reader.shards()[0].name == "fineweb_train_000001.bin");
    const auto batch = reader.next();
    REQUIRE(batch);
    CHECK(batch->inputs.size() == 480 * 1024);
}

TEST_CASE("staged data is where the launcher says, and what to write is said where it is not") {
    ::setenv("AUTOLAUNCH_DATA_MY_TOKENS", "/stage/x", 1);
    CHECK(staged_data("my_Tokens") == "/stage/x");
    ::unsetenv("AUTOLAUNCH_DATA_MY_TOKENS");
    try {
        (void)staged_data("my_tokens");
        CHECK(false);
    } catch (const Error& error) {
        CHECK(error.what() == std::string("no data of the name \"my_tokens\" is on this node: "
                                          "AUTOLAUNCH_DATA_MY_TOKENS is not set"));
        CHECK(error.hint().find("stage_in: [{from: /shared/my_tokens, as: my_tokens}]") !=
              std::string::npos);
    }
    CHECK_THROWS_AS(staged_data("a b"), Error);
}

namespace {

/// The set of write_set(), of which files come one by one as the launcher shows them.
class ComingSet {
public:
    ComingSet() {
        fs::create_directories(root_.path() / "whole");
        fs::create_directories(tree());
        tokens_ = write_set<std::uint16_t>(whole());
        write_listing();
        ::setenv("AUTOLAUNCH_STREAMS", root_.path().c_str(), 1);
        ::setenv("AUTOLAUNCH_DATA_TOKENS", tree().c_str(), 1);
    }
    ComingSet(const ComingSet&) = delete;
    ComingSet& operator=(const ComingSet&) = delete;
    ~ComingSet() {
        ::unsetenv("AUTOLAUNCH_STREAMS");
        ::unsetenv("AUTOLAUNCH_DATA_TOKENS");
    }

    fs::path whole() const { return root_.path() / "whole"; }
    fs::path tree() const { return root_.path() / "tokens" / "tree"; }
    fs::path failed() const { return root_.path() / "failed"; }
    std::int64_t tokens() const { return tokens_; }
    void bring(const char* name) { fs::create_hard_link(whole() / name, tree() / name); }
    void take_back(const char* name) { fs::remove(tree() / name); }
    void write_listing() {
        std::uintmax_t bytes = 0;
        std::string lines;
        for (const char* name : {"s0.bin", "s1.bin", "s2.bin"}) {
            bytes += fs::file_size(whole() / name);
            lines += std::to_string(fs::file_size(whole() / name)) + ' ' + name + '\n';
        }
        std::ofstream(tree().parent_path() / "listing")
            << "autolaunch stream 1 folder 3 " << bytes << '\n'
            << lines;
    }
    TokenReaderOptions options() const {
        TokenReaderOptions options;
        options.data = tree().string();
        options.length = 64;
        options.global_batch = 8;
        options.epochs = 1;
        return options;
    }

private:
    TemporaryDirectory root_;
    std::int64_t tokens_ = 0;
};

void after(std::chrono::milliseconds time, const std::function<void()>& act, std::jthread& in) {
    in = std::jthread([time, act] {
        std::this_thread::sleep_for(time);
        act();
    });
}

}  // namespace

TEST_CASE("rows of data that comes are those of data that is there") {
    for (const auto& [way, name] : kWays) {
        CAPTURE(name);
        ComingSet set;
        std::jthread bringer;
        after(
            std::chrono::milliseconds(30), [&] { set.bring("s0.bin"); }, bringer);
        TokenReaderOptions options = set.options();
        options.read_by = way;
        TokenReader reader(options);  // waits for the first
        CHECK(reader.token_count() == set.tokens());
        CHECK(reader.reading_by().find("2 of 3 files are still to come") != std::string::npos);
        options.data = set.whole().string();
        TokenReader whole(options);
        const auto same = [&] {
            const auto batch = next_of(reader);
            CHECK(batch == next_of(whole));
            return batch.has_value();
        };
        // What lies in the first is given out, though what follows is not there.
        for (int step = 0; step < 20010 / 64 / 8; ++step)
            REQUIRE(same());
        after(
            std::chrono::milliseconds(60), [&] { set.bring("s1.bin"), set.bring("s2.bin"); },
            bringer);
        const auto late = reader.next();
        REQUIRE(late);
        CHECK(late->waited_seconds > 0.01);
        whole.next();
        while (same()) {
        }
        CHECK(reader.reading_by().find("to come") == std::string::npos);
        CHECK(reader.digest() == whole.digest());
        CHECK(reader.state() == whole.state());
    }
}

TEST_CASE("a reader goes on from where another one was before all was there") {
    ComingSet set;
    set.bring("s0.bin");
    std::string early;
    {
        TokenReader reader(set.options());
        for (int step = 0; step < 5; ++step)
            reader.next();
        early = reader.state();
        CHECK(early.find("\"version\":2") != std::string::npos);
        CHECK(early.find("\"begin\":\"\"") != std::string::npos);
    }  // its thread waits for a file, and not for long
    TokenReaderOptions options = set.options();
    TokenReader again(options);
    again.restore(early);
    CHECK(again.next_row() == 40);
    options.data = set.whole().string();
    TokenReader whole(options);
    whole.restore(early);
    CHECK(next_of(again) == next_of(whole));
    const std::string late = whole.state();
    CHECK(late.find("\"version\":1") != std::string::npos);
    again.restore(late);
    // The file is then another one than the state has seen.
    write_shard<std::uint16_t>(set.whole() / "s1.bin", 7, 37);
    set.bring("s1.bin");
    set.bring("s2.bin");
    CHECK(refusal(
              [&] {
                  while (again.next()) {
                  }
              },
              ErrorCode::mismatch) ==
          "the reader cannot go on from this state: s1.bin begins with other bytes than it had");
}

TEST_CASE("what does not come is said by a reader that waits for it") {
    ComingSet set;
    TokenReaderOptions options = set.options();
    options.patience = std::chrono::milliseconds(50);
    CHECK(refusal([&] { TokenReader reader(options); }, ErrorCode::timeout)
              .find("s0.bin was not there after 0.05") != std::string::npos);
    set.bring("s0.bin");
    options.patience = std::chrono::hours(1);
    TokenReader reader(options);
    std::jthread teller;
    after(
        std::chrono::milliseconds(30),
        [&] {
            std::ofstream(set.failed()) << "autolaunch stream failed 1\nthe server is away\nask\n";
        },
        teller);
    CHECK(refusal(
              [&] {
                  while (reader.next()) {
                  }
              },
              ErrorCode::closed)
              .find("s1.bin does not come: the server is away") != std::string::npos);
    fs::remove(set.failed());
    teller.join();
    // A file that is there is not what the listing said, or of another kind.
    TokenReader surprised(options);
    write_shard<std::uint16_t>(set.tree() / "s1.bin", 0, 38);
    CHECK(refusal(
              [&] {
                  while (surprised.next()) {
                  }
              },
              ErrorCode::corrupt)
              .find("s1.bin has 1100 bytes, and was to have 1098") != std::string::npos);
    set.take_back("s1.bin");
    TokenReader other(options);
    write_shard<std::uint32_t>(set.tree() / "s1.bin", 0, 37);
    CHECK(refusal(
              [&] {
                  while (other.next()) {
                  }
              },
              ErrorCode::mismatch)
              .find("s1.bin has tokens of 4 bytes, and") != std::string::npos);
    CHECK(refusal([&] { await_file(set.tree() / "s9.bin"); }, ErrorCode::invalid_argument)
              .find("none of that name comes") != std::string::npos);
    CHECK(await_file(set.whole() / "s0.bin") == 0);
    std::ofstream(set.tree().parent_path() / "listing") << "autolaunch stream 1 folder 1 9\n8 a\n";
    CHECK(refusal([&] { await_file(set.tree() / "s2.bin"); }, ErrorCode::corrupt)
              .find("its first line counts others") != std::string::npos);
}

TEST_CASE("files that come are found by a pattern, by a name and through links") {
    ComingSet set;
    set.bring("s0.bin");
    fs::create_symlink("s2.bin", set.tree() / "late.bin");
    TokenReaderOptions options = set.options();
    const auto names = [&](const std::string& data) {
        std::vector<std::string> found;
        options.data = (set.tree() / data).string();
        for (const TokenShard& shard : TokenReader(options).shards())
            found.push_back(shard.name);
        return found;
    };
    CHECK(names("s*.bin") == std::vector<std::string>{"s0.bin", "s1.bin", "s2.bin"});
    fs::create_symlink(".", set.tree() / "way");
    CHECK(names("way/s[02].bin") == std::vector<std::string>{"s0.bin", "s2.bin"});
    fs::remove(set.tree() / "way");
    CHECK(names("../tree/s[02]*") == std::vector<std::string>{"s0.bin", "s2.bin"});
    set.bring("s2.bin");
    CHECK(names("") == std::vector<std::string>{"late.bin", "s0.bin", "s1.bin", "s2.bin"});
    set.take_back("s2.bin");
    std::jthread bringer;
    after(
        std::chrono::milliseconds(20), [&] { set.bring("s2.bin"); }, bringer);
    CHECK(await_file(set.tree() / "late.bin") > 0);
    CHECK(names("s2.bin") == std::vector<std::string>{"s2.bin"});
    const auto files = staged_files("tokens");
    REQUIRE(files.size() == 3);
    CHECK(files[1].path == set.tree() / "s1.bin");
    CHECK(files[1].bytes == 1098);
    ::setenv("AUTOLAUNCH_DATA_TOKENS", set.whole().c_str(), 1);
    CHECK(staged_files("tokens").at(2).bytes == files[2].bytes);
}

}  // namespace token_reader_test
