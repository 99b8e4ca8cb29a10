// A slot of memory: whole or not there, whatever was being done to it.
#include "base/memory_file.hpp"
#include "checkpoint/memory/contents.hpp"
#include "checkpoint/memory/slot.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace memory_slot_test {

using namespace autolaunch;
using namespace autolaunch::memory;

namespace {

constexpr std::uint64_t kData = kBlockBytes + 70'001;  // two blocks, no whole number of anything

std::vector<std::byte> pattern(std::uint64_t seed) {
    std::vector<std::byte> bytes(kData);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>((i * 31 + seed) % 251);
    return bytes;
}

CopyPlan plan_of(std::int64_t step) { return {{step, 3, step}, 1, 4, kData, "{\"next\":5}"}; }

struct Fixture {
    UniqueFd file = create_memory_file("autolaunch-test", round_to_page(plan_of(0).used_bytes()));
    Slot slot{file, round_to_page(plan_of(0).used_bytes())};
    std::byte* bytes() { return slot.receivable(kHeaderOffset).data() - kHeaderOffset; }

    void write(std::int64_t step) {
        const auto data = pattern(static_cast<std::uint64_t>(step));
        slot.begin(plan_of(step));
        const Run runs[] = {
            {data.data(), 1000}, {data.data() + 1000, 7}, {data.data() + 1007, kData - 1007}};
        slot.copy(runs, static_cast<int>(step % 3) + 1);
        slot.finish();
    }
};

}  // namespace

TEST_CASE("a copy is there from commit on, with all that was given") {
    Fixture f;
    CHECK_FALSE(f.slot.header());
    f.write(7);
    CHECK_FALSE(f.slot.header());
    f.slot.commit();
    const auto header = f.slot.header();
    REQUIRE(header);
    CHECK(header->name() == SaveName{7, 3, 7});
    CHECK(header->shard == 1);
    CHECK(header->world_size == 4);
    CHECK(header->used_bytes == plan_of(7).used_bytes());
    CHECK(f.slot.text(*header) == "{\"next\":5}");
    CHECK(f.slot.verify_data(*header));
    CHECK(f.slot.verify_data(*header, 3));
    const auto data = pattern(7);
    CHECK(std::memcmp(f.slot.data(*header).data(), data.data(), kData) == 0);
}

TEST_CASE("from begin on the old copy is gone, at every point of the next") {
    Fixture f;
    f.write(7);
    f.slot.commit();
    const auto data = pattern(8);
    f.slot.begin(plan_of(8));
    CHECK_FALSE(f.slot.header());
    const Run whole[] = {{data.data(), kData}};
    f.slot.copy(whole, 2);
    CHECK_FALSE(f.slot.header());
    f.slot.finish();
    CHECK_FALSE(f.slot.header());
    f.slot.commit();
    CHECK(f.slot.header()->name().step == 8);
    CHECK(f.slot.verify_data(*f.slot.header()));
}

TEST_CASE(
    "every byte of header, digests and text that changes hides the copy; of the data, "
    "verify_data() sees it") {
    Fixture f;
    f.write(7);
    f.slot.commit();
    const Header header = f.slot.header().value();
    const auto damaged = [&](std::uint64_t at) {
        f.bytes()[at] ^= std::byte{0x10};
        const auto seen = f.slot.header();
        const bool good = seen && f.slot.verify_data(*seen);
        f.bytes()[at] ^= std::byte{0x10};
        return !good;
    };
    for (std::uint64_t at = 0; at < 8; ++at)
        CHECK(damaged(at));
    for (std::uint64_t at = kHeaderOffset; at < kHeaderOffset + sizeof(Header); ++at)
        CHECK(damaged(at));
    for (std::uint64_t at = kTableOffset; at < kTableOffset + 32 + 10; ++at)
        CHECK(damaged(at));
    for (std::uint64_t at = header.data_offset; at < header.used_bytes; at += 65'537)
        CHECK(damaged(at));
    CHECK(damaged(header.used_bytes - 1));
    CHECK(f.slot.verify_data(*f.slot.header()));
}

TEST_CASE("a header with sizes that cannot be is no header, also where its digests are right") {
    for (const std::uint64_t size :
         {UINT64_MAX, std::uint64_t{1} << 63, UINT64_MAX - kPage, std::uint64_t{1} << 40}) {
        Fixture f;
        f.write(7);
        Header header;
        std::memcpy(&header, f.bytes() + kHeaderOffset, sizeof header);
        header.data_bytes = size;
        std::memcpy(f.bytes() + kHeaderOffset, &header, sizeof header);
        f.slot.commit();
        CHECK_FALSE(f.slot.header());
        f.write(7);
        std::memcpy(&header, f.bytes() + kHeaderOffset, sizeof header);
        header.text_bytes = size;
        std::memcpy(f.bytes() + kHeaderOffset, &header, sizeof header);
        f.slot.commit();
        CHECK_FALSE(f.slot.header());
    }
}

TEST_CASE("a copy that another rank sent is whole when it is checked and committed") {
    Fixture sender, receiver;
    receiver.write(6);
    receiver.slot.commit();
    sender.write(7);
    const std::uint64_t used = plan_of(7).used_bytes();
    receiver.slot.begin_receiving();
    CHECK_FALSE(receiver.slot.header());
    const auto from = sender.slot.sendable(used);
    const auto to = receiver.slot.receivable(used);
    std::memcpy(to.data(), from.data(), from.size() - 1);
    CHECK_FALSE(receiver.slot.header());
    std::memcpy(to.data(), from.data(), from.size());
    CHECK_FALSE(receiver.slot.header());  // the sender's commit word does not travel
    CHECK(receiver.slot.check_received({7, 3, 7}, 1, used));
    CHECK_FALSE(receiver.slot.check_received({7, 3, 8}, 1, used));
    CHECK_FALSE(receiver.slot.check_received({7, 3, 7}, 2, used));
    CHECK_FALSE(receiver.slot.check_received({7, 3, 7}, 1, used - 1));
    receiver.slot.commit();
    CHECK(receiver.slot.header()->name().step == 7);
    CHECK(receiver.slot.verify_data(*receiver.slot.header()));
}

TEST_CASE("a rank without data has a copy, too") {
    Fixture f;
    CopyPlan plan = plan_of(1);
    plan.data_bytes = 0;
    plan.text.clear();
    f.slot.begin(plan);
    f.slot.copy({}, 2);
    f.slot.finish();
    f.slot.commit();
    REQUIRE(f.slot.header());
    CHECK(f.slot.verify_data(*f.slot.header()));
    CHECK(f.slot.data(*f.slot.header()).empty());
}

TEST_CASE("nobody makes a memory file shorter or longer, and it closes on exec") {
    const UniqueFd file = create_memory_file("autolaunch-test", 8192);
    REQUIRE(file);
    struct stat found {};
    CHECK(::fstat(file.get(), &found) == 0);
    CHECK(found.st_size == 8192);
    CHECK(::ftruncate(file.get(), 4096) != 0);
    CHECK(::ftruncate(file.get(), 16384) != 0);
    CHECK((::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a copy's text that is nested without end is refused") {
    // CBOR: arrays of one item, objects of one name, tags; nothing ends them.
    for (const char* const item : {"\x81", "\xa1\x61\x61", "\x9f", "\xc1"}) {
        std::string text;
        for (int i = 0; i < 1'000'000; ++i)
            text += item;
        CHECK_THROWS_AS(Contents::decode(text), Error);
    }
}

}  // namespace memory_slot_test
