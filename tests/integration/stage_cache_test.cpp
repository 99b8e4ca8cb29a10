// What is staged on a node's own disk: real files, real processes, killed at every system call, and
// disks that are full.
#include "exit_codes/exit_error.hpp"
#include "kill_at_call.hpp"
#include "processes.hpp"
#include "retention/left_run.hpp"
#include "stage_cache/open_to_all.hpp"
#include "stage_cache/shared_cache.hpp"
#include "stage_cache/stage_tree.hpp"
#include "staging/item_source.hpp"
#include "staging/stream_view.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

namespace stage_cache_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::run_killed;
using autolaunch::testing::slurp;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kPlenty = 1LL << 40;

/// In memory, where syncing costs nothing.
class Place {
public:
    Place() {
        std::string name = "/dev/shm/autolaunch-stage-XXXXXX";
        path_ = ::mkdtemp(name.data());
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
        std::string command = "chmod -R u+w " + path_.string() + " && rm -rf " + path_.string();
        CHECK(std::system(command.c_str()) == 0);
    }
    fs::path source() const { return path_ / "source"; }
    fs::path scratch() const { return path_ / "scratch"; }
    fs::path operator/(const char* name) const { return path_ / name; }

private:
    fs::path path_;
};

void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

void fill(const fs::path& source, char with = 'x') {
    write(source / "train" / "a.bin", std::string(3 << 20, with));
    write(source / "train" / "b c.txt", "second");
    write(source / "empty", "");
    write(source / "run.sh", "#!/bin/sh\n");
    fs::permissions(source / "run.sh", fs::perms(0750));
    fs::remove(source / "latest");
    fs::create_symlink("train/a.bin", source / "latest");
}

StagedTree stage(StageCache& cache, const fs::path& from, CopyProgress& progress,
                 StagingRequest request = {}) {
    SourceTree source = walk_source(from);
    request.key = source_key(from.string(), source.tree);
    return stage_tree(cache, source, request, progress);
}

StagedTree stage(StageCache& cache, const fs::path& from) {
    CopyProgress progress;
    return stage(cache, from, progress);
}

std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.insert(entry.path().filename());
    return names;
}

mode_t mode_of(const fs::path& path) {
    struct stat facts {};
    REQUIRE(::lstat(path.c_str(), &facts) == 0);
    return facts.st_mode & 07777;
}

void expect_exit(int code, const std::string& words, const std::function<void()>& act) {
    try {
        act();
        FAIL("it went well");
    } catch (const ExitError& error) {
        CHECK(error.exit_code() == code);
        CAPTURE(error.what());
        CHECK(std::string(error.what()).find(words) != std::string::npos);
        CHECK(!error.hint().empty());
    }
}

/// Whatever is there of it is whole.
void check_whole(StageCache& cache) {
    for (const StageCache::Found& found : cache.list()) {
        if (found.is_part)
            continue;
        const auto held = cache.hold(found.name);
        REQUIRE(held);
        CHECK(cache.why_damaged(*held) == "");
    }
}

}  // namespace

TEST_CASE("what was staged is the source's, read-only, and is found by the next job") {
    const Place place;
    fill(place.source());
    StageCache cache(place.scratch(), kPlenty);
    CopyProgress progress;
    StagedTree first = stage(cache, place.source(), progress);
    CHECK_FALSE(first.was_here);
    CHECK(progress.read_bytes == (3 << 20) + 6 + 10);
    CHECK(first.held.files == 4);
    const fs::path tree = first.held.path;
    CHECK(slurp(tree / "train" / "a.bin") == std::string(3 << 20, 'x'));
    CHECK(slurp(tree / "latest") == slurp(place.source() / "train" / "a.bin"));
    CHECK(slurp(tree / "train" / "b c.txt") == "second");
    CHECK(fs::is_symlink(tree / "latest"));
    CHECK(mode_of(tree / "run.sh") == 0550);
    CHECK(mode_of(tree / "empty") == 0444);
    CHECK(mode_of(tree) == 0555);
    CHECK(mode_of(cache.path()) == 0700);
    CHECK(fs::last_write_time(tree / "empty") == fs::last_write_time(place.source() / "empty"));
    CopyProgress again;
    const StagedTree second = stage(cache, place.source(), again);
    CHECK(second.was_here);
    CHECK(second.held.path == tree);
    CHECK(again.read_bytes == 0);
    CHECK(names_in(cache.path() / "parts").empty());
}

TEST_CASE("one file is staged under its own name") {
    const Place place;
    write(place.source() / "weights.bin", "w");
    fs::create_symlink("weights.bin", place.source() / "newest");
    StageCache cache(place.scratch(), kPlenty);
    const StagedTree staged = stage(cache, place.source() / "newest");
    CHECK(staged.held.path.filename() == "newest");
    CHECK(slurp(staged.held.path) == "w");
    CHECK_FALSE(fs::is_symlink(staged.held.path));
}

