// Files that are moved in large blocks: every way to do it gives the same bytes and digests, and
// failures are told.
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/io_queue.hpp"
#include "checkpoint/load/block_reader.hpp"
#include "checkpoint/save/file_writer.hpp"
#include "checkpoint/storage/aligned_memory.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace large_file_test {

using namespace autolaunch;
using fsdp::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kBlock = Manifest::kBlockBytes;

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> content(bytes);
    std::uint64_t state = seed * 2654435761ULL + 1;
    for (std::byte& byte : content)
        byte = static_cast<std::byte>((state = state * 6364136223846793005ULL + 1) >> 56);
    return content;
}

// A file of a header and segments of odd lengths.
struct Sample {
    explicit Sample(std::string name, std::vector<std::size_t> lengths) {
        planned.name = std::move(name);
        planned.header = std::string(4096, 'h');
        planned.bytes = planned.header.size();
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            parts.push_back(pattern(lengths[i], static_cast<unsigned>(i)));
            planned.segments.push_back({parts.back().data(), lengths[i], planned.bytes});
            planned.bytes += lengths[i];
        }
    }
    std::string content() const {
        std::string text = planned.header;
        for (const auto& part : parts)
            text.append(reinterpret_cast<const char*>(part.data()), part.size());
        return text;
    }
    std::vector<std::vector<std::byte>> parts;
    PlannedFile planned;
};

Manifest::File described(const PlannedFile& planned, const BlockDigests& digests) {
    Manifest::File file;
    file.name = planned.name;
    file.bytes = planned.bytes;
    file.block_digests = digests.xxh3;
    return file;
}

const std::vector<LargeFileOptions> kWays = {
    {true, true}, {true, false}, {false, true}, {false, false}};

// As a container that forbids io_uring does.
void refuse_io_uring() {
    const sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {4, const_cast<sock_filter*>(filter)};
    REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

}  // namespace

TEST_CASE("a link that somebody plants in a checkpoint's place is not followed, however often") {
    const TemporaryDirectory temporary;
    const fs::path victim = temporary.path() / "victim", shard = temporary.path() / "shard";
    write_whole(*make_posix_storage(), victim, "precious");
    for (const LargeFileOptions& way : kWays) {
        const auto storage = make_posix_storage(way);
        for (const bool is_large : {false, true}) {
            for (const fs::path& target : {victim, temporary.path() / "nowhere"}) {
                fs::remove(shard);
                fs::create_symlink(target, shard);
                const auto file = is_large ? storage->create_large(shard) : storage->create(shard);
                file->write_at(0, std::as_bytes(std::span("new", 3)));
                CHECK_FALSE(fs::is_symlink(shard));
                CHECK(read_file(shard) == "new");
            }
        }
        write_whole(*storage, temporary.path() / "manifest.tmp", "m");
        fs::remove(shard);
        fs::create_symlink(victim, shard);
        storage->rename(temporary.path() / "manifest.tmp", shard);
        CHECK(read_file(shard) == "m");
    }
    CHECK_FALSE(fs::exists(temporary.path() / "nowhere"));
    // One who plants it again and again: the file is ours, or it is not made at all.
    const fs::path planted = temporary.path() / "planted";
    std::atomic<bool> over{false};
    std::thread planter([&] {
        while (!over)
            if (::symlink(victim.c_str(), planted.c_str()) == 0)
                ::rename(planted.c_str(), shard.c_str());
    });
    const auto storage = make_posix_storage();
    int made = 0, refused = 0;
    for (int i = 0; i < 2000; ++i) {
        try {
            storage->create_large(shard)->write_at(0, std::as_bytes(std::span("new", 3)));
            ++made;
        } catch (const SystemError& error) {
            CHECK(error.error_number() == EEXIST);
            ++refused;
        }
    }
    over = true;
    planter.join();
    MESSAGE("made ", made, ", refused ", refused);
    CHECK(read_file(victim) == "precious");
}

