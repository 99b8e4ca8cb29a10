// What TokenReader gives, beside raw reads of the same bytes.
//   bench_token_reader FOLDER [MEBIBYTES] [ROUNDS] [ROWS] [LENGTH]
// Writes four shards of llm.c's .bin into FOLDER (1024 MiB in all; they stay, and are used again),
// and reads them whole, ROUNDS (7) times each way, in turns; medians in GB/s of the files' bytes,
// as one rank with batches of ROWS (64) x LENGTH (1024) tokens. Each way of reading has its floor:
//   memory   files are in the page cache. One thread goes over all bytes (an XOR of its words).
//            floor: over a mapping whose pages are there already; also a mapping that is new.
//   shuffled the same of rows in random order within each file.
//   int32    inputs and targets of each row are written. floor: the same by a loop that a compiler
//            vectorises, over such a mapping; then both with the rows of each file in random order.
//   disk     what of the files the page cache has is dropped first, as far as the kernel does.
//            floor: O_DIRECT, 32 reads of 512 KiB at once, in order, by io_uring.
//   filled   the same, and the bytes come through the page cache. floor: read() of 1 MiB, as dd.
#include "seconds_since.hpp"

#include "base/file_io.hpp"
#include "base/io_queue.hpp"
#include "base/text.hpp"

#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace al = autolaunch;
namespace fs = std::filesystem;
using al::bench::seconds_since;

constexpr int kShards = 4;

struct Bench {
    std::vector<std::string> files;
    std::string pattern;
    std::uint64_t bytes = 0;  ///< of all files
    std::int64_t rows = 64;
    std::int64_t length = 1024;
    std::uint64_t seen = 0;  ///< so that nothing is optimised away
};

long long number(const char* text) {
    long long value = 0;
    if (!al::parse_integer(text, value) || value < 1 || value > (1 << 20))
        throw std::invalid_argument(std::string(text) + " is not a number from 1 to 1048576");
    return value;
}

void write_shard(const std::string& path, std::uint64_t bytes, std::uint64_t seed) {
    const auto tokens = static_cast<std::int32_t>((bytes - 1024) / 2);
    std::error_code absent;
    if (fs::file_size(path, absent) == 1024 + static_cast<std::uint64_t>(tokens) * 2 && !absent)
        return;
    std::string content(1024 + static_cast<std::size_t>(tokens) * 2, '\0');
    const std::int32_t header[] = {20240520, 1, tokens};
    std::memcpy(content.data(), header, sizeof header);
    for (std::size_t at = 1024; at + 8 <= content.size(); at += 8) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t bits = seed >> 1 & 0x7fff7fff7fff7fffu;
        std::memcpy(content.data() + at, &bits, 8);
    }
    const al::UniqueFd fd = al::open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    al::write_all(fd.get(), content, path);
    if (::fsync(fd.get()) != 0)
        throw al::SystemError(errno, "sync " + path);
}

std::uint64_t xor_of(const std::byte* from, std::size_t bytes) {
    std::uint64_t parts[8] = {};
    for (; bytes >= sizeof parts; from += sizeof parts, bytes -= sizeof parts) {
        std::uint64_t words[8];
        std::memcpy(words, from, sizeof words);
        for (int i = 0; i < 8; ++i)
            parts[i] ^= words[i];
    }
    std::uint64_t all = 0;
    for (const std::uint64_t part : parts)
        all ^= part;
    return all;
}

/// A mapping of each file, as whoever needs no library makes one.
class Mapping {
public:
    Mapping(const std::string& path, bool populate) : fd_(al::open_file(path, O_RDONLY)) {
        bytes_ = static_cast<std::size_t>(fs::file_size(path));
        start_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | (populate ? MAP_POPULATE : 0),
                        fd_.get(), 0);
        if (start_ == MAP_FAILED)
            throw al::SystemError(errno, "map " + path);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { ::munmap(start_, bytes_); }
    const std::byte* start() const { return static_cast<const std::byte*>(start_); }
    std::size_t bytes() const { return bytes_; }

private:
    al::UniqueFd fd_;
    void* start_ = nullptr;
    std::size_t bytes_ = 0;
};

