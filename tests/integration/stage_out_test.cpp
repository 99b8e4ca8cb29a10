// What ranks have written on a node's own disk and where it goes: real files, processes that are
// killed at system calls, targets that are full or let nobody write.
#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "kill_at_call.hpp"
#include "processes.hpp"
#include "stage_out/finish_left.hpp"
#include "stage_out/out_copy.hpp"

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stage_out_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::fatal_calls;
using autolaunch::testing::run_killed;
using autolaunch::testing::slurp;
namespace fs = std::filesystem;

namespace {

/// In memory, where syncing costs nothing.
class OutPlace {
public:
    OutPlace() {
        std::string name = "/dev/shm/autolaunch-out-XXXXXX";
        path_ = ::mkdtemp(name.data());
        fs::create_directories(path_ / "run");
    }
    OutPlace(const OutPlace&) = delete;
    OutPlace& operator=(const OutPlace&) = delete;
    ~OutPlace() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    fs::path scratch() const { return path_ / "scratch"; }
    fs::path target() const { return path_ / "target"; }
    OutOrder order(const std::string& node = "node1", int nodes = 1) const {
        return {.run_id = "4711",
                .node = node,
                .run_dir = (path_ / "run").string(),
                .nodes = nodes,
                .timeout = std::chrono::hours(1),
                .entries = {{.name = "res", .to = target().string()}}};
    }

private:
    fs::path path_;
};

void put_file(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

void fill_out(const OutFolder& folder) {
    const fs::path there = folder.path_of("res");
    put_file(there / "a" / "large", std::string(3 << 20, 'x'));
    put_file(there / "a" / "b c\n", "second");
    put_file(there / "empty", "");
    fs::create_directories(there / "no" / "files");
    fs::create_symlink("a/large", there / "newest");
}

OutDone copy_folder(const OutFolder& folder, OutCounters& counters, int threads = 4,
                    std::vector<std::string>* notes = nullptr) {
    return copy_out({.folder = folder,
                     .entry = folder.order().entries.at(0),
                     .counters = counters,
                     .note =
                         [notes](const std::string& note) {
                             if (notes != nullptr)
                                 notes->push_back(note);
                         },
                     .will_copy = [](std::int64_t) {},
                     .threads = threads},
                    {});
}
OutDone copy_folder(const OutFolder& folder, std::vector<std::string>* notes = nullptr) {
    OutCounters counters;
    return copy_folder(folder, counters, 4, notes);
}

/// This thread, and those that it starts, are bound by modes, also root's.
class WithoutOverride {
public:
    WithoutOverride() {
        ::syscall(SYS_capget, &header_, before_);
        __user_cap_data_struct now[2] = {before_[0], before_[1]};
        now[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
        ::syscall(SYS_capset, &header_, now);
    }
    WithoutOverride(const WithoutOverride&) = delete;
    WithoutOverride& operator=(const WithoutOverride&) = delete;
    ~WithoutOverride() { ::syscall(SYS_capset, &header_, before_); }

private:
    __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct before_[2] = {};
};

std::vector<std::string> names_below(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        names.push_back(entry.path().lexically_relative(folder).string());
    std::sort(names.begin(), names.end());
    return names;
}

const std::vector<std::string> kAllOut = {"a",      "a/b c\n", "a/large", "empty",
                                          "newest", "no",      "no/files"};

}  // namespace

TEST_CASE("all files come to the target as they were, and go here then") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    fs::permissions(folder.path_of("res") / "empty", fs::perms(0640));
    ::mkfifo((folder.path_of("res") / "pipe").c_str(), 0600);
    struct stat before {};
    struct stat after {};
    ::stat((folder.path_of("res") / "empty").c_str(), &before);
    std::vector<std::string> notes;
    const OutDone done = copy_folder(folder, &notes);
    CHECK(done.what == "");
    CHECK(done.files == 4);
    CHECK(done.left_files == 0);
    CHECK(done.bytes == (3 << 20) + 6);
    CHECK(names_below(place.target()) == kAllOut);
    CHECK(slurp(place.target() / "a" / "large") == std::string(3 << 20, 'x'));
    CHECK(fs::read_symlink(place.target() / "newest") == "a/large");
    ::stat((place.target() / "empty").c_str(), &after);
    CHECK(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    CHECK((after.st_mode & 0777) == 0640);
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].find("pipe") != std::string::npos);
    CHECK_FALSE(folder.has("res"));
    folder.remove_if_empty();
    CHECK(fs::is_empty(out_root(place.scratch())));
}