TEST_CASE("another user's link in the place of the checkpoints' folder is not followed") {
    if (::geteuid() != 0)
        return;
    const TemporaryDirectory temporary;
    const fs::path ours = temporary.path() / "ours", link = temporary.path() / "checkpoints";
    fs::create_directory(ours);
    fs::create_directory_symlink(ours, link);
    const auto storage = make_posix_storage();
    storage->create_directories(link / "step-1.tmp");  // one's own is
    CHECK(fs::is_directory(ours / "step-1.tmp"));
    REQUIRE(::lchown(link.c_str(), 65534, 65534) == 0);
    CHECK_THROWS_WITH_AS(storage->create_directories(link), doctest::Contains("symbolic link"),
                         Error);
    CHECK_THROWS_WITH_AS(storage->create_directories(link / "step-2.tmp"),
                         doctest::Contains("symbolic link"), Error);
    CHECK_FALSE(fs::exists(ours / "step-2.tmp"));
}

TEST_CASE("a folder that another user prepared in a shared place gets no checkpoints") {
    if (::geteuid() != 0)
        return;
    const TemporaryDirectory temporary;
    const fs::path shared = temporary.path() / "shared", theirs = shared / "theirs";
    fs::create_directories(theirs / "checkpoints");
    const auto storage = make_posix_storage();
    int step = 0;
    const auto make = [&] {
        storage->create_directories(theirs / "checkpoints" / std::to_string(++step));
    };
    const auto refused = [&] {
        CHECK_THROWS_WITH_AS(make(), doctest::Contains("belongs to another user (uid 65534)"),
                             Error);
    };
    REQUIRE(::chmod(shared.c_str(), 01777) == 0);
    REQUIRE(::chown(theirs.c_str(), 65534, 65534) == 0);
    CHECK_NOTHROW(make());  // ours within
    REQUIRE(::chown((theirs / "checkpoints").c_str(), 65534, 65534) == 0);
    refused();
    CHECK_NOTHROW(storage->list(theirs / "checkpoints"));
    REQUIRE(::chown(theirs.c_str(), 65534, ::getegid()) == 0);  // shared with a group of ours
    REQUIRE(::chmod(theirs.c_str(), 02775) == 0);
    CHECK_NOTHROW(make());
    REQUIRE(::chmod(theirs.c_str(), 02777) == 0);
    CHECK_THROWS_WITH_AS(make(), doctest::Contains("everybody may write to the folder"), Error);
    REQUIRE(::chmod(theirs.c_str(), 0700) == 0);
    REQUIRE(::chmod(shared.c_str(), 0755) == 0);  // as below a home
    CHECK_NOTHROW(make());
}

TEST_CASE("files of every length are the same bytes whichever way they are written and read") {
    const TemporaryDirectory temporary;
    const auto storage_of_check = make_posix_storage();
    for (const LargeFileOptions& way : kWays) {
        CAPTURE(way.direct);
        CAPTURE(way.uring);
        const auto storage = make_posix_storage(way);
        const std::vector<std::vector<std::size_t>> shapes = {{},
                                                              {1},
                                                              {4096},
                                                              {kBlock - 4096},
                                                              {kBlock - 4095},
                                                              {3, 5, 9'000'001, 2, 14'000'000},
                                                              {kChunkBytes * 11 + 7}};
        WritePlan plan;
        std::vector<Sample> samples;
        for (std::size_t i = 0; i < shapes.size(); ++i)
            samples.emplace_back(
                "f" + std::to_string(i) + (way.direct ? "d" : "b") + (way.uring ? "u" : "t"),
                shapes[i]);
        for (const Sample& sample : samples)
            plan.files.push_back(sample.planned);
        const auto digests = write_files(*storage, temporary.path(), plan);
        REQUIRE(digests.size() == samples.size());
        for (std::size_t i = 0; i < samples.size(); ++i) {
            CAPTURE(i);
            const std::string content = samples[i].content();
            CHECK(read_file(temporary.path() / samples[i].planned.name) == content);
            const Manifest::File file = described(samples[i].planned, digests[i]);
            std::string seen;
            BlockReader(*storage, temporary.path(), file)
                .read_all([&](std::size_t index, auto block) {
                    CHECK(index == seen.size() / kBlock);
                    seen.append(reinterpret_cast<const char*>(block.data()), block.size());
                });
            CHECK(seen == content);
        }
    }
}