/// Of all of the process's threads, which a machine's load does not change.
double cpu_seconds() {
    struct rusage used = {};
    ::getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

struct Cost {
    double seconds = 0;
    double cpu = 0;
    Cost& operator+=(const Cost& other) {
        seconds += other.seconds;
        cpu += other.cpu;
        return *this;
    }
};

Cost cost_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = cpu_seconds();
    work();
    return {seconds_since(begin), cpu_seconds() - cpu};
}

Cost floor_of_memory(Bench& bench, bool populated) {
    Cost cost;
    for (const std::string& file : bench.files) {
        std::unique_ptr<Mapping> mapping;
        if (populated)
            mapping = std::make_unique<Mapping>(file, true);
        cost += cost_of([&] {
            if (!populated)
                mapping = std::make_unique<Mapping>(file, false);
            bench.seen += xor_of(mapping->start(), mapping->bytes());
            if (!populated)
                mapping.reset();
        });
    }
    return cost;
}

/// Where the rows of a file begin that a reader of `tokens` a row gives, in random order.
std::vector<const std::byte*> shuffled_rows(const Mapping& mapping, std::size_t tokens) {
    std::vector<const std::byte*> rows;
    for (std::size_t at = 1024; at + (tokens + 1) * 2 <= mapping.bytes(); at += tokens * 2)
        rows.push_back(mapping.start() + at);
    std::shuffle(rows.begin(), rows.end(), std::mt19937_64(1));
    return rows;
}

Cost floor_of_shuffled(Bench& bench) {
    const auto length = static_cast<std::size_t>(bench.length);
    Cost cost;
    for (const std::string& file : bench.files) {
        const Mapping mapping(file, true);
        const auto rows = shuffled_rows(mapping, length);
        cost += cost_of([&] {
            for (const std::byte* const start : rows)
                bench.seen += xor_of(start, length * 2);
        });
    }
    return cost;
}

/// The plainest loop: each token, and the one behind it.
void write_int32(const std::byte* start, std::size_t count, std::int32_t* inputs,
                 std::int32_t* targets) {
    const auto* tokens = reinterpret_cast<const std::uint16_t*>(start);
    for (std::size_t i = 0; i < count; ++i) {
        inputs[i] = tokens[i];
        targets[i] = tokens[i + 1];
    }
}

Cost floor_of_int32(Bench& bench) {
    const auto count = static_cast<std::size_t>(bench.rows * bench.length);
    std::vector<std::int32_t> inputs(count), targets(count);
    Cost cost;
    for (const std::string& file : bench.files) {
        const Mapping mapping(file, true);
        const std::size_t all = (mapping.bytes() - 1024) / 2;
        cost += cost_of([&] {
            for (std::size_t at = 0; at + count + 1 <= all; at += count) {
                write_int32(mapping.start() + 1024 + at * 2, count, inputs.data(), targets.data());
                bench.seen += static_cast<std::uint64_t>(inputs[at % count] + targets[at % count]);
            }
        });
    }
    return cost;
}

Cost floor_of_shuffled_int32(Bench& bench) {
    const auto length = static_cast<std::size_t>(bench.length);
    const auto batch = static_cast<std::size_t>(bench.rows);
    std::vector<std::int32_t> inputs(batch * length), targets(batch * length);
    Cost cost;
    for (const std::string& file : bench.files) {
        const Mapping mapping(file, true);
        const auto rows = shuffled_rows(mapping, length);
        cost += cost_of([&] {
            for (std::size_t row = 0; row < rows.size(); ++row) {
                const std::size_t at = row % batch * length;
                write_int32(rows[row], length, inputs.data() + at, targets.data() + at);
                bench.seen += static_cast<std::uint64_t>(inputs[at] + targets[at]);
            }
        });
    }
    return cost;
}