TEST_CASE("two versions of one source are beside each other; equal ones are one") {
    const Place place;
    fill(place.source());
    StageCache cache(place.scratch(), kPlenty);
    const StagedTree old = stage(cache, place.source());
    fill(place.source(), 'y');
    const StagedTree now = stage(cache, place.source());
    CHECK(old.held.path != now.held.path);
    CHECK(slurp(old.held.path / "train" / "a.bin").front() == 'x');
    CHECK(slurp(now.held.path / "train" / "a.bin").front() == 'y');
    fill(place / "elsewhere", 'y');
    CopyProgress progress;
    const StagedTree same = stage(cache, place / "elsewhere", progress);
    CHECK(same.held.path == now.held.path);
    CHECK(names_in(cache.path() / "data").size() == 2);
    CHECK(names_in(cache.path() / "parts").empty());
}

TEST_CASE("room is made of what was not used for longest, and of nothing that is held") {
    const Place place;
    const std::int64_t most = 10 << 20;
    StageCache cache(place.scratch(), most);
    const auto stage_one = [&](const char* name, char with) {
        write(place / name, std::string(4 << 20, with));
        return stage(cache, place / name);
    };
    stage_one("a", 'a');
    StagedTree b = stage_one("b", 'b');
    timespec long_ago[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
    REQUIRE(::utimensat(AT_FDCWD, b.held.path.parent_path().parent_path().c_str(), long_ago, 0) ==
            0);
    // b is older and held: a goes.
    const StagedTree c = stage_one("c", 'c');
    CHECK(stage(cache, place / "b").was_here);
    CHECK(names_in(cache.path() / "data").size() == 2);
    expect_exit(73, "no room", [&] { stage_one("d", 'd'); });
    CHECK(names_in(cache.path() / "parts").empty());
    CHECK(names_in(cache.path() / "sources").size() == 2);
    b = {};
    CHECK_FALSE(stage_one("d", 'd').was_here);
    expect_exit(73, "no room", [&] {
        write(place / "large", std::string(most + 1, 'l'));
        stage(cache, place / "large");
    });
}

TEST_CASE("a copy that was changed is staged anew, and never used") {
    const Place place;
    fill(place.source());
    StageCache cache(place.scratch(), kPlenty);
    const auto meddle = [&](const std::function<void(const fs::path&)>& act, bool is_held) {
        std::optional<StagedTree> holder;
        fs::path tree;
        {
            StagedTree staged = stage(cache, place.source());
            tree = staged.held.path;
            if (is_held)
                holder = std::move(staged);
        }
        fs::permissions(tree, fs::perms(0755));
        fs::permissions(tree / "run.sh", fs::perms(0755));
        act(tree);
        fs::permissions(tree / "run.sh", fs::perms(0550));
        const StagedTree anew = stage(cache, place.source());
        CHECK_FALSE(anew.was_here);
        REQUIRE(anew.notes.size() == 1);
        CHECK(anew.notes[0].find("is not as it was staged") != std::string::npos);
        CHECK(slurp(anew.held.path / "run.sh") == "#!/bin/sh\n");
        CHECK(cache.why_damaged(anew.held) == "");
        CHECK((anew.held.path != tree) == is_held);
    };
    meddle([](const fs::path& tree) { write(tree / "run.sh", "#!/bin/rm\n"); }, false);
    meddle([](const fs::path& tree) { write(tree / "more", ""); }, false);
    meddle([](const fs::path& tree) { fs::remove(tree / "latest"); }, false);
    meddle([](const fs::path& tree) { write(tree / "run.sh", "#!/bin/rm\n"); }, true);
}

TEST_CASE("what keeps its time of change and differs is found by reading") {
    const Place place;
    fill(place.source());
    StageCache cache(place.scratch(), kPlenty);
    const StagedTree staged = stage(cache, place.source());
    const fs::path file = staged.held.path / "train" / "a.bin";
    const auto time = fs::last_write_time(file);
    fs::permissions(file, fs::perms(0644));
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write("z", 1);
    fs::permissions(file, fs::perms(0444));
    fs::last_write_time(file, time);
    CHECK(cache.why_damaged(staged.held) == "train/a.bin has another content");
}

TEST_CASE("what cannot be staged is named") {
    const Place place;
    StageCache cache(place.scratch(), kPlenty);
    expect_exit(66, "source", [&] { stage(cache, place.source()); });
    const auto with_link = [&](const char* target) {
        fill(place.source());
        fs::create_symlink(target, place.source() / "train" / "out");
        expect_exit(65, "/train/out leads out", [&] { stage(cache, place.source()); });
        fs::remove(place.source() / "train" / "out");
    };
    with_link("/etc/passwd");
    with_link("../../source/empty");
    with_link("../train/../../x");
    REQUIRE(::mkfifo((place.source() / "pipe").c_str(), 0600) == 0);
    expect_exit(65, "/pipe is neither", [&] { stage(cache, place.source()); });
    CHECK(names_in(cache.path() / "data").empty());
    CHECK(names_in(cache.path() / "parts").empty());
}

TEST_CASE("a source that changes meanwhile is an error, and leaves nothing") {
    const Place place;
    fill(place.source());
    StageCache cache(place.scratch(), kPlenty);
    CopyProgress progress;
    StagingRequest slow;
    slow.copy.bytes_per_second = 20 << 20;  // 150 ms
    std::jthread other([&] {
        while (progress.bytes < 1 << 20)
            std::this_thread::yield();
        std::fstream(place.source() / "train" / "a.bin", std::ios::in | std::ios::out)
            .write("q", 1);
    });
    expect_exit(66, "a.bin was changed while it was staged",
                [&] { stage(cache, place.source(), progress, slow); });
    other.join();
    CHECK(names_in(cache.path() / "data").empty());
    CHECK(names_in(cache.path() / "parts").empty());
}

TEST_CASE("a tree that is not what it should be does not count") {
    const Place place;
    fill(place.source());
    StageCache cache(place.scratch(), kPlenty);
    StagingRequest request;
    request.verify = [](int, const Tree&) {
        throw ExitError(exit_code::kBadData, ErrorCode::mismatch, "another digest", "x");
    };
    CopyProgress progress;
    expect_exit(65, "another digest", [&] { stage(cache, place.source(), progress, request); });
    CHECK(names_in(cache.path() / "data").empty());
    CHECK(names_in(cache.path() / "parts").empty());
}

TEST_CASE("of several processes that want the same one copies, and all have it") {
    const Place place;
    fill(place.source());
    constexpr int kProcesses = 6;
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    for (int i = 0; i < kProcesses; ++i)
        if (::fork() == 0) {
            StageCache cache(place.scratch(), kPlenty);
            CopyProgress progress;
            StagingRequest slow;
            slow.copy.bytes_per_second = 30 << 20;
            stage(cache, place.source(), progress, slow);
            const std::int64_t read = progress.read_bytes;
            ::_exit(::write(ends[1], &read, sizeof read) == sizeof read ? 0 : 1);
        }
    std::int64_t all = 0;
    for (int i = 0; i < kProcesses; ++i) {
        std::int64_t read = 0;
        REQUIRE(::read(ends[0], &read, sizeof read) == sizeof read);
        all += read;
        ::wait(nullptr);
    }
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(all == (3 << 20) + 6 + 10);
}

TEST_CASE("a process that is killed lets go of what it held, and its half is gone on with") {
    for (const bool is_of_another_boot : {false, true}) {
        CAPTURE(is_of_another_boot);
        const Place place;
        fill(place.source());
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const pid_t child = ::fork();
        if (child == 0) {
            StageCache cache(place.scratch(), kPlenty);
            CopyProgress progress;
            StagingRequest request;
            request.copy.threads = 1;
            request.check_source = [&] {
                const bool told = ::write(ends[1], "x", 1) == 1;
                for (;;)
                    ::pause();
                (void)told;
            };
            stage(cache, place.source(), progress, request);
        }
        char byte = 0;
        REQUIRE(::read(ends[0], &byte, 1) == 1);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        ::close(ends[0]);
        ::close(ends[1]);
        StageCache cache(place.scratch(), kPlenty);
        const auto parts = names_in(cache.path() / "parts");
        REQUIRE(parts.size() == 1);
        if (is_of_another_boot)
            std::ofstream(cache.path() / "parts" / *parts.begin() / "boot") << "another";
        CopyProgress progress;
        StagingRequest request;
        // What is of no use takes no room meanwhile.
        request.check_source = [&] { CHECK(names_in(cache.path() / "gone").empty()); };
        stage(cache, place.source(), progress, request);
        CHECK((is_of_another_boot ? progress.read_bytes : progress.found_bytes) ==
              (3 << 20) + 6 + 10);
        CHECK((is_of_another_boot ? progress.found_bytes : progress.read_bytes) == 0);
        check_whole(cache);
    }
}

TEST_CASE("killed at any system call of a staging, a process leaves what is whole or not there") {
    const Place place;
    write(place.source() / "one" / "file", std::string(5000, 'k'));
    write(place.source() / "two", "2");
    StageCache cache(place.scratch(), kPlenty);
    const auto killed_at = [&](int fatal) {
        const int calls = run_killed(fatal, [&] {
            StageCache its(place.scratch(), kPlenty);
            CopyProgress progress;
            StagingRequest request;
            request.copy.threads = 1;
            stage(its, place.source(), progress, request);
        });
        if (calls == -77) {
            std::printf("skipped: processes cannot be traced here\n");
            std::exit(77);
        }
        return calls;
    };
    const auto clear = [&] {
        for (const StageCache::Found& found : cache.list())
            CHECK(cache.remove(found.name));
    };
    const int calls = killed_at(0);
    CHECK(calls > 100);
    for (int fatal = 1; fatal <= calls; ++fatal) {
        CAPTURE(fatal);
        clear();
        killed_at(fatal);
        check_whole(cache);
        std::int64_t whole = 0;  // of a file that was given its last mode
        for (const std::string& part : names_in(cache.path() / "parts"))
            if (const fs::path file = cache.path() / "parts" / part / "tree" / "one" / "file";
                fs::exists(file) &&
                (fs::status(file).permissions() & fs::perms::owner_write) == fs::perms::none)
                whole += 5000;
        CopyProgress progress;
        const StagedTree after = stage(cache, place.source(), progress);
        CHECK(progress.found_bytes >= whole);
        CHECK(cache.why_damaged(after.held) == "");
        CHECK(slurp(after.held.path / "one" / "file") == std::string(5000, 'k'));
        CHECK(names_in(cache.path() / "parts").empty());
        CHECK(names_in(cache.path() / "data").size() == 1);
    }
}

namespace {

/// What a job's stager does with `start: streaming`; ranks look into `streams`.
StagedTree stream(StageCache& cache, const fs::path& from, const fs::path& streams,
                  const std::string& verify = {}, std::int64_t bytes_per_second = 0) {
    ItemSource item({"tokens", from.string(), verify, "", true}, {}, nullptr);
    SourceTree source = item.look();
    StreamView view(streams / "tokens", source.tree, verify, from.string());
    StagingRequest request;
    request.key = source_key(item.words(), source.tree);
    request.copy.threads = 1;
    request.copy.bytes_per_second = bytes_per_second;
    item.stream_for(request, view);
    CopyProgress progress;
    StagedTree staged = stage_tree(cache, source, request, progress);
    CHECK_FALSE(staged.was_here);
    view.finish();
    return staged;
}

}  // namespace

TEST_CASE("what comes is seen file by file, whole, in the order of its listing") {
    const Place place;
    for (const char* name : {"a", "b/1", "b/2", "c"})
        write(place.source() / name, std::string(1 << 20, *name));
    write(place.source() / "empty", "");
    fs::create_symlink("b/2", place.source() / "late");
    StageCache cache(place.scratch(), kPlenty);
    const LockedFolder streams = cache.make_folder_for_copies();
    std::optional<StagedTree> staged;
    std::jthread other(
        [&] { staged = stream(cache, place.source(), streams.path(), "", 8 << 20); });
    const fs::path tree = streams.path() / "tokens" / "tree";
    const std::vector<std::string> order = {"a", "b/1", "b/2", "c", "empty"};
    const auto count = [&] {
        std::size_t there = 0;
        while (there < order.size() && fs::exists(tree / order[there]))
            ++there;
        for (std::size_t later = there; later < order.size(); ++later)  // not before those
            if (fs::exists(tree / order[later]))
                there = std::max(there, later), later = order.size();
        return there;
    };
    std::set<std::size_t> seen;
    for (std::size_t there = 0; there < order.size();) {
        there = count();
        seen.insert(there);
        for (std::size_t i = 0; i < there; ++i)
            REQUIRE(fs::file_size(tree / order[i]) == fs::file_size(place.source() / order[i]));
        if (there > 0)
            CHECK(mode_of(tree / order[there - 1]) == 0444);
    }
    other.join();
    CHECK(seen.size() > 3);
    REQUIRE(staged);
    for (const std::string& name : order)
        CHECK(slurp(tree / name) == slurp(place.source() / name));
    CHECK(slurp(tree / "late") == slurp(place.source() / "b/2"));
    CHECK(mode_of(tree) == 0555);
    CHECK(cache.why_damaged(staged->held) == "");
    CHECK(names_in(staged->held.path.parent_path()) ==
          std::set<std::string>{"manifest", "marks", "tree"});
    CHECK(slurp(streams.path() / "tokens" / "listing") ==
          "autolaunch stream 1 folder 5 4194304\n1048576 a\n1048576 b/1\n1048576 b/2\n1048576 "
          "c\n0 empty\n");
}

TEST_CASE("a folder without files streams, too") {
    const Place place;
    fs::create_directories(place.source() / "a" / "b");
    StageCache cache(place.scratch(), kPlenty);
    const LockedFolder streams = cache.make_folder_for_copies();
    CHECK(stream(cache, place.source(), streams.path()).held.files == 0);
    CHECK(fs::is_directory(streams.path() / "tokens" / "tree" / "a" / "b"));
}

TEST_CASE("a file is seen once its own digest was compared, and never with another") {
    const Place place;
    const std::string one(9, '1'), two(9, '2');
    write(place.source() / "one", one);
    write(place.source() / "two", two);
    // sha256sum of nine digits each
    const std::string of_one = "1a5376ad727d65213a79f3108541cf95012969a0d3064f108b5dd6e7f8c19b89";
    write(place.source() / "LIST", of_one + "  one\n" + of_one + "  two\n");
    StageCache cache(place.scratch(), kPlenty);
    const LockedFolder streams = cache.make_folder_for_copies();
    expect_exit(65, "has sha256:", [&] { stream(cache, place.source(), streams.path(), "LIST"); });
    CHECK_FALSE(fs::exists(streams.path() / "tokens" / "tree" / "two"));
    CHECK(names_in(cache.path() / "parts").empty());
    CHECK(names_in(cache.path() / "data").empty());
    write(place.source() / "LIST", of_one + "  one\n");
    const LockedFolder others = cache.make_folder_for_copies();
    expect_exit(65, "two is not in LIST",
                [&] { stream(cache, place.source(), others.path(), "LIST"); });
}

TEST_CASE("killed at any system call while ranks look on, what they have seen is whole") {
    const Place place;
    write(place.source() / "one" / "file", std::string(5000, 'k'));
    write(place.source() / "two", "2");
    const auto killed_at = [&](int fatal) {
        return run_killed(fatal, [&] {
            StageCache its(place.scratch(), kPlenty);
            const LockedFolder streams = its.make_folder_for_copies();
            stream(its, place.source(), streams.path());
        });
    };
    const auto check_seen = [&] {
        for (const auto& streams :
             fs::directory_iterator(stage_folder(place.scratch()) / "stage" / "copies"))
            for (const char* name : {"one/file", "two"}) {
                const fs::path file = streams.path() / "tokens" / "tree" / name;
                if (fs::exists(file))
                    CHECK(slurp(file) == slurp(place.source() / name));
            }
    };
    const int calls = killed_at(0);
    if (calls == -77) {
        std::printf("skipped: processes cannot be traced here\n");
        std::exit(77);
    }
    CHECK(calls > 100);
    // Each of its calls is stopped twice, as it begins and as it ends.
    for (int fatal = 1; fatal <= calls; fatal += 2) {
        CAPTURE(fatal);
        {
            StageCache before(place.scratch(), kPlenty);
            for (const StageCache::Found& found : before.list())
                CHECK(before.remove(found.name));
        }
        killed_at(fatal);
        check_seen();
        StageCache cache(place.scratch(), kPlenty);
        CHECK(names_in(cache.path() / "copies").empty());
        check_whole(cache);
        const StagedTree after = stage(cache, place.source());
        CHECK(cache.why_damaged(after.held) == "");
        CHECK(slurp(after.held.path / "one" / "file") == std::string(5000, 'k'));
        CHECK(names_in(cache.path() / "parts").empty());
        CHECK(cache.list().size() == 1);
    }
}

TEST_CASE("killed at any system call of a removal, a process leaves what is whole or not there") {
    const Place place;
    write(place.source() / "one" / "file", "1");
    write(place.source() / "two", "2");
    for (int fatal = 0, calls = 1; fatal <= calls; ++fatal) {
        CAPTURE(fatal);
        StageCache cache(place.scratch(), kPlenty);
        const std::string name = stage(cache, place.source()).held.name;
        const int its = run_killed(fatal, [&] { cache.remove(name); });
        if (its == -77)
            return;  // the case above has said so
        calls = fatal == 0 ? its : calls;
        StageCache after(place.scratch(), kPlenty);
        check_whole(after);
        CHECK(names_in(after.path() / "gone").empty());
        const StagedTree staged = stage(after, place.source());
        CHECK(after.why_damaged(staged.held) == "");
    }
}

TEST_CASE(
    "gc is killed at every system call of a run's removal: it is whole, or the next one ends it") {
    const Place place;
    const fs::path runs = place / "runs";
    const AskSlurm nobody = [](const std::string&) { return std::nullopt; };
    int calls = 1;
    for (int fatal = 0; fatal <= calls; ++fatal) {
        CAPTURE(fatal);
        fs::create_directories(runs / "one" / "generation-0" / "rank-0");
        for (const char* file : {"events.jsonl", "plan.json", "generation-0/rank-0/stdout"})
            std::ofstream(runs / "one" / file) << "x\n";
        const LeftRun run{.folder = (runs / "one").string()};
        const int its = run_killed(fatal, [&] { remove_run(run); });
        if (its == -77)
            return;  // a case above has said so
        calls = fatal == 0 ? its : calls;
        if (fs::exists(runs / "one")) {
            CHECK(slurp(runs / "one" / "generation-0" / "rank-0" / "stdout") == "x\n");
            CHECK(remove_run(run));
        }
        for (const LeftRun& half : find_runs({runs.string()}, nobody)) {
            CHECK(half.is_half);
            CHECK(judge_run(half, 0, {}).goes);
            CHECK(remove_run(half));
        }
        if (fs::exists(runs / ".autolaunch-gone"))  // empty
            fs::remove(runs / ".autolaunch-gone");
        CHECK(names_in(runs).empty());
    }
    CHECK(calls > 20);
}

TEST_CASE("a file that does not say how much it holds is an error, one that is empty is not") {
    const Place place;
    StageCache cache(place.scratch(), kPlenty);
    expect_exit(66, "has more bytes than it says", [&] { stage(cache, "/proc/self/status"); });
    CHECK(names_in(cache.path() / "parts").empty());
    write(place / "nothing", "");
    CHECK_FALSE(stage(cache, place / "nothing").was_here);
}

TEST_CASE("a scratch that everybody could replace is refused") {
    const Place place;
    fs::create_directories(place / "open");
    fs::permissions(place / "open", fs::perms::all);
    fs::permissions(place / ".", fs::perms(0755));  // else nobody gets there
    expect_exit(73, "everybody may write to the folder",
                [&] { refuse_open_scratch(place / "open", {}); });
    refuse_open_scratch(place / "open", {.open_parents = true});
    fs::permissions(place / "open", fs::perms::all | fs::perms::sticky_bit);
    refuse_open_scratch(place / "open", {});
}

TEST_CASE("a full disk is an error with its name, and leaves no half") {
    const bool root = ::geteuid() == 0;
    if (::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        std::printf("skipped: no mounts of our own: %s\n", std::strerror(errno));
        std::exit(77);
    }
    const Place place;
    fs::create_directories(place.scratch());
    REQUIRE(::mount("tmpfs", place.scratch().c_str(), "tmpfs", 0, "size=4m") == 0);
    fill(place.source());
    {
        StageCache cache(place.scratch(), kPlenty);
        const StagedTree first = stage(cache, place.source());
        CHECK_FALSE(first.was_here);
        write(place / "large", std::string(2 << 20, 'l'));
        expect_exit(73, "no room", [&] { stage(cache, place / "large"); });
        // One that grows too large only while it is written: 2 MiB fit, somebody else takes them.
        fs::create_directories(place / "many");
        for (int i = 0; i < 8; ++i)
            write(place / "many" / std::to_string(i), std::string(90'000, 'm'));
        StagingRequest slow;
        slow.copy.bytes_per_second = 4 << 20;
        slow.copy.threads = 1;
        CopyProgress progress;
        std::jthread other([&] {
            while (progress.files < 2)
                std::this_thread::yield();
            std::ofstream ballast(place.scratch() / "ballast", std::ios::binary);
            const std::string block(4096, 'b');
            while (ballast.write(block.data(), 4096).flush()) {
            }
        });
        expect_exit(73, "No space left on device",
                    [&] { stage(cache, place / "many", progress, slow); });
        other.join();
        CHECK(names_in(cache.path() / "parts").empty());
        CHECK(names_in(cache.path() / "data").size() == 1);
        CHECK(stage(cache, place.source()).was_here);
        fs::remove(place.scratch() / "ballast");
        CHECK_FALSE(stage(cache, place / "many").was_here);
        check_whole(cache);
        // Full to the last page before anything is begun: what nobody uses makes room.
        std::ofstream ballast(place.scratch() / "ballast", std::ios::binary);
        const std::string block(4096, 'b');
        while (ballast.write(block.data(), 4096).flush()) {
        }
        write(place / "small", "s");
        CHECK_FALSE(stage(cache, place / "small").was_here);
        CHECK(names_in(cache.path() / "parts").empty());
        check_whole(cache);
    }
    ::umount(place.scratch().c_str());
}

namespace {

constexpr uid_t kSomebodyElse = 65534;

/// A site's cache of this user, beside a source that all can read.
class SharedSite {
public:
    SharedSite() {
        // The way to it has to be passable for others, and theirs to write to nowhere.
        fs::permissions(place_.source().parent_path(), fs::perms(0711));
        write(place_.source() / "one" / "file", std::string(5000, 's'));
        write(place_.source() / "two", "2");
        fs::create_symlink("one/file", place_.source() / "latest");
        fs::permissions(place_.source(), fs::perms(0755));
        fs::permissions(place_.source() / "one", fs::perms(0755));
        fs::permissions(place_.source() / "one" / "file", fs::perms(0644));
        fs::permissions(place_.source() / "two", fs::perms(0755));
    }
    const Place& place() const { return place_; }
    SharedPlace shared() const { return {place_ / "shared", owner_}; }
    std::string key() const {
        return source_key(place_.source().string(), walk_source(place_.source()).tree);
    }
    /// What a job finds; `note` has to say that, or nothing.
    std::optional<HeldTree> find(const std::string& expected = {}) const {
        std::string note;
        auto held = SharedCache(shared()).find(key(), note);
        CAPTURE(note);
        CHECK(expected.empty() == note.empty());
        CHECK(note.find(expected) != std::string::npos);
        return held;
    }

private:
    Place place_;
    uid_t owner_ = ::geteuid();
};

/// As another user, in a process of its own. True without one that can become him.
bool as_somebody_else(const std::function<bool()>& act) {
    if (::geteuid() != 0)
        return true;
    const pid_t child = ::fork();
    if (child == 0) {
        const bool is_he = ::setgid(kSomebodyElse) == 0 && ::setuid(kSomebodyElse) == 0;
        ::_exit(is_he && act() ? 0 : 1);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a site's cache is for all to read, by the key of what they can read, and to list not") {
    const SharedSite site;
    CHECK_FALSE(site.find());  // nobody has made it
    {
        StageCache cache(site.shared(), kPlenty);
        CHECK_FALSE(stage(cache, site.place().source()).was_here);
        CHECK(stage(cache, site.place().source()).was_here);
    }
    const auto held = site.find();
    REQUIRE(held);
    CHECK(held->is_shared);
    CHECK(held->bytes == 5001);
    const fs::path folder = site.shared().folder;
    CHECK(mode_of(folder) == 0755);
    for (const char* passed : {"data", "sources"})
        CHECK(mode_of(folder / passed) == 0711);
    for (const char* own : {"parts", "gone", "copies"})
        CHECK(mode_of(folder / own) == 0700);
    for (const char* text : {"manifest", "marks"})
        CHECK(mode_of(folder / "data" / held->name / text) == 0444);
    CHECK(mode_of(folder / "sources" / site.key()) == 0444);
    CHECK(as_somebody_else([&] {
        std::string note;
        const auto his = SharedCache(site.shared()).find(site.key(), note);
        std::error_code refused;
        fs::directory_iterator(folder / "data", refused);
        bool cannot_fill = false;
        try {
            StageCache(site.shared(), kPlenty);
        } catch (const ExitError& error) {
            cannot_fill = error.exit_code() == 77;
        }
        return his && slurp(his->path / "latest") == std::string(5000, 's') && refused &&
               cannot_fill && !SharedCache(site.shared()).find(std::string(32, '0'), note) &&
               note.empty();
    }));
}

TEST_CASE("what a job uses of a site's cache its owner does not remove") {
    const SharedSite site;
    StageCache cache(site.shared(), kPlenty);
    const std::string name = stage(cache, site.place().source()).held.name;
    auto held = site.find();
    std::string note;
    auto again = SharedCache(site.shared()).hold(name, note);
    REQUIRE(again);
    CHECK(again->path == held->path);
    held.reset();
    CHECK_FALSE(cache.remove(name));
    again.reset();
    // A job leaves the time of its use at the manifest, which its owner's look does not touch.
    const fs::path folder = site.shared().folder / "data" / name;
    const timespec long_ago[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
    REQUIRE(::utimensat(AT_FDCWD, folder.c_str(), long_ago, 0) == 0);
    const timespec later[2] = {{.tv_sec = 2000, .tv_nsec = 0},
                               {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    REQUIRE(::utimensat(AT_FDCWD, (folder / "manifest").c_str(), later, 0) == 0);
    for (int look = 0; look < 2; ++look)
        CHECK(cache.list().at(0).used_s == 2000);
    CHECK(cache.remove(name));
    CHECK_FALSE(site.find());
}

TEST_CASE("nothing is believed in a site's cache that others than its owner could have written") {
    const SharedSite site;
    const fs::path folder = site.shared().folder;
    StageCache cache(site.shared(), kPlenty);
    const fs::path data = folder / "data" / stage(cache, site.place().source()).held.name;
    const fs::path source = folder / "sources" / site.key();
    const auto open_to_others = [&](const fs::path& path, const std::string& expected) {
        CAPTURE(path.string());
        const mode_t was = mode_of(path);
        REQUIRE(::chmod(path.c_str(), was | S_IWGRP) == 0);
        CHECK_FALSE(site.find(expected));
        REQUIRE(::chmod(path.c_str(), was) == 0);
        if (::geteuid() != 0)
            return;
        REQUIRE(::lchown(path.c_str(), kSomebodyElse, 0) == 0);
        CHECK_FALSE(site.find("belongs to user 65534"));
        REQUIRE(::lchown(path.c_str(), 0, 0) == 0);
    };
    for (const fs::path& path : {folder, folder.parent_path(), folder / "data", folder / "sources",
                                 source, data, data / "manifest", data / "marks", data / "tree"})
        open_to_others(path, path.string() + " may be written by others");
    open_to_others(data / "tree" / "one", "one may be written by others");
    open_to_others(data / "tree" / "two", "two has another size or mode");
    CHECK(site.find());
    for (const fs::path& path : {folder, folder / "data", folder / "sources", source, data,
                                 data / "manifest", data / "tree"}) {
        CAPTURE(path.string());
        const fs::path elsewhere = site.place() / "elsewhere";
        fs::rename(path, elsewhere);
        fs::create_symlink(elsewhere, path);
        CHECK_FALSE(site.find("is not used for this: "));
        fs::remove(path);
        fs::rename(elsewhere, path);
    }
    CHECK(site.find());
    expect_exit(73, "may be written by others", [&] {
        fs::permissions(folder / "data", fs::perms(0775));
        StageCache(site.shared(), kPlenty);
    });
    expect_exit(73, "everybody may write to", [&] {
        fs::permissions(folder / "data", fs::perms(0777));
        StageCache(site.shared(), kPlenty);
    });
    CHECK_FALSE(SharedCache({"shared", 0}).place().folder.is_absolute());
    std::string note;
    CHECK_FALSE(SharedCache({"shared", 0}).find(site.key(), note));
    CHECK(note.find("no absolute path") != std::string::npos);
}

TEST_CASE("killed at any system call of its filling, a site's cache has what all can read or not") {
    const SharedSite site;
    const auto killed_at = [&](int fatal) {
        return run_killed(fatal, [&] {
            StageCache its(site.shared(), kPlenty);
            CopyProgress progress;
            StagingRequest request;
            request.copy.threads = 1;
            stage(its, site.place().source(), progress, request);
        });
    };
    const int calls = killed_at(0);
    if (calls == -77)
        return;  // a case above has said so
    StageCache cache(site.shared(), kPlenty);
    int found = 0, not_there = 0;
    for (const int fatal : autolaunch::testing::fatal_calls(calls, 3)) {
        CAPTURE(fatal);
        for (const StageCache::Found& one : cache.list())
            CHECK(cache.remove(one.name));
        killed_at(fatal);
        const auto held = site.find();
        ++(held ? found : not_there);
        if (held)
            CHECK(slurp(held->path / "one" / "file") == std::string(5000, 's'));
        CHECK(stage(cache, site.place().source()).held.files == 2);
        CHECK(site.find());
        CHECK(as_somebody_else([&] {
            std::string note;
            return SharedCache(site.shared()).find(site.key(), note).has_value();
        }));
    }
    CHECK(found > 0);
    CHECK(not_there > 0);
}

TEST_CASE("only what everybody can read where it lies is for a site's cache") {
    const SharedSite site;
    const fs::path source = site.place().source();
    const auto look = [&](const fs::path& what) { require_open_to_all(walk_source(what)); };
    CHECK_NOTHROW(look(source));
    CHECK_NOTHROW(look(source / "two"));
    const auto refused = [&](const fs::path& path, int mode, const fs::path& what) {
        CAPTURE(path.string());
        const mode_t was = mode_of(path);
        fs::permissions(path, fs::perms(mode));
        expect_exit(65, path.string() + " is not for everybody to read", [&] { look(what); });
        fs::permissions(path, fs::perms(was));
    };
    refused(source / "two", 0640, source);
    refused(source / "two", 0604, source);
    refused(source / "two", 0640, source / "two");
    refused(source / "one", 0711, source);
    refused(source, 0710, source);
    refused(source.parent_path(), 0700, source);
    refused(source.parent_path(), 0710, source / "two");
    // What an archive holds may have any modes: they are opened.
    StageCache cache(site.shared(), kPlenty);
    fs::permissions(source / "one" / "file", fs::perms(0700));
    const StagedTree staged = stage(cache, source);
    CHECK(mode_of(staged.held.path / "one" / "file") == 0555);
    CHECK(mode_of(staged.held.path / "two") == 0555);
}

}  // namespace stage_cache_test