TEST_CASE("what is there with another content stays, and so does ours") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    put_file(place.target() / "a" / "b c\n", "SECOND");
    const OutDone clash = copy_folder(folder);
    CHECK(clash.exit_code == 73);
    CHECK(clash.what.find("with another content: that of node1 stays here") != std::string::npos);
    CHECK(clash.left_files == 1);
    CHECK(clash.left_bytes == 6);
    CHECK(slurp(place.target() / "a" / "b c\n") == "SECOND");
    CHECK(slurp(folder.path_of("res") / "a" / "b c\n") == "second");
    CHECK(slurp(place.target() / "a" / "large").size() == 3 << 20);
    // Its own earlier version is none of somebody else.
    put_file(folder.path_of("res") / "a" / "large", "newer");
    fs::remove(place.target() / "a" / "b c\n");
    const OutDone done = copy_folder(folder);
    CHECK(done.what == "");
    CHECK(done.found_files == 2);
    CHECK(slurp(place.target() / "a" / "large") == "newer");
    CHECK(names_below(place.target()) == kAllOut);
}

TEST_CASE("the user's word replaces what is there, and a folder never") {
    const OutPlace place;
    auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    put_file(place.target() / "a" / "b c\n", "SECOND");
    fs::create_directories(place.target() / "empty");
    folder.set_terms(true, false);
    const OutDone clash = copy_folder(folder);
    CHECK(clash.exit_code == 73);
    CHECK(clash.what.find("is there, and no file") != std::string::npos);
    CHECK(slurp(place.target() / "a" / "b c\n") == "second");
    fs::remove(place.target() / "empty");
    CHECK(copy_folder(folder).what == "");
}

TEST_CASE("two nodes that have written one name are both named, equal files are one") {
    const OutPlace place;
    const auto one = OutFolder::make(place.scratch(), place.order("node1", 2), false);
    const auto two = OutFolder::make(place.scratch(), place.order("node2", 2), false);
    for (const OutFolder* folder : {&one, &two})
        put_file(folder->path_of("res") / "same", "same");
    put_file(one.path_of("res") / "log", "of one");
    put_file(two.path_of("res") / "log", "of two");
    CHECK(copy_folder(one).what == "");
    const OutDone clash = copy_folder(two);
    CHECK(clash.exit_code == 73);
    CHECK(clash.what.find("log was written by node2 and by node1") != std::string::npos);
    CHECK(clash.found_files == 1);
    auto apart = OutFolder::open(two.path(), false);
    REQUIRE(apart);
    apart->set_terms(false, true);
    CHECK(copy_folder(*apart).what == "");
    CHECK(slurp(place.target() / "node2" / "log") == "of two");
    CHECK(slurp(place.target() / "log") == "of one");
}

TEST_CASE("a link that leads out is named, and everything else is copied") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    fs::create_symlink("/etc/passwd", folder.path_of("res") / "out");
    const OutDone done = copy_folder(folder);
    CHECK(done.exit_code == 65);
    CHECK(done.what.find("leads out of its folder, to /etc/passwd") != std::string::npos);
    CHECK(done.left_files == 1);
    CHECK(names_below(place.target()) == kAllOut);
}

TEST_CASE("what cannot be listed is never taken for empty, and everything else is copied") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    const fs::path closed = folder.path_of("res") / "closed";
    put_file(closed / "inner" / "precious", "mine");
    {
        const WithoutOverride user;
        fs::permissions(closed, fs::perms::none);
        const OutDone done = copy_folder(folder);
        CHECK(done.exit_code == 66);
        CHECK(done.what == "cannot list " + closed.string() + ": Permission denied");
        CHECK(done.left_files == 1);
        CHECK(folder.has_files("res"));
        CHECK_FALSE(folder.is_copied("res"));
        fs::permissions(closed, fs::perms::owner_all);
        fs::permissions(folder.path_of("res"), fs::perms::none);
        CHECK(folder.has_files("res"));
        CHECK(copy_folder(folder).exit_code == 66);
        fs::permissions(folder.path_of("res"), fs::perms::owner_all);
    }
    CHECK(copy_folder(folder).what == "");
    CHECK(slurp(place.target() / "closed" / "inner" / "precious") == "mine");
}