al::data::TokenReader reader_of(const Bench& bench, al::data::ReadBy way, al::data::Order order) {
    return al::data::TokenReader({.data = bench.pattern,
                                  .length = bench.length,
                                  .global_batch = bench.rows,
                                  .order = order,
                                  .seed = 1,
                                  .epochs = 1,
                                  .read_by = way});
}

enum class Use { none, look, int32 };

Cost cost_of_reader(Bench& bench, al::data::ReadBy way, Use use,
                    al::data::Order order = al::data::Order::sequential) {
    std::vector<std::int32_t> inputs, targets;
    if (use == Use::int32) {
        inputs.resize(static_cast<std::size_t>(bench.rows * bench.length));
        targets.resize(inputs.size());
    }
    return cost_of([&] {
        al::data::TokenReader reader = reader_of(bench, way, order);
        if (use == Use::int32) {
            while (const auto batch = reader.next_into(inputs, targets))
                bench.seen += static_cast<std::uint64_t>(batch->inputs.back());
            return;
        }
        while (const auto batch = reader.next_raw())
            for (std::int64_t row = 0; row < batch->rows; ++row) {
                const auto tokens = batch->row<std::uint16_t>(row);
                bench.seen += use == Use::look
                                  ? xor_of(reinterpret_cast<const std::byte*>(tokens.data()),
                                           tokens.size_bytes() - 2)
                                  : tokens[0];
            }
    });
}

void drop_from_page_cache(const Bench& bench) {
    for (const std::string& file : bench.files) {
        const al::UniqueFd fd = al::open_file(file, O_RDONLY);
        ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
}

Cost floor_of_disk(Bench& bench) {
    constexpr unsigned kDepth = 32;
    constexpr std::size_t kBlock = 512 << 10;
    const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(4096, kDepth * kBlock),
                                                        std::free);
    std::vector<al::UniqueFd> fds;
    std::vector<al::IoRequest> requests;
    for (const std::string& file : bench.files) {
        fds.push_back(al::open_file(file, O_RDONLY | O_DIRECT));
        for (std::uint64_t at = 0; at < fs::file_size(file); at += kBlock)
            requests.push_back({fds.back().get(), false, at, nullptr, kBlock, 0});
    }
    auto queue = al::make_uring_queue(kDepth);
    if (!queue)
        throw std::runtime_error("this kernel or build has no io_uring");
    return cost_of([&] {
        std::size_t started = 0, over = 0;
        const auto start = [&](std::size_t tag) {
            al::IoRequest request = requests[started++];
            request.tag = tag;
            request.memory = static_cast<std::byte*>(memory.get()) + tag * kBlock;
            queue->start(request);
        };
        while (started < std::min<std::size_t>(kDepth, requests.size()))
            start(started);
        for (; over < requests.size(); ++over) {
            const al::IoResult result = queue->wait();
            if (result.moved <= 0)
                throw std::runtime_error("a raw read failed");
            if (started < requests.size())
                start(result.tag);
        }
    });
}

