// The copy that a save takes of the state while the trainer goes on.
#include "checkpoint/save/staged_copy.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace staged_copy_test {

using namespace autolaunch;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kChunks = 6;

struct Sample {
    Sample() : content(kChunks * kChunkBytes - 100) {
        for (std::size_t i = 0; i < content.size(); ++i)
            content[i] = static_cast<std::byte>(i * 2654435761U >> 13);
        PlannedFile file;
        file.name = "f";
        file.segments = {{content.data(), 1000, 0},
                         {content.data() + 1000, content.size() - 1000, 1000}};
        file.bytes = content.size();
        files.push_back(file);
    }
    bool is_chunk(std::size_t index, const std::byte* memory) const {
        const std::size_t at = index * kChunkBytes;
        return std::memcmp(memory, content.data() + at,
                           std::min(kChunkBytes, content.size() - at)) == 0;
    }
    std::vector<std::byte> content;
    std::vector<PlannedFile> files;
};

/// Bytes that come when somebody waits for them, or never.
struct TestArrival final : fsdp::StateArrival {
    explicit TestArrival(std::function<void()> wanted) : action(std::move(wanted)) {}
    void wait() const override { action(); }
    std::function<void()> action;
};

Deadline soon() { return Deadline::after(20s); }

}  // namespace

TEST_CASE("with memory for all of it, the state may change before anything is written") {
    Sample sample;
    const Sample before = sample;
    AlignedMemory memory(kChunks * kChunkBytes);
    StagedCopy copy(sample.files, memory);
    CHECK_FALSE(copy.is_copied());
    CHECK(copy.copy_next());
    copy.wait_copied(soon());
    CHECK(copy.is_copied());
    CHECK_FALSE(copy.copy_next());
    std::fill(sample.content.begin(), sample.content.end(), std::byte{0});
    for (std::size_t i = 0; i < kChunks; ++i)
        CHECK(before.is_chunk(i, copy.take(i)));
}

TEST_CASE("with less memory, copying waits for the writer, and no more is held than was given") {
    const Sample sample;
    AlignedMemory memory(2 * kChunkBytes);
    StagedCopy copy(sample.files, memory);
    CHECK(copy.copy_next());
    CHECK(copy.copy_next());
    CHECK_THROWS_WITH_AS(copy.wait_copied(Deadline::after(10ms)),
                         doctest::Contains("gave no memory back in time"), TimeoutError);
    std::byte* const first = copy.take(0);
    CHECK(sample.is_chunk(0, first));
    std::byte* const second = copy.take(1);
    CHECK(copy.take(2) == nullptr);  // the writer holds all there is
    copy.give_back(first);
    copy.give_back(second);
    std::thread copier([&] {
        while (copy.copy_next()) {
        }
    });
    std::thread trainer([&] { copy.wait_copied(soon()); });
    for (std::size_t i = 2; i < kChunks; ++i) {
        std::byte* const chunk = copy.take(i);
        REQUIRE(chunk);
        CHECK(chunk >= memory.data());
        CHECK(chunk + kChunkBytes <= memory.data() + memory.bytes());
        CHECK(sample.is_chunk(i, chunk));
        copy.give_back(chunk);
    }
    copier.join();
    trainer.join();
    CHECK(copy.is_copied());
}

TEST_CASE("several copy at once, each chunk once") {
    const Sample sample;
    AlignedMemory memory(kChunks * kChunkBytes);
    StagedCopy copy(sample.files, memory);
    std::atomic<std::size_t> copied{0};
    std::vector<std::thread> copiers;
    for (int i = 0; i < 3; ++i)
        copiers.emplace_back([&] {
            while (copy.copy_next())
                ++copied;
        });
    for (std::size_t i = 0; i < kChunks; ++i)
        CHECK(sample.is_chunk(i, copy.take(i)));
    for (auto& copier : copiers)
        copier.join();
    CHECK(copied == kChunks);
}

TEST_CASE("where all of it has room, the writer begins when it is copied") {
    const Sample sample;
    AlignedMemory memory(kChunks * kChunkBytes);
    StagedCopy copy(sample.files, memory);
    std::atomic<bool> began{false};
    std::thread writer([&] {
        copy.take(0);
        began = true;
    });
    for (std::size_t i = 0; i + 1 < kChunks; ++i)
        CHECK(copy.copy_next());
    std::this_thread::sleep_for(30ms);
    CHECK_FALSE(began);
    CHECK(copy.copy_next());
    writer.join();
}

TEST_CASE("a save that is given up keeps nobody waiting") {
    const Sample sample;
    AlignedMemory memory(kChunkBytes);
    StagedCopy copy(sample.files, memory);
    std::thread copier([&] {
        while (copy.copy_next()) {
        }
    });
    std::thread trainer([&] { copy.wait_copied(soon()); });
    std::this_thread::sleep_for(20ms);
    copy.cancel();
    copier.join();
    trainer.join();
    CHECK(copy.is_copied());
    CHECK_THROWS_AS(copy.take(3), AbortedError);
}

TEST_CASE("nothing to copy is copied at once") {
    AlignedMemory memory(kChunkBytes);
    StagedCopy copy(std::span<const PlannedFile>(), memory);
    copy.wait_copied(soon());
    CHECK(copy.is_copied());
}

TEST_CASE("bytes that are on their way are waited for before they are copied") {
    Sample sample;
    const Sample whole = sample;
    std::byte& late = sample.content[1000];
    const std::byte value = std::exchange(late, std::byte{99});
    sample.files[0].segments[1].arrival = std::make_shared<TestArrival>([&] { late = value; });
    AlignedMemory memory(kChunks * kChunkBytes);
    StagedCopy copy(sample.files, memory);
    copy.wait_copied(soon());
    for (std::size_t i = 0; i < kChunks; ++i)
        CHECK(whole.is_chunk(i, copy.take(i)));
}

TEST_CASE("bytes that never come are the failure of the copy and of the writer") {
    Sample sample;
    sample.files[0].segments[1].arrival =
        std::make_shared<TestArrival>([] { throw TimeoutError("the GPU does not answer"); });
    AlignedMemory memory(kChunks * kChunkBytes);
    StagedCopy copy(sample.files, memory);
    CHECK_THROWS_AS(copy.copy_next(), TimeoutError);
    CHECK_THROWS_AS(copy.take(0), TimeoutError);
    CHECK_FALSE(copy.copy_next());
    copy.wait_copied(soon());  // nothing is left to wait for
    CHECK(copy.is_copied());
}

}  // namespace staged_copy_test
