// What a checkpoint of one rank costs, beside memcpy of the same bytes:
//   checkpoint_perf DIRECTORY BYTES                 DIRECTORY is new, and removed at the end
// Prints a JSON object of seconds. bench/checkpoint runs it in rounds, beside fio and others'
// savers.
//
//   memcpy       of all bytes at once into memory that is there, by one thread; each time just
//   before a stall, because
//                memory is not always equally fast: the disk's traffic passes through it, and that
//                of neighbours
//   save         save(), until it is published
//   stall        save_async() and wait_copied() at once: nothing is hidden by computing
//   durable      of that save, from its begin until it was published
//   hidden_stall the same as stall with computing in between
//   steps, steps_with_save   so many steps of computing on all cores, alone and with a save_async()
//   in the first write        the files alone, until they are durable load         load(), with
//   every block verified
// memcpy, stall and durable are medians of three.
//
//   checkpoint_perf DIRECTORY BYTES FROZEN          so many of a hundred tensors are frozen
// Prints the seconds of a save and the bytes that it sends to the disk, by link_unchanged on and
// off, and with every linked block verified; each the median of 5.
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/checkpoint_engine.hpp"
#include "comm/self/self_backend.hpp"
#include "seconds_since.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace autolaunch;
using bench::seconds_since;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTensors = 48;  // a third each of parameters and of two moments, say
constexpr double kStep_s = 0.25;
constexpr int kSteps = 12;
constexpr int kStalls = 3;

/// Tensors in memory of their own, as a model has them.
class BenchState {
public:
    explicit BenchState(std::size_t bytes) {
        const std::size_t elements = bytes / 4 / kTensors;
        for (std::int64_t i = 0; i < kTensors; ++i)
            tensors_.emplace_back(elements + static_cast<std::size_t>(i) * 4,
                                  static_cast<float>(i) + 0.5f);
    }
    fsdp::State state(std::size_t frozen = 0) {
        fsdp::State state;
        for (std::size_t i = 0; i < tensors_.size(); ++i) {
            const auto count = static_cast<std::int64_t>(tensors_[i].size());
            state.push_back({"h." + std::to_string(i) + ".w",
                             f32,
                             {count},
                             {{0, count, reinterpret_cast<std::byte*>(tensors_[i].data())}},
                             false,
                             0,
                             i < frozen});
        }
        return state;
    }
    std::size_t bytes() const {
        std::size_t bytes = 0;
        for (const auto& tensor : tensors_)
            bytes += tensor.size() * 4;
        return bytes;
    }
    void copy_to(std::byte* to) const {
        for (const auto& tensor : tensors_) {
            std::memcpy(to, tensor.data(), tensor.size() * 4);
            to += tensor.size() * 4;
        }
    }
    void clear() {
        for (auto& tensor : tensors_)
            std::fill(tensor.begin(), tensor.end(), 0.0f);
    }
    bool is_whole() const {
        for (std::size_t i = 0; i < tensors_.size(); ++i)
            for (const float value : tensors_[i])
                if (value != static_cast<float>(i) + 0.5f)
                    return false;
        return true;
    }

private:
    std::vector<std::vector<float>> tensors_;
};

/// Arithmetic on every core that touches little memory. Returns what it computed, so that it is
/// computed.
class Computing {
public:
    Computing() : threads_(std::max(1u, std::thread::hardware_concurrency())) {
        const auto start = Clock::now();
        rounds_ = 2'000'000;
        work(rounds_);
        rounds_ = static_cast<std::int64_t>(static_cast<double>(rounds_.load()) * kStep_s /
                                            seconds_since(start));
    }
    void step() {
        std::vector<std::thread> others;
        for (unsigned i = 1; i < threads_; ++i)
            others.emplace_back([this] { work(rounds_); });
        work(rounds_);
        for (auto& other : others)
            other.join();
    }

private:
    static void work(std::int64_t rounds) {
        float values[32];
        std::fill(std::begin(values), std::end(values), 1.0f);
        for (std::int64_t i = 0; i < rounds; ++i)
            for (float& value : values)
                value = value * 0.999f + 0.001f;
        volatile float result = 0;
        for (const float value : values)
            result = result + value;
    }