Cost floor_of_filling(Bench& bench) {
    std::vector<char> memory(1 << 20);
    return cost_of([&] {
        for (const std::string& file : bench.files) {
            const al::UniqueFd fd = al::open_file(file, O_RDONLY);
            while (const ssize_t got = ::read(fd.get(), memory.data(), memory.size())) {
                if (got < 0)
                    throw al::SystemError(errno, "read " + file);
                bench.seen += static_cast<std::uint64_t>(memory[0]);
            }
        }
    });
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// What each way costs, in the order of their first turn.
class Table {
public:
    void add(const std::string& name, const Cost& cost) {
        if (!ways_.contains(name))
            names_.push_back(name);
        ways_[name].seconds.push_back(cost.seconds);
        ways_[name].cpu.push_back(cost.cpu);
    }
    void print(const Bench& bench) const {
        const Way* floor = nullptr;
        for (const std::string& name : names_) {
            const Way& way = ways_.at(name);
            if (!floor || name.find("floor") != name.npos)
                floor = &way;
            const double seconds = median(way.seconds), cpu = median(way.cpu);
            fmt::print("{:<39} {:6.2f} GB/s {:6.1f}%  {:6.3f} s of CPU {:+7.3f}\n", name,
                       static_cast<double>(bench.bytes) / seconds / 1e9,
                       100 * median(floor->seconds) / seconds, cpu, cpu - median(floor->cpu));
        }
    }

private:
    struct Way {
        std::vector<double> seconds, cpu;
    };
    std::vector<std::string> names_;
    std::map<std::string, Way> ways_;
};

void measure(Bench& bench, int rounds) {
    using al::data::Order;
    using al::data::ReadBy;
    Table memory, disk;
    for (int round = -1; round < rounds; ++round) {
        Table warm_up;
        Table& table = round < 0 ? warm_up : memory;
        table.add("memory: floor, pages are there", floor_of_memory(bench, true));
        table.add("memory: a new mapping", floor_of_memory(bench, false));
        table.add("memory: next_raw()", cost_of_reader(bench, ReadBy::mapping, Use::look));
        table.add("shuffled: floor, pages are there", floor_of_shuffled(bench));
        table.add("shuffled: next_raw()",
                  cost_of_reader(bench, ReadBy::mapping, Use::look, Order::shuffled));
        table.add("int32: floor, pages are there", floor_of_int32(bench));
        table.add("int32: next_into()", cost_of_reader(bench, ReadBy::mapping, Use::int32));
        table.add("int32: floor, rows in random order", floor_of_shuffled_int32(bench));
        table.add("int32: next_into(), shuffled",
                  cost_of_reader(bench, ReadBy::mapping, Use::int32, Order::shuffled));
    }
    memory.print(bench);
    for (int round = 0; round < rounds; ++round) {
        const auto cold = [&](const std::string& name, const std::function<Cost()>& cost) {
            drop_from_page_cache(bench);
            disk.add(name, cost());
        };
        cold("disk: floor, O_DIRECT", [&] { return floor_of_disk(bench); });
        cold("disk: next_raw(), direct",
             [&] { return cost_of_reader(bench, ReadBy::direct, Use::none); });
        cold("disk: next_into(), direct",
             [&] { return cost_of_reader(bench, ReadBy::direct, Use::int32); });
        cold("filled: floor, read() of 1 MiB", [&] { return floor_of_filling(bench); });
        cold("filled: next_into(), mapping",
             [&] { return cost_of_reader(bench, ReadBy::mapping, Use::int32); });
        cold("filled: next_into(), page_cache",
             [&] { return cost_of_reader(bench, ReadBy::page_cache, Use::int32); });
        cold("filled: next_into(), mapping, shuffled",
             [&] { return cost_of_reader(bench, ReadBy::mapping, Use::int32, Order::shuffled); });
    }
    disk.print(bench);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 2)
        throw std::invalid_argument(
            "bench_token_reader FOLDER [MEBIBYTES] [ROUNDS] [ROWS] [LENGTH]");
    Bench bench;
    const auto mebibytes = static_cast<std::uint64_t>(argc > 2 ? number(argv[2]) : 1024);
    const int rounds = static_cast<int>(argc > 3 ? number(argv[3]) : 7);
    bench.rows = argc > 4 ? number(argv[4]) : bench.rows;
    bench.length = argc > 5 ? number(argv[5]) : bench.length;
    for (int i = 0; i < kShards; ++i) {
        bench.files.push_back(fmt::format("{}/bench_{}.bin", argv[1], i));
        write_shard(bench.files.back(), (mebibytes << 20) / kShards, 1 + static_cast<unsigned>(i));
        bench.bytes += fs::file_size(bench.files.back());
    }
    bench.pattern = fmt::format("{}/bench_[0-{}].bin", argv[1], kShards - 1);
    fmt::print("{} MiB in {} shards, batches of {} x {} tokens, medians of {}; load {}\n",
               mebibytes, kShards, bench.rows, bench.length, rounds,
               al::trim(al::read_file("/proc/loadavg")));
    measure(bench, rounds);
    return bench.seen == 1 ? 1 : 0;
} catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
}
