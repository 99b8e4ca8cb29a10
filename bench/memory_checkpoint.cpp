// What a copy of the state in memory costs the trainer: save_to_memory() beside memcpy of the same
// bytes.
//   bench_memory_checkpoint [MEBIBYTES] [ROUNDS]
// One rank without an agent, whose slots are memory files as an agent's are; 512 MiB of f32 in 48
// tensors, 9 rounds. Each round does all, one after the other; what is shown are medians.
#include "base/hash.hpp"
#include "base/text.hpp"

#include <autolaunch/autolaunch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace al = autolaunch;

double seconds_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::size_t positive(const char* text) {
    long long value = 0;
    if (!al::parse_integer(text, value) || value < 1 || value > (1 << 20))
        throw std::invalid_argument(std::string(text) + " is not a number from 1 to 1048576");
    return static_cast<std::size_t>(value);
}

void measure(std::size_t bytes, std::size_t rounds) {
    constexpr std::size_t kTensors = 48;
    const std::size_t each = bytes / kTensors / sizeof(float);
    std::vector<float> memory(kTensors * each, 1.5f), copy(kTensors * each, 0.0f);
    bytes = memory.size() * sizeof(float);
    al::fsdp::State state;
    for (std::size_t i = 0; i < kTensors; ++i) {
        const auto count = static_cast<std::int64_t>(each);
        state.push_back({fmt::format("h.{}.w", i), al::f32, {count}, {}});
        state.back().pieces = {{0, count, reinterpret_cast<std::byte*>(memory.data() + i * each)}};
    }
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session);
    al::CheckpointOptions options;
    options.directory = "unused";
    al::Checkpointer checkpointer(session, world, options);

    std::int64_t step = 0;
    const auto save = [&] { checkpointer.save_to_memory(++step, state); };
    const double first = seconds_of(save),
                 second = seconds_of(save);  // take the pages of both slots
    std::map<std::string, std::vector<double>> times;
    std::uint64_t digest = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        times["memcpy"].push_back(
            seconds_of([&] { std::memcpy(copy.data(), memory.data(), bytes); }));
        times["save"].push_back(seconds_of(save));
        times["digest"].push_back(
            seconds_of([&] { digest ^= al::hash128(memory.data(), bytes).low; }));
        times["load"].push_back(
            seconds_of([&] { checkpointer.load(*checkpointer.latest(), state); }));
    }
    const double copied = median(times["memcpy"]);
    const auto show = [&](const char* what, double seconds) {
        fmt::print("{:<34} {:8.1f} ms  {:6.2f} GB/s  {:5.2f} of memcpy's time\n", what,
                   seconds * 1e3, static_cast<double>(bytes) / seconds / 1e9, seconds / copied);
    };
    fmt::print("{:.0f} MiB in {} tensors, medians of {} rounds ({:x})\n",
               static_cast<double>(bytes) / (1 << 20), kTensors, rounds, digest & 15);
    show("memcpy", copied);
    show("XXH3-128 alone", median(times["digest"]));
    show("save_to_memory", median(times["save"]));
    show("save_to_memory, first and second", (first + second) / 2);
    show("latest and load", median(times["load"]));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        measure((argc > 1 ? positive(argv[1]) : 512) << 20, argc > 2 ? positive(argv[2]) : 9);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
