// Logs and events on a disk that fills up: small file systems of our own. Exits with 77 where none
// can be mounted.
#include "logs/log_room.hpp"
#include "base/file_io.hpp"
#include "base/room_on_disk.hpp"
#include "causes/failure_evidence.hpp"
#include "logs/log_follower.hpp"
#include "logs/rank_files.hpp"
#include "report/event_log.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace log_room_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// A tmpfs of this size in a mount namespace of ours.
struct SmallDisk {
    explicit SmallDisk(const std::string& size) {
        static const bool own = ::unshare(CLONE_NEWNS) == 0 &&
                                ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
        std::string name = "/tmp/log-room-test-XXXXXX";
        path = ::mkdtemp(name.data());
        const std::string options = "mode=755,size=" + size;
        if (own && ::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0)
            return;
        std::printf("skipped: no mounts of our own: %s\n", std::strerror(errno));
        ::rmdir(path.c_str());
        std::exit(77);
    }
    ~SmallDisk() {
        ::umount2(path.c_str(), MNT_DETACH);
        ::rmdir(path.c_str());
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    // All that is left but so many bytes.
    void fill() const {
        const UniqueFd fd = open_file(path / "filler", O_WRONLY | O_CREAT | O_APPEND);
        const std::string block(4096, 'x');
        while (::write(fd.get(), block.data(), block.size()) > 0) {
        }
    }
    void empty() const { fs::remove(path / "filler"); }

    fs::path path;
};

struct Lines final : LineSink {
    std::vector<std::string> text;