TEST_CASE("a file in the place of an entry's folder, and one beside it, are said and stay") {
    const OutPlace place;
    fs::path job, stray;
    {
        const auto folder = OutFolder::make(place.scratch(), place.order(), false);
        job = folder.path();
        fs::remove(folder.path_of("res"));
        put_file(folder.path_of("res"), "mine");
        const OutDone done = copy_folder(folder);
        CHECK(done.exit_code == 66);
        CHECK(done.hint.find("no folder any more") != std::string::npos);
        CHECK(folder.has_files("res"));
    }
    const auto finish = [&](FinishRequest request) {
        std::string said;
        request.scratch = place.scratch().string();
        const int code = finish_left(request, [&](const std::string& line) { said += line; });
        return std::pair(code, said);
    };
    CHECK(finish({.scratch = {}, .jobs = {}}).first == 66);
    CHECK(slurp(job / "data" / "res") == "mine");
    fs::remove(job / "data" / "res");
    put_file(job / "data" / "stray", "mine");
    const auto [code, said] = finish({.scratch = {}, .jobs = {}});
    CHECK(code == 66);
    CHECK(said.find("stray is in no entry's folder") != std::string::npos);
    CHECK(slurp(job / "data" / "stray") == "mine");
    CHECK(finish({.scratch = {}, .jobs = {"4711"}, .discard = true}).first == 0);
    CHECK_FALSE(fs::exists(job));
}

TEST_CASE("a file in a folder's place there is of that folder, modes of folders stay") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    fs::permissions(folder.path_of("res") / "no", fs::perms::owner_all);
    put_file(place.target() / "a", "another's");
    const OutDone done = copy_folder(folder);
    CHECK(done.exit_code == 73);
    CHECK(done.hint.find("move it away") != std::string::npos);
    CHECK(done.left_files == 2);
    CHECK(names_below(place.target()) ==
          std::vector<std::string>{"a", "empty", "newest", "no", "no/files"});
    CHECK(fs::status(place.target() / "no").permissions() == fs::perms::owner_all);
    fs::remove(place.target() / "a");
    CHECK(copy_folder(folder).what == "");
}

TEST_CASE("what no Error is is reported, too") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    OutCounters counters;
    const auto copy = [&](const std::function<void(std::int64_t)>& will_copy) {
        return copy_out({.folder = folder,
                         .entry = folder.order().entries.at(0),
                         .counters = counters,
                         .note = [](const std::string&) {},
                         .will_copy = will_copy},
                        {});
    };
    CHECK(copy([](std::int64_t) { throw std::bad_alloc(); }).exit_code == 71);
    const OutDone bug = copy([](std::int64_t) { throw std::out_of_range("somewhere"); });
    CHECK(bug.exit_code == 70);
    CHECK(bug.what == "a bug of autolaunch: somewhere");
    CHECK(bug.left_files == 4);
    CHECK(copy([](std::int64_t) {}).exit_code == 0);
}

TEST_CASE("a job that was requeued goes on in its folder, another one does not") {
    const OutPlace place;
    fs::path path;
    {
        const auto folder = OutFolder::make(place.scratch(), place.order(), false);
        path = folder.path();
        put_file(folder.path_of("res") / "log", "one\n");
        folder.set_end(OutEnd::requeued);
        CHECK(OutFolder::make(place.scratch(), place.order(), true).path() != path);  // it is held
    }
    CHECK(OutFolder::make(place.scratch(), place.order(), false).path() != path);
    std::optional<OutFolder> looked = OutFolder::open(path, true);  // somebody lists what is left
    const std::jthread over([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        looked.reset();
    });
    const auto again = OutFolder::make(place.scratch(), place.order(), true);
    CHECK(again.path() == path);
    CHECK(again.was_here());
    CHECK(again.end() == OutEnd::unknown);
    CHECK(slurp(again.path_of("res") / "log") == "one\n");
}

TEST_CASE("what is written while the others are copied is not removed") {
    const OutPlace place;
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    OutCounters counters;
    const auto copy = [&](const std::function<void(std::int64_t)>& meanwhile) {
        return copy_out({.folder = folder,
                         .entry = folder.order().entries.at(0),
                         .counters = counters,
                         .note = [](const std::string&) {},
                         .will_copy = meanwhile},
                        {});
    };
    const fs::path late = folder.path_of("res") / "late";
    const OutDone done = copy([&](std::int64_t) { put_file(late, "more"); });
    CHECK(done.exit_code == 66);
    CHECK(done.what == late.string() + " was written while the others were copied");
    CHECK(slurp(late) == "more");
    CHECK(copy([](std::int64_t) {}).exit_code == 0);
    CHECK(slurp(place.target() / "late") == "more");
    CHECK_FALSE(fs::exists(late));
}