TEST_CASE("some blocks are read in order and nothing else is looked at") {
    const TemporaryDirectory temporary;
    Sample sample("a", {kBlock * 20 + 77});
    WritePlan plan;
    plan.files = {sample.planned};
    const auto storage = make_posix_storage();
    auto file = described(sample.planned, write_files(*storage, temporary.path(), plan).at(0));
    // Block 4 is damaged on the disk.
    const UniqueFd fd = open_file(temporary.path() / "a", O_WRONLY);
    REQUIRE(::pwrite(fd.get(), "xxxx", 4, 4 * kBlock + 9) == 4);
    REQUIRE(::fsync(fd.get()) == 0);
    const std::vector<std::size_t> wanted = {0, 3, 5, 6, 7, 8, 11, 12, 13, 14, 15, 19, 20};
    std::vector<std::size_t> seen;
    BlockReader reader(*storage, temporary.path(), file);
    const std::string content = sample.content();
    reader.read(wanted, [&](std::size_t index, auto block) {
        seen.push_back(index);
        CHECK(std::memcmp(block.data(), content.data() + index * kBlock, block.size()) == 0);
    });
    CHECK(seen == wanted);
    const std::vector<std::size_t> damaged = {3, 4, 5};
    try {
        BlockReader(*storage, temporary.path(), file).read(damaged, [](std::size_t index, auto) {
            CHECK(index == 3);
        });
        FAIL("the damage was not seen");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::corrupt);
        CHECK(std::string(error.what())
                  .find("/a does not hold what was saved: bytes 16777216 to 20971520") !=
              std::string::npos);
    }
    // A file that is cut is refused before a byte is read.
    fs::resize_file(temporary.path() / "a", 5000);
    CHECK_THROWS_WITH_AS(BlockReader(*storage, temporary.path(), file),
                         doctest::Contains("has 5000 bytes, not"), Error);
}

TEST_CASE("where io_uring is refused, threads do the same") {
    const TemporaryDirectory temporary;
    const pid_t child = ::fork();
    if (child == 0) {
        refuse_io_uring();
        int problem = make_uring_queue(4) ? 1 : 0;
        Sample sample("a", {30'000'000});
        WritePlan plan;
        plan.files = {sample.planned};
        write_files(*make_posix_storage(), temporary.path(), plan);
        if (read_file(temporary.path() / "a") != sample.content())
            problem = 2;
        ::_exit(problem);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("io_uring is used where the kernel has it") {
    const auto queue = make_uring_queue(4);
    if (!queue) {
        MESSAGE("skipped: this kernel or build has no io_uring");
        return;
    }
    CHECK(queue->kind() == "io_uring");
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd reader(ends[0]), writer(ends[1]);
    std::byte byte{};
    queue->start({reader.get(), false, 0, &byte, 1, 7});
    REQUIRE(::write(writer.get(), "x", 1) == 1);
    const IoResult result = queue->wait();
    CHECK(result.tag == 7);
    CHECK(result.moved == 1);
    CHECK(byte == static_cast<std::byte>('x'));
}

TEST_CASE("a write that the file system refuses is told with path and reason") {
    const TemporaryDirectory temporary;
    for (const LargeFileOptions& way : kWays) {
        const pid_t child = ::fork();
        if (child == 0) {
            // No file may grow beyond 10 MB.
            const rlimit limit = {10'000'000, 10'000'000};
            ::setrlimit(RLIMIT_FSIZE, &limit);
            ::signal(SIGXFSZ, SIG_IGN);
            Sample sample("too_long", {30'000'000});
            WritePlan plan;
            plan.files = {sample.planned};
            try {
                write_files(*make_posix_storage(way), temporary.path(), plan);
            } catch (const SystemError& error) {
                const bool told = std::string(error.what()).find("too_long") != std::string::npos;
                ::_exit(error.error_number() == EFBIG && told ? 0 : 2);
            }
            ::_exit(1);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
}

}  // namespace large_file_test
