// What ranks tell each other about a checkpoint: who gets which texts, what happens to errors, and
// that nobody holds more of the others' texts than the answer needs.

#include "checkpoint/agreement.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "shm_ranks.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <numeric>

namespace agreement_test {

using namespace autolaunch;
using autolaunch::test::run_process_ranks;
using autolaunch::test::run_thread_ranks;

namespace {

constexpr std::size_t kMiB = 1 << 20;

// Of different lengths, some of them empty, with zero bytes in them.
std::string text_of(int rank) {
    return rank % 3 == 1
               ? std::string()
               : std::string(static_cast<std::size_t>(rank) * 7 + 1, '\0') + std::to_string(rank);
}

std::vector<std::string> all_texts(int size) {
    std::vector<std::string> texts;
    for (int rank = 0; rank < size; ++rank)
        texts.push_back(text_of(rank));
    return texts;
}

void require(bool holds, const std::string& what) {
    if (!holds)
        throw std::runtime_error(what);
}

// The most memory that this process ever held.
std::size_t peak_bytes() {
    for (const std::string& line : split(read_file("/proc/self/status"), '\n'))
        if (line.starts_with("VmHWM:"))
            return std::stoull(line.substr(6)) << 10;
    throw std::runtime_error("no VmHWM in /proc/self/status");
}

/// What the call adds to it, on a rank whose own text is short.
template <typename Call>
std::size_t growth(const Call& call) {
    const std::size_t before = peak_bytes();
    call();
    return peak_bytes() - before;
}

}  // namespace

TEST_CASE("texts reach those who are to have them") {
    for (const int size : {1, 2, 3, 5, 8})
        run_thread_ranks(size, [&](Communicator& world) {
            const std::string mine = text_of(world.rank());
            const auto all = all_texts(size);
            for (int root = 0; root < size; ++root)
                require(gather_texts(world, mine, root) ==
                            (world.rank() == root ? all : std::vector<std::string>()),
                        "gather_texts at " + std::to_string(root));
            require(exchange_texts(world, mine) == all, "exchange_texts");
            require(exchange_texts(world, "") ==
                        std::vector<std::string>(static_cast<std::size_t>(size)),
                    "exchange_texts of nothing");
            require(merge_texts(world, mine,
                                [](const std::vector<std::string>& texts) {
                                    return join(texts, "|");
                                }) == join(all, "|"),
                    "merge_texts");
        });
}

TEST_CASE("a text is taken from whom each rank names") {
    for (const int size : {1, 2, 3, 5, 8})
        run_thread_ranks(size, [&](Communicator& world) {
            const auto rank = static_cast<std::size_t>(world.rank());
            const auto all = all_texts(size);
            std::vector<int> sources(static_cast<std::size_t>(size));
            std::iota(sources.begin(), sources.end(), 0);
            require(take_text(world, all[rank], sources) == all[rank], "its own");
            for (int& source : sources)
                source = (source + 1) % size;
            require(take_text(world, all[rank], sources) ==
                        all[static_cast<std::size_t>(sources[rank])],
                    "the next one's");
            for (int leader = 0; leader < size; ++leader) {
                for (int i = 0; i < size; ++i)
                    sources[static_cast<std::size_t>(i)] = i < leader ? i : leader;
                require(take_text(world, all[rank], sources) ==
                            all[static_cast<std::size_t>(sources[rank])],
                        "a leader's");
            }
        });
}

TEST_CASE("what cannot be merged is an error on every rank") {
    run_thread_ranks(3, [](Communicator& world) {
        try {
            merge_texts(world, text_of(world.rank()), [](const auto&) -> std::string {
                throw Error(ErrorCode::corrupt, "not a text");
            });
            throw std::runtime_error("nothing was thrown");
        } catch (const Error& error) {
            require(error.code() == ErrorCode::corrupt, "its code");
            require(error.what() ==
                        std::string(world.rank() == 0 ? "not a text" : "rank 0: not a text"),
                    error.what());
        }
        require(world.all_reduce_value(std::int64_t{1}, ReduceOp::sum) == 3, "and they go on");
    });
}

// One long text of six ranks' was six long ones on each of them, by padding.
TEST_CASE("a long text takes its own length, and only where it is received") {
    const std::vector<int> statuses = run_process_ranks(6, [](Communicator& world) {
        const std::string mine(world.rank() == 1 ? 48 * kMiB : 1, 'x');
        std::size_t grown = growth([&] { gather_texts(world, mine, 0); });
        require(world.rank() <= 1 || grown < 24 * kMiB,
                "gather_texts: " + std::to_string(grown / kMiB) + " MiB");
        grown = growth([&] { merge_texts(world, mine, [](const auto&) { return "merged"; }); });
        require(world.rank() <= 1 || grown < 24 * kMiB,
                "merge_texts: " + std::to_string(grown / kMiB) + " MiB");
        grown = growth([&] { exchange_texts(world, mine); });
        require(grown < 144 * kMiB, "exchange_texts: " + std::to_string(grown / kMiB) + " MiB");
    });
    CHECK(statuses == std::vector<int>(6, 0));
}

}  // namespace agreement_test