TEST_CASE("killed at any system call, whoever comes next copies what is missing") {
    const OutPlace place;
    const auto killed_at = [&](int fatal) {
        const int calls = run_killed(fatal, [&] {
            const auto left = list_left_out(place.scratch());
            auto its = OutFolder::open(left.at(0).path, true);
            OutCounters counters;
            copy_folder(*its, counters, 1);
            its->remove_if_empty();
        });
        if (calls == -77) {
            std::printf("skipped: processes cannot be traced here\n");
            std::exit(77);
        }
        return calls;
    };
    const std::string one(70000, 'k'), two = "2";
    const auto begin = [&] {
        fs::remove_all(place.target());
        fs::remove_all(place.scratch());
        const auto folder = OutFolder::make(place.scratch(), place.order(), false);
        put_file(folder.path_of("res") / "d" / "one", one);
        put_file(folder.path_of("res") / "two", two);
        fs::create_symlink("two", folder.path_of("res") / "link");
        return folder.path_of("res");
    };
    begin();
    const int calls = killed_at(0);
    CHECK(calls > 100);
    for (const int fatal : fatal_calls(calls, 6)) {
        CAPTURE(fatal);
        const fs::path here = begin();
        killed_at(fatal);
        // Each file is at one of the places at least, and whole wherever it has its name.
        const auto is_whole = [](const fs::path& path, const std::string& text) {
            return !fs::exists(path) || slurp(path) == text;
        };
        CHECK(is_whole(place.target() / "d" / "one", one));
        CHECK(is_whole(place.target() / "two", two));
        CHECK((fs::exists(here / "two") || fs::exists(place.target() / "two")));
        CHECK((fs::exists(here / "d" / "one") || fs::exists(place.target() / "d" / "one")));
        for (const LeftOut& left : list_left_out(place.scratch())) {
            CHECK(left.why_unreadable == "");
            std::string said;
            CHECK(finish_left({.scratch = place.scratch().string(), .jobs = {}},
                              [&](const std::string& line) { said += line; }) == 0);
            CAPTURE(said);
            CHECK(said.find("copied") != std::string::npos);
        }
        CHECK(join(names_below(place.target()), " ") == "d d/one link two");
        CHECK(slurp(place.target() / "d" / "one") == one);
        CHECK(list_left_out(place.scratch()).empty());
        CHECK(fs::is_empty(out_root(place.scratch())));
    }
}

TEST_CASE("a target that is full or read-only is named, and nothing half is left there") {
    const bool root = ::geteuid() == 0;
    if (::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        std::printf("skipped: no mounts of our own: %s\n", std::strerror(errno));
        std::exit(77);
    }
    const OutPlace place;
    fs::create_directories(place.target());
    REQUIRE(::mount("tmpfs", place.target().c_str(), "tmpfs", 0, "size=1m") == 0);
    const auto folder = OutFolder::make(place.scratch(), place.order(), false);
    fill_out(folder);
    const OutDone full = copy_folder(folder);
    CHECK(full.exit_code == 73);
    CHECK(full.what.find("No space left on device") != std::string::npos);
    CHECK(full.left_files >= 1);
    for (const std::string& name : names_below(place.target())) {
        CAPTURE(name);
        CHECK(name.find(".part") == std::string::npos);
        CHECK(name != "a/large");
    }
    REQUIRE(::mount("tmpfs", place.target().c_str(), "tmpfs", MS_REMOUNT, "size=8m") == 0);
    REQUIRE(::mount("tmpfs", place.target().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) ==
            0);
    const OutDone read_only = copy_folder(folder);
    CHECK(read_only.exit_code == 73);
    CHECK(read_only.what.find("Read-only file system") != std::string::npos);
    REQUIRE(::mount("tmpfs", place.target().c_str(), "tmpfs", MS_REMOUNT, "size=8m") == 0);
    CHECK(copy_folder(folder).what == "");
    CHECK(names_below(place.target()) == kAllOut);
    ::umount(place.target().c_str());
}

}  // namespace stage_out_test
