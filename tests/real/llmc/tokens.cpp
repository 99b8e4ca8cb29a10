// llm.c's own loader of tokens (llmc/dataloader.h) beside TokenReader with Boundary::drop_tail: the
// same tokens in the same order, on worlds of 1, 2 and 4 ranks, over the ends of shards and epochs;
// and the time of both.
//   tokens FOLDER [ROUNDS]
// The folder is empty, and has shards afterwards.
#include "llmc/dataloader.h"

#include <autolaunch/data/token_reader.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace data = autolaunch::data;

void write_shard(const std::string& path, std::int32_t tokens, std::uint64_t seed) {
    std::vector<std::uint16_t> content(512 + static_cast<std::size_t>(tokens));
    const std::int32_t header[] = {20240520, 1, tokens};
    std::copy_n(reinterpret_cast<const std::uint16_t*>(header), 6, content.begin());
    for (std::size_t i = 512; i < content.size(); ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        content[i] = static_cast<std::uint16_t>((seed >> 33) % 50257);
    }
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(2 * content.size()));
}

struct Both {
    Both(const std::string& pattern, int rank, int world, std::size_t b, std::size_t t,
         data::ReadBy way)
        : ours({.data = pattern,
                .length = static_cast<std::int64_t>(t),
                .global_batch = static_cast<std::int64_t>(b) * world,
                .rank = rank,
                .world_size = world,
                .boundary = data::Boundary::drop_tail,
                .read_by = way}) {
        dataloader_init(&theirs, pattern.c_str(), b, t, rank, world, 0);
    }
    Both(const Both&) = delete;
    ~Both() { dataloader_free(&theirs); }
    DataLoader theirs = {};
    data::TokenReader ours;
};

long compare(const std::string& pattern, int rank, int world, data::ReadBy way) {
    constexpr std::size_t kB = 3, kT = 64;
    Both both(pattern, rank, world, kB, kT, way);
    const std::int64_t steps = 3 * both.ours.rows_per_epoch() / (3 * world) + 5;
    for (std::int64_t step = 0; step < steps; ++step) {
        dataloader_next_batch(&both.theirs);
        const auto batch = both.ours.next();
        if (!batch || batch->inputs.size() != kB * kT ||
            !std::equal(batch->inputs.begin(), batch->inputs.end(), both.theirs.inputs) ||
            !std::equal(batch->targets.begin(), batch->targets.end(), both.theirs.targets)) {
            std::printf("rank %d of %d: another batch at step %lld\n", rank, world,
                        static_cast<long long>(step));
            std::exit(1);
        }
    }
    return static_cast<long>(steps);
}

double seconds_of(const auto& step, std::int64_t steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i)
        step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const std::string& pattern, int rounds) {
    constexpr std::size_t kB = 64, kT = 1024;
    std::vector<double> theirs, ours;
    std::int64_t seen = 0, steps = 0;
    for (int round = 0; round < rounds; ++round) {
        Both both(pattern, 0, 1, kB, kT, data::ReadBy::mapping);
        steps = both.ours.rows_per_epoch() / static_cast<std::int64_t>(kB);
        theirs.push_back(seconds_of(
            [&] {
                dataloader_next_batch(&both.theirs);
                seen += both.theirs.targets[kB * kT - 1];
            },
            steps));
        ours.push_back(seconds_of([&] { seen -= both.ours.next()->targets.back(); }, steps));
    }
    std::sort(theirs.begin(), theirs.end());
    std::sort(ours.begin(), ours.end());
    const double tokens = static_cast<double>(steps * static_cast<std::int64_t>(kB * kT)) / 1e6;
    const double a = theirs[theirs.size() / 2], b = ours[ours.size() / 2];
    std::printf(
        "%.0f M tokens out of the page cache: llm.c's loader %.0f M tokens/s, TokenReader %.0f "
        "(%.2f x; medians of %d, in turns)\n",
        tokens, tokens / a, tokens / b, a / b, rounds);
    if (seen != 0)
        std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string folder = argv[1];
    for (int i = 0; i < 3; ++i)
        write_shard(folder + "/small_" + std::to_string(i) + ".bin", 20000 + 4567 * i,
                    static_cast<std::uint64_t>(i));
    long steps = 0;
    for (const auto way : {data::ReadBy::mapping, data::ReadBy::direct, data::ReadBy::page_cache})
        for (const int world : {1, 2, 4})
            for (int rank = 0; rank < world; ++rank)
                steps += compare(folder + "/small_*.bin", rank, world, way);
    std::printf("%ld batches of llm.c's loader and of TokenReader are equal\n", steps);
    for (int i = 0; i < 2; ++i)
        write_shard(folder + "/large_" + std::to_string(i) + ".bin", 100 << 20,
                    static_cast<std::uint64_t>(i));
    measure(folder + "/large_*.bin", argc > 2 ? std::atoi(argv[2]) : 5);
}