    bool ready(OutputStream) const override { return true; }
    void write_line(OutputStream, std::string_view, std::string_view line) override {
        text.emplace_back(line);
    }
    void write_bytes(OutputStream, std::string_view) override {}
    bool shows_live(OutputStream) const override { return false; }
    void set_live(std::vector<LiveLine>) override {}
    bool written() const override { return true; }
    bool flush(Deadline) override { return true; }
};

std::string numbered(int line) {
    std::string text = std::to_string(line);
    text.resize(99, '.');
    return text + '\n';
}

Event step(int number) {
    StepReported report;
    report.step = number;
    return {std::chrono::system_clock::time_point(1'700'000'000'042ms), 0, report};
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// As most network file systems answer. Of the calling thread alone, and for the rest of its life.
void refuse_fallocate() {
    const sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {4, const_cast<sock_filter*>(filter)};
    REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

}  // namespace

TEST_CASE("a rank on a full disk goes on printing: its log keeps its beginning and its end") {
    const SmallDisk disk("1m");
    const RankFiles files = open_rank_files(open_generation_folder(disk.path, 0), 0);
    LogRoom room;
    room.add_rank(files);
    LogFollower follower({}, "n");
    follower.add_rank(0, 0, files);
    Lines shown;
    std::vector<std::string> said;
    const auto tick = [&](int lines) {
        if (std::string text = room.keep({}); !text.empty())
            said.push_back(std::move(text));
        if (lines % 100 == 0)
            follower.follow(shown);
    };
    tick(0);
    disk.fill();
    constexpr int kLines = 20'000;  // 2 MB
    int failed = 0;
    for (int line = 0; line < kLines; ++line) {
        const std::string text = numbered(line);
        if (::write(files.out.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
            ++failed;
        if (line % 20 == 19)
            tick(line);
    }
    CHECK(failed == 0);
    REQUIRE(said.size() == 1);
    CHECK(contains(said.front(), "No space left on device"));
    CHECK(contains(said.front(), "rank-0/stdout"));
    CHECK(contains(room.given_up(), "B of what ranks printed are missing in the middle of "));

    const std::string log = read_file(files.stdout_path);
    CHECK(log.size() == kLines * 100);
    CHECK(log.starts_with(numbered(0) + numbered(1)));
    CHECK(log.ends_with(numbered(kLines - 1)));
    CHECK(contains(log, "the disk was full: what stood from here to the next line was given up"));

    const FailureEvidence evidence = collect_evidence("", files.stdout_path, "");
    REQUIRE(evidence.last_lines.size() == 64);
    CHECK(evidence.last_lines.front() + '\n' == numbered(kLines - 64));

    follower.drain(shown, Deadline::after(5s));
    for (const auto& line : shown.text)
        CHECK(line.find('\0') == std::string::npos);
    CHECK(shown.text.back() + '\n' == numbered(kLines - 1));
}

TEST_CASE("where there is plenty of room, logs are reserved a little later") {
    const SmallDisk disk("3g");
    const RankFiles files = open_rank_files(open_generation_folder(disk.path, 0), 0);
    const auto blocks = [&] {
        struct stat facts {};
        REQUIRE(::stat(files.stdout_path.c_str(), &facts) == 0);
        return facts.st_blocks;
    };
    const RoomLeft left = room_left(files.out.get());
    CHECK(left.bytes > LogRoom::kPlenty);
    CHECK(left.bytes <= std::int64_t{3} << 30);
    LogRoom room;
    room.add_rank(files);
    const auto now = LogRoom::Clock::now();
    room.keep({}, now - LogRoom::kFirst / 2);
    // An old kernel tells no quotas: there nothing waits.
    CHECK((blocks() == 0) == left.knows_quotas);
    room.keep({}, now + LogRoom::kFirst);
    CHECK(blocks() * 512 >= 64 * 1024);
}

TEST_CASE("what was reserved and not used is the disk's again, and room takes more") {
    const SmallDisk disk("4m");
    const RankFiles files = open_rank_files(open_generation_folder(disk.path, 0), 0);
    const auto blocks = [&] {
        struct stat facts {};
        REQUIRE(::stat(files.stdout_path.c_str(), &facts) == 0);
        return facts.st_blocks;
    };
    {
        LogRoom room;
        room.add_rank(files);
        write_all(files.out.get(), "one line\n", "log");
        CHECK(room.keep({}) == "");
        CHECK(blocks() * 512 >= 64 * 1024);
        CHECK(room.given_up() == "");
    }
    CHECK(blocks() * 512 == 4096);
    CHECK(read_file(files.stdout_path) == "one line\n");
}

TEST_CASE("where no room can be kept, it is said once that there is none any more") {
    const SmallDisk disk("4m");
    const RankFiles files = open_rank_files(open_generation_folder(disk.path, 0), 0);
    const auto now = LogRoom::Clock::now();
    {
        LogRoom room;
        room.add_rank(files);
        CHECK(room.keep({}, now) == "");
        CHECK_FALSE(room.cannot_keep(files.directory));
    }
    std::thread([&] {
        refuse_fallocate();
        LogRoom room;
        room.add_rank(files);
        CHECK(room.keep({}, now) == "");
        CHECK(room.cannot_keep(files.directory));
        CHECK_FALSE(room.cannot_keep(disk.path));
        disk.fill();
        CHECK(room.keep({}, now + LogRoom::kLook / 2) == "");  // a server is not asked all the time
        const std::string said = room.keep({}, now + LogRoom::kLook);
        CHECK(contains(said, "No space left on device: " + disk.path.string()));
        CHECK(contains(said, "this file system can keep none for it"));
        CHECK(room.keep({}, now + 2 * LogRoom::kLook) == "");
        CHECK(room.given_up() == "");
        CHECK(std::distance(fs::directory_iterator(files.directory), fs::directory_iterator()) ==
              2);
    }).join();
}

TEST_CASE("logs that are removed under their ranks are said once, and counted at the end") {
    std::string name = "/tmp/log-room-test-XXXXXX";
    const fs::path folder = ::mkdtemp(name.data());
    const RankFiles files = open_rank_files(open_generation_folder(folder, 0), 0);
    LogRoom room;
    room.add_rank(files);
    const auto start = LogRoom::Clock::now();
    CHECK(room.keep({}, start).empty());
    fs::remove_all(folder);
    CHECK(::write(files.out.get(), "lost words\n", 11) == 11);
    const std::string said = room.keep({}, start + LogRoom::kLook);
    CHECK_MESSAGE(contains(said, "2 logs, as "), said);
    CHECK_MESSAGE(contains(said, "were removed while ranks write there: 11 B"), said);
    CHECK(room.keep({}, start + 3 * LogRoom::kLook).empty());
    CHECK_MESSAGE(room.given_up().ends_with("11 B are lost"), room.given_up());
    EventLog log(folder / "events.jsonl");
    CHECK(log.append(step(1)) == EventLog::Outcome::recorded);
    fs::remove_all(folder);
    CHECK(log.append(step(2)) == EventLog::Outcome::lost_first);
    CHECK(log.append(step(3)) == EventLog::Outcome::lost);
    CHECK(log.lost() == 2);
    CHECK(log.why_lost().ends_with("events.jsonl was removed"));
}

TEST_CASE("events on a full disk are counted, lines stay whole, and recording goes on with room") {
    const SmallDisk disk("64k");
    EventLog log(disk.path / "events.jsonl");
    using Outcome = EventLog::Outcome;
    CHECK(log.append(step(0)) == Outcome::recorded);
    disk.fill();
    int recorded = 1;
    while (log.append(step(recorded)) == Outcome::recorded)
        ++recorded;  // what is left of its page
    CHECK(log.append(step(1000)) == Outcome::lost);
    CHECK(log.append(step(1001)) == Outcome::lost);
    CHECK(log.lost() == 3);
    CHECK(contains(log.why_lost(), "No space left on device"));
    CHECK(read_file(disk.path / "events.jsonl").ends_with("}\n"));
    disk.empty();
    CHECK(log.append(step(1002)) == Outcome::recorded_again);
    CHECK(log.append(step(1003)) == Outcome::recorded);
    const std::string text = read_file(disk.path / "events.jsonl");
    CHECK(contains(text,
                   "\"event\":\"warning\",\"text\":\"3 events are missing here: cannot write "));
    CHECK(text.ends_with("\"step\":1003}\n"));
    CHECK(log.lost() == 3);
}

TEST_CASE("whether a folder can be written is found out by writing") {
    const SmallDisk disk("64k");
    CHECK(why_no_room(disk.path) == "");
    disk.fill();
    CHECK(why_no_room(disk.path) == "No space left on device");
    CHECK(fs::exists(disk.path / "filler"));
    CHECK(std::distance(fs::directory_iterator(disk.path), fs::directory_iterator()) == 1);
    disk.empty();
    REQUIRE(::mount("tmpfs", disk.path.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    CHECK(why_no_room(disk.path) == "Read-only file system");
    CHECK(why_no_room(disk.path / "absent") == "No such file or directory");
}

TEST_CASE("room that a killed agent had reserved is given back by who follows it") {
    const SmallDisk disk("8m");
    const fs::path run = fs::path(disk.path) / "run", log = rank_directory(run, 2, 5) / "stdout";
    fs::create_directories(log.parent_path());
    const auto blocks = [](const fs::path& file) {
        struct stat facts {};
        REQUIRE(::stat(file.c_str(), &facts) == 0);
        return facts.st_blocks * 512;
    };
    UniqueFd file(::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640));
    write_all(file.get(), "its last words\n", "a log");
    REQUIRE(::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, LogRoom::kMostReserved) == 0);
    REQUIRE(blocks(log) >= LogRoom::kMostReserved);
    // A file that somebody's link leads to is left alone.
    const fs::path other = fs::path(disk.path) / "other";
    UniqueFd theirs(::open(other.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640));
    REQUIRE(::fallocate(theirs.get(), FALLOC_FL_KEEP_SIZE, 0, LogRoom::kMostReserved) == 0);
    fs::create_symlink(other, log.parent_path() / "stderr");

    give_back_room(run, 2, 5);  // of generations before it
    CHECK(blocks(log) >= LogRoom::kMostReserved);
    give_back_room(run, 7, 4);  // another rank's
    CHECK(blocks(log) >= LogRoom::kMostReserved);
    give_back_room(run, 7, 5);
    CHECK(blocks(log) <= 4096);
    CHECK(fs::file_size(log) == 15);
    CHECK(blocks(other) >= LogRoom::kMostReserved);
}

}  // namespace log_room_test
