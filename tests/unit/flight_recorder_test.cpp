// A rank's flight recorder: what is written down, and what is read of it whatever the rank does
// meanwhile.
#include "flight/flight_recorder.hpp"
#include "flight/flight_reader.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace flight_recorder_test {

using namespace autolaunch;
using namespace autolaunch::flight;

namespace {

constexpr FlightCall kAllReduce{.kind = Kind::all_reduce, .op = 0, .type = 0, .bytes = 4 << 20};

Contents contents_of(const FlightRecorder& recorder) {
    const auto contents = read_contents(memory_source(recorder.memory()));
    REQUIRE(contents);
    return *contents;
}

struct Fixture {
    std::shared_ptr<FlightRecorder> recorder = FlightRecorder::create(3, 1);
    FlightRing ring{recorder, "world", 3, 8, "shm"};

    ReadGroup group() const { return contents_of(*recorder).groups.at(0); }
    Word* words() const { return const_cast<Word*>(recorder->memory()); }
    Word* entry(std::size_t slot) const {
        return words() + kHeaderBytes / 8 + kBlockWords * (1 + slot);
    }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a call goes from enqueued to started to finished") {
    ring.set_label("h.0 gradients");
    auto entry =
        ring.enqueue({.kind = Kind::reduce, .op = 2, .type = 6, .root = 5, .bytes = 4096}, false);
    ReadCall call = group().calls.at(0);
    CHECK(call.state == State::enqueued);
    CHECK(call.started_ago == -1);
    ring.start(entry);
    CHECK(group().calls.at(0).state == State::started);
    ring.end(entry, false);
    call = group().calls.at(0);
    CHECK(call.state == State::finished);
    CHECK(call.kind == Kind::reduce);
    CHECK(call.op == 2);
    CHECK(call.type == 6);
    CHECK(call.root == 5);
    CHECK(call.bytes == 4096);
    CHECK(call.sequence == 1);
    CHECK(call.label == "h.0 gradients");
    CHECK(call.enqueued_ago >= call.started_ago);
    CHECK(call.started_ago >= call.finished_ago);
    CHECK(call.finished_ago >= 0);
    CHECK(call.enqueued_ago < 60'000'000'000);
    const Contents contents = contents_of(*recorder);
    CHECK(contents.rank == 3);
    CHECK(contents.generation == 1);
    CHECK(group().name == "world");
    CHECK(group().backend == "shm");
    CHECK(group().size == 8);
    CHECK(group().rank == 3);
}

TEST_CASE_FIXTURE(Fixture, "the clock of a call is that of everybody") {
    auto entry = ring.enqueue(kAllReduce, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::int64_t ago = group().calls.at(0).started_ago;
    CHECK(ago >= 50'000'000 * 9 / 10);
    CHECK(ago < 60'000'000'000);
    ring.end(entry, true);
    CHECK(group().calls.at(0).state == State::failed);
}

TEST_CASE_FIXTURE(Fixture, "the newest calls are kept when the ring comes round") {
    for (int i = 0; i < 1000; ++i) {
        auto entry = ring.enqueue(kAllReduce, true);
        ring.end(entry, false);
    }
    const ReadGroup read = group();
    REQUIRE(read.calls.size() == kEntries);
    CHECK(read.calls.front().sequence == 1000 - kEntries + 1);
    CHECK(read.calls.back().sequence == 1000);
    CHECK(read.collectives == 1000);
    CHECK(read.torn == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "a call that is not over keeps its place, and those that find none are counted") {
    auto stuck = ring.enqueue(kAllReduce, true);
    std::vector<FlightRing::Entry> queued;
    for (std::size_t i = 0; i < kEntries + 10; ++i)
        queued.push_back(ring.enqueue(kAllReduce, false));
    ReadGroup read = group();
    CHECK(read.calls.front().sequence == 1);
    CHECK(read.calls.front().state == State::started);
    CHECK(read.lost == 11);
    CHECK(read.collectives == kEntries + 11);
    ring.end(stuck, false);
    for (auto& entry : queued)
        ring.end(entry, false);
    ring.enqueue(kAllReduce, true);
    read = group();
    CHECK(read.calls.back().sequence == kEntries + 12);
    CHECK(read.calls.size() == kEntries);
}

TEST_CASE_FIXTURE(
    Fixture,
    "calls that a device has not been asked for give way, and their late end changes nothing") {
    const FlightCall on_device{.kind = Kind::all_gather, .flags = kOnDevice, .bytes = 8};
    auto first = ring.enqueue(on_device, true);
    for (std::size_t i = 0; i < kEntries; ++i)
        ring.enqueue(on_device, true);
    ring.end(first, false);
    const ReadGroup read = group();
    CHECK(read.calls.size() == kEntries);
    CHECK(read.calls.back().sequence == kEntries + 1);
    CHECK(read.lost == 0);
    for (const auto& call : read.calls)
        CHECK(call.state == State::started);
}

TEST_CASE_FIXTURE(Fixture, "messages between two ranks have a sequence of their own") {
    ring.enqueue(kAllReduce, true);
    ring.enqueue({.kind = Kind::send, .root = 1, .bytes = 4}, true);
    ring.enqueue({.kind = Kind::recv, .root = 1, .bytes = 4}, true);
    ring.enqueue({.kind = Kind::barrier}, true);
    const ReadGroup read = group();
    CHECK(read.collectives == 2);
    CHECK(read.messages == 2);
    CHECK(read.calls[2].sequence == 2);
    CHECK(read.calls[3].sequence == 2);
}

TEST_CASE_FIXTURE(Fixture, "labels are cut, and belong to the calls after them") {
    ring.set_label(std::string(100, 'x'));
    ring.enqueue(kAllReduce, true);
    ring.set_label("b");
    ring.enqueue(kAllReduce, true);
    ring.set_label("");
    ring.enqueue(kAllReduce, true);
    const ReadGroup read = group();
    CHECK(read.calls[0].label == std::string(kTextBytes, 'x'));
    CHECK(read.calls[1].label == "b");
    CHECK(read.calls[2].label.empty());
    CHECK(ring.describe_last().find("all_reduce #2 (4 MiB, b) began ") != std::string::npos);
}

TEST_CASE("a group that ended leaves its ring readable until others need it") {
    const auto recorder = FlightRecorder::create(0, 0);
    { FlightRing ended(recorder, "first", 0, 1, "self"); }
    std::vector<FlightRing> rings;
    for (std::size_t i = 0; i < kRings - 1; ++i)
        rings.emplace_back(recorder, "g" + std::to_string(i), 0, 1, "self");
    CHECK(contents_of(*recorder).groups.at(0).name == "first");
    CHECK_FALSE(contents_of(*recorder).groups.at(0).in_use);
    rings.emplace_back(recorder, "last", 0, 1, "self");
    rings.emplace_back(recorder, "too many", 0, 1, "self");
    CHECK_FALSE(rings.back().records());
    CHECK(rings.back().enqueue(kAllReduce, true).words == nullptr);
    const Contents contents = contents_of(*recorder);
    CHECK(contents.groups.at(0).name == "last");
    CHECK(contents.groups.size() == kRings);
    CHECK(contents.lost_groups == 1);
}

TEST_CASE("the same group has the same number on all ranks, and another group another") {
    const auto recorder = FlightRecorder::create(0, 0);
    const std::string longest(200, 'n');
    const FlightRing a(recorder, longest, 0, 2, "shm"), b(recorder, longest, 1, 2, "shm"),
        c(recorder, longest + "m", 1, 2, "shm");
    const Contents contents = contents_of(*recorder);
    CHECK(contents.groups[0].id == contents.groups[1].id);
    CHECK(contents.groups[0].id != contents.groups[2].id);
    CHECK(contents.groups[2].name.size() == kTextBytes);
}

TEST_CASE_FIXTURE(Fixture, "an entry that is being written is counted, not read") {
    ring.enqueue(kAllReduce, true);
    ring.enqueue(kAllReduce, true);
    write_word(entry(0)[kEntryVersion], read_word(entry(0)[kEntryVersion]) + 1);
    const ReadGroup read = group();
    CHECK(read.calls.size() == 1);
    CHECK(read.calls[0].sequence == 2);
    CHECK(read.torn == 1);
}

TEST_CASE_FIXTURE(Fixture, "whatever a rank writes there, reading it ends well") {
    for (int i = 0; i < 300; ++i)
        ring.enqueue({.kind = Kind::all_gather, .flags = kOnDevice, .bytes = 8}, true);
    std::mt19937_64 random(1);
    for (int round = 0; round < 300; ++round) {
        const std::size_t words_there = kMemoryBytes / 8;
        for (int i = 0; i < 200; ++i) {
            const std::size_t in_front = round % 2 == 0 ? 1024 : words_there;
            words()[random() % in_front] = round % 3 == 0 ? random() : random() % 300;
        }
        words()[kHeaderMagic] = kMagic;
        words()[kHeaderSizes] = kSizes;
        words()[kHeaderClock] = static_cast<Word>(round % 3);
        const auto contents = read_contents(memory_source(recorder->memory()));
        CHECK(contents.has_value() == (round % 3 < 2));
        if (!contents)
            continue;
        for (const auto& group : contents->groups) {
            CHECK(group.rank < group.size);
            for (const auto& call : group.calls) {
                CHECK(static_cast<std::size_t>(call.kind) < kKindNames.size());
                CHECK(call.started_ago >= -1);
                CHECK_FALSE(name_call(call.kind, call.sequence, call.bytes, call.label).empty());
            }
        }
    }
    write_word(words()[kRingGroup], 1);
    std::memset(words(), 0xff, kMemoryBytes);
    CHECK_FALSE(read_contents(memory_source(recorder->memory())));
}

TEST_CASE_FIXTURE(Fixture, "the memory file is sealed, and nothing else passes for one") {
    REQUIRE(recorder->file());
    CHECK(is_recorder(recorder->file().get()));
    CHECK((::fcntl(recorder->file().get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(::ftruncate(recorder->file().get(), 0) != 0);
    const UniqueFd unsealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(unsealed.get(), kMemoryBytes) == 0);
    CHECK_FALSE(is_recorder(unsealed.get()));
    const UniqueFd no_memory(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    CHECK_FALSE(is_recorder(no_memory.get()));
    CHECK_FALSE(is_recorder(-1));
    CHECK(read_contents(file_source(recorder->file().get()))->groups.at(0).name == "world");
    CHECK_FALSE(read_contents(file_source(no_memory.get())));
}

TEST_CASE("a rank that is killed while it writes leaves a ring that can be read") {
    for (int round = 0; round < 20; ++round) {
        const auto recorder = FlightRecorder::create(0, 0);
        REQUIRE(recorder->file());
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            FlightRing ring(recorder, "world", 0, 2, "shm");
            for (;;) {
                auto entry = ring.enqueue(kAllReduce, false);
                ring.start(entry);
                ring.end(entry, false);
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5 + round % 7));
        REQUIRE(::kill(child, SIGKILL) == 0);
        REQUIRE(::waitpid(child, nullptr, 0) == child);
        const auto contents = read_contents(file_source(recorder->file().get()));
        REQUIRE(contents);
        if (contents->groups.empty())
            continue;  // it had no turn yet
        const ReadGroup& group = contents->groups[0];
        CHECK(group.torn <= 1);
        if (group.collectives > kEntries)
            CHECK(group.calls.size() + group.torn == kEntries);
        for (std::size_t i = 1; i < group.calls.size(); ++i)
            CHECK(group.calls[i].sequence == group.calls[i - 1].sequence + 1);
    }
}

TEST_CASE_FIXTURE(Fixture, "what is read beside a writer is whole") {
    std::atomic<bool> over{false};
    std::thread writer([&] {
        for (std::uint64_t i = 1; !over; ++i) {
            ring.set_label(i % 2 == 0 ? "even" : "odd, and longer than a word");
            auto entry = ring.enqueue({.kind = Kind::all_reduce, .bytes = i}, false);
            ring.start(entry);
            ring.end(entry, false);
        }
    });
    for (int i = 0; i < 200; ++i) {
        for (const auto& call : group().calls) {
            CHECK(call.bytes == call.sequence);
            CHECK(call.label == (call.bytes % 2 == 0 ? "even" : "odd, and longer than a word"));
        }
    }
    over = true;
    writer.join();
}

TEST_CASE("groups on several threads come, call and go, beside a reader") {
    const auto recorder = FlightRecorder::create(0, 0);
    std::atomic<int> working{4};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            for (int round = 0; round < 40; ++round) {
                FlightRing ring(recorder, recorder->name_world(), thread, 4, "shm");
                CHECK(ring.records());
                for (std::uint64_t i = 1; i <= 300; ++i) {
                    auto entry = ring.enqueue({.kind = Kind::all_reduce, .bytes = i}, true);
                    ring.end(entry, false);
                }
            }
            --working;
        });
    std::size_t seen = 0;
    while (working > 0 || seen == 0)
        for (const auto& group : contents_of(*recorder).groups)
            for (const auto& call : group.calls) {
                CHECK(call.bytes == call.sequence);
                ++seen;
            }
    for (auto& thread : threads)
        thread.join();
    for (const auto& group : contents_of(*recorder).groups) {
        CHECK_FALSE(group.in_use);
        CHECK(group.collectives == 300);
    }
}

TEST_CASE("names of bytes and times are short") {
    CHECK(name_bytes(8) == "8 B");
    CHECK(name_bytes(1536) == "1.5 KiB");
    CHECK(name_bytes(4 << 20) == "4 MiB");
    CHECK(name_time(80'000) == "80 us");
    CHECK(name_time(31'500'000'000) == "31 s");
    CHECK(name_time(-1) == "an unknown time");
    CHECK(name_call(Kind::barrier, 7, 0, "") == "barrier #7");
}

}  // namespace flight_recorder_test