    unsigned threads_;
    // Atomic, so that no copy of work() is made for a known count: it was 30 times faster than what
    // was to be timed.
    std::atomic<std::int64_t> rounds_ = 0;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void time_stall(CheckpointEngine& engine, BenchState& state, nlohmann::json& result) {
    AlignedMemory memory(state.bytes());
    memory.populate();
    state.copy_to(memory.data());
    std::vector<double> copies, stalls, durables;
    for (int i = 0; i < kStalls; ++i) {
        auto start = Clock::now();
        state.copy_to(memory.data());
        copies.push_back(seconds_since(start));
        start = Clock::now();
        engine.save_async(2 + i, state.state(), {});
        engine.wait_copied();
        stalls.push_back(seconds_since(start));
        engine.finish();
        durables.push_back(engine.take_cost().value().durable_seconds);
    }
    result["memcpy"] = median(copies);
    result["stall"] = median(stalls);
    result["durable"] = median(durables);
}

double time_write(BenchState& state, const fs::path& directory) {
    const auto storage = make_posix_storage();
    storage->create_directories(directory);
    const auto begin = Clock::now();
    write_files(*storage, directory, plan_shards(state.state(), 1, 0, 1));
    const double seconds = seconds_since(begin);
    fs::remove_all(directory);
    return seconds;
}

nlohmann::json measure(const fs::path& directory, std::size_t bytes) {
    BenchState state(bytes);
    Computing computing;
    CheckpointEngine engine(make_posix_storage(), Communicator(std::make_shared<SelfBackend>()),
                            {.directory = directory / "checkpoints", .keep = 1}, {});
    engine.prepare_async(state.state());
    nlohmann::json result = {{"bytes", state.bytes()}, {"step", kStep_s}, {"step_count", kSteps}};
    result["write"] = time_write(state, directory / "files");

    // What is kept no longer is deleted after publishing: that is not in these.
    engine.save(1, state.state(), {});
    result["save"] = engine.take_cost().value().durable_seconds;

    time_stall(engine, state, result);

    auto start = Clock::now();
    for (int i = 0; i < kSteps; ++i)
        computing.step();
    result["steps"] = seconds_since(start);
    start = Clock::now();
    engine.save_async(2 + kStalls, state.state(), {});
    double stall = seconds_since(start);
    for (int i = 0; i < kSteps; ++i) {
        computing.step();
        const auto before = Clock::now();
        engine.wait_copied();
        stall += seconds_since(before);
    }
    result["steps_with_save"] = seconds_since(start);
    result["hidden_stall"] = stall;
    engine.finish();

    const auto newest = engine.latest(INT64_MAX);
    state.clear();
    start = Clock::now();
    engine.load(*newest, state.state());
    result["load"] = seconds_since(start);
    if (!state.is_whole())
        throw Error(ErrorCode::corrupt, "what was loaded is not what was saved");
    return result;
}

// What this process has sent to the disk so far.
std::uint64_t bytes_to_disk() {
    const std::string key = "\nwrite_bytes: ", text = "\n" + read_file("/proc/self/io");
    return std::stoull(text.substr(text.find(key) + key.size()));
}

nlohmann::json measure_frozen(const fs::path& directory, std::size_t bytes, std::size_t percent) {
    BenchState state(bytes);
    const std::size_t frozen = static_cast<std::size_t>(kTensors) * percent / 100;
    nlohmann::json result = {
        {"bytes", state.bytes()}, {"frozen_tensors", frozen}, {"tensors", kTensors}};
    const auto save = [&](const char* name, bool link, SaveVerification verify) {
        CheckpointOptions options{.directory = directory / name, .keep = 1};
        options.link_unchanged = link;
        options.verify = verify;
        CheckpointEngine engine(make_posix_storage(), Communicator(std::make_shared<SelfBackend>()),
                                options, {});
        std::vector<double> seconds;
        std::uint64_t sent = 0;
        for (std::int64_t step = 0; step < 6; ++step) {
            const std::uint64_t before = bytes_to_disk();
            engine.save(step, state.state(frozen), {});
            const double took = engine.take_cost().value().durable_seconds;
            if (step == 0)
                continue;  // there is nothing to link yet
            seconds.push_back(took);
            sent = bytes_to_disk() - before;
        }
        result[name] = {{"seconds", median(seconds)}, {"bytes_to_disk", sent}};
    };
    save("written", false, SaveVerification::ends);
    save("linked", true, SaveVerification::ends);
    save("linked_verified", true, SaveVerification::every_block);
    return result;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3 && count != 4) {
        std::fprintf(stderr, "usage: checkpoint_perf DIRECTORY BYTES [FROZEN]\n");
        return 64;
    }
    const fs::path directory = arguments[1];
    if (fs::exists(directory)) {
        std::fprintf(stderr, "checkpoint_perf: %s exists; name a new directory\n",
                     directory.c_str());
        return 64;
    }
    int status = 0;
    try {
        const std::size_t bytes = std::stoull(arguments[2]);
        const auto result = count == 3
                                ? measure(directory, bytes)
                                : measure_frozen(directory, bytes, std::stoull(arguments[3]));
        std::printf("%s\n", result.dump().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "checkpoint_perf: %s\n", error.what());
        status = 1;
    }
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    return status;
}
