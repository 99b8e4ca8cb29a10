// What another user of the machine prepares in a place that all may write to, and folders of ours.
#include "base/owned_folder.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/workspace.hpp"
#include "logs/rank_files.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace owned_folder_test {

using namespace autolaunch;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kStranger = 65534;

// A place like /tmp: sticky, and all may write to it.
struct SharedPlace {
    SharedPlace() {
        std::string name = "/tmp/owned-folder-test-XXXXXX";
        path = ::mkdtemp(name.data());
        REQUIRE(::chmod(path.c_str(), 01777) == 0);
        write_file(path / "victim", "precious", 0600);
    }
    ~SharedPlace() { fs::remove_all(path); }
    SharedPlace(const SharedPlace&) = delete;
    SharedPlace& operator=(const SharedPlace&) = delete;

    fs::path path;
};

bool is_root() {
    if (::geteuid() == 0)
        return true;
    MESSAGE("skipped: only root can be another user too");
    return false;
}

void as_stranger(const std::function<bool()>& what) {
    const pid_t child = ::fork();
    if (child == 0) {
        const bool done = ::setgid(kStranger) == 0 && ::setuid(kStranger) == 0 && what();
        ::_exit(done ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
}

std::string refusal(const std::function<void()>& what) {
    try {
        what();
    } catch (const Error& error) {
        CHECK(std::string(error.hint()) != "");
        return error.what();
    }
    return "it was not refused";
}

void check_tells(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

mode_t mode_of(const fs::path& path) {
    struct stat facts {};
    REQUIRE(::lstat(path.c_str(), &facts) == 0);
    return facts.st_mode & 07777;
}

}  // namespace

TEST_CASE("a folder that another user prepared is not written into") {
    if (!is_root())
        return;
    const SharedPlace shared;
    const fs::path run = shared.path / "run";
    as_stranger([&] {
        return ::mkdir(run.c_str(), 0777) == 0 && ::chmod(run.c_str(), 0777) == 0 &&
               ::symlink((shared.path / "victim").c_str(), (run / "plan.json").c_str()) == 0;
    });
    check_tells(refusal([&] { OwnedFolder::make(run); }), "belongs to another user (uid 65534)");
    check_tells(refusal([&] { OwnedFolder::open(run); }), "belongs to another user (uid 65534)");
    check_tells(
        refusal([&] { launcher::open_rank_files(launcher::open_generation_folder(run, 0), 0); }),
        "another user");
    CHECK(read_file(shared.path / "victim") == "precious");
    CHECK(list_folder(run).size() == 1);
}

TEST_CASE("another user's link in the place of the folder is not followed, a user's own is") {
    if (!is_root())
        return;
    const SharedPlace shared;
    const fs::path ours = shared.path / "ours";
    OwnedFolder::make(ours);
    as_stranger([&] { return ::symlink(ours.c_str(), (shared.path / "run").c_str()) == 0; });
    check_tells(refusal([&] { OwnedFolder::make(shared.path / "run"); }), "is a symbolic link");
    check_tells(refusal([&] { OwnedFolder::make(shared.path / "run/"); }), "is a symbolic link");
    CHECK(list_folder(ours).empty());

    fs::create_symlink(ours, shared.path / "latest");
    OwnedFolder::make(shared.path / "latest").append("log");
    CHECK(fs::exists(ours / "log"));
}

TEST_CASE("in a shared place what others prepared under our names is refused, each in its words") {
    if (!is_root())
        return;
    const SharedPlace shared;
    const fs::path victim = shared.path / "victim";
    as_stranger([&] {
        const auto in = [&](const char* name) { return (shared.path / name).string(); };
        return ::symlink(victim.c_str(), in("link").c_str()) == 0 &&
               ::symlink(in("nowhere").c_str(), in("dangling").c_str()) == 0 &&
               ::symlink("/etc", in("generation-0").c_str()) == 0 &&
               ::mkfifo(in("fifo").c_str(), 0666) == 0 &&
               ::close(::open(in("theirs").c_str(), O_WRONLY | O_CREAT, 0666)) == 0;
    });
    fs::create_hard_link(victim, shared.path / "second-name");  // protected_hardlinks may be off
    const OwnedFolder folder = OwnedFolder::open(shared.path);
    check_tells(refusal([&] { folder.append("link"); }), "is a symbolic link");
    check_tells(refusal([&] { folder.append("dangling"); }), "is a symbolic link");
    check_tells(refusal([&] { folder.append("fifo"); }), "is not a regular file");
    check_tells(refusal([&] { folder.append("theirs"); }), "belongs to another user (uid 65534)");
    check_tells(refusal([&] { folder.append("second-name"); }), "has another name too");
    check_tells(refusal([&] { folder.folder("generation-0"); }), "is a symbolic link");
    CHECK_THROWS_AS(folder.create("link"), SystemError);
    CHECK_THROWS_AS(folder.create("dangling"), SystemError);
    folder.replace("second-name", "plan");
    CHECK(read_file(shared.path / "second-name") == "plan");
    CHECK(read_file(victim) == "precious");
    CHECK_FALSE(fs::exists(shared.path / "nowhere"));
}

TEST_CASE("a folder that everybody may write to is refused, unless it is sticky") {
    const SharedPlace shared;
    const fs::path open_to_all = shared.path / "open";
    OwnedFolder::make(open_to_all);
    REQUIRE(::chmod(open_to_all.c_str(), 0777) == 0);
    check_tells(refusal([&] { OwnedFolder::open(open_to_all); }), "everybody may write");
    REQUIRE(::chmod(open_to_all.c_str(), 01777) == 0);
    CHECK_NOTHROW(OwnedFolder::open(open_to_all));
}

TEST_CASE("a mode and a group that somebody asked for count exactly") {
    const SharedPlace shared;
    const mode_t before = ::umask(077);
    set_workspace({.folder = 0770, .exact = true, .group = ::getegid(), .open_parents = false});
    const OwnedFolder folder = OwnedFolder::make(shared.path / "team/4711");
    folder.folder("generation-0").append("stdout");
    folder.replace("plan.json", "{}", 0600);
    set_workspace({});
    ::umask(before);
    CHECK(mode_of(shared.path / "team/4711") == 02770);
    CHECK(mode_of(shared.path / "team/4711/generation-0") == 02770);
    CHECK(mode_of(shared.path / "team/4711/generation-0/stdout") == 0660);
    CHECK(mode_of(shared.path / "team/4711/plan.json") == 0600);
    CHECK(!folder.folder("generation-0").is_new());
}

TEST_CASE("a way through a folder that everybody may write to is refused") {
    const SharedPlace shared;  // sticky
    const auto refused = [](const fs::path& path, Workspace how = {}) {
        return refusal([&] { refuse_open_parents(path, how); }).find("everybody may write") !=
               std::string::npos;
    };
    CHECK(!refused(shared.path / "not/there/yet"));
    const fs::path open = shared.path / "open";
    fs::create_directory(open);
    REQUIRE(::chmod(open.c_str(), 0777) == 0);
    CHECK(refused(open / "not/there/yet"));
    CHECK(!refused(open));  // its owner's, and OwnedFolder's, to judge
    CHECK(!refused(open / "x", {.open_parents = true}));
    fs::create_directory_symlink(open, shared.path / "link");
    CHECK(refused(shared.path / "link/x"));
    const fs::path closed = shared.path / "closed";
    fs::create_directories(closed / "open");
    REQUIRE(::chmod((closed / "open").c_str(), 0777) == 0);
    REQUIRE(::chmod(closed.c_str(), 0700) == 0);
    CHECK(!refused(closed / "open/x"));  // nobody else comes there
    REQUIRE(::chmod(closed.c_str(), 0710) == 0);
    CHECK(refused(closed / "open/x"));
}

TEST_CASE("modes as people write them, and as ranks are told") {
    CHECK(folder_mode_from("0750") == mode_t(0750));
    CHECK(folder_mode_from("750") == mode_t(0750));
    CHECK(folder_mode_from("0o2770") == mode_t(02770));
    for (const char* wrong :
         {"", "75", "0777", "0640", "4755", "1777", "rwx", "0758", "-750", "07500000"})
        CHECK(!folder_mode_from(wrong));
    const Workspace made{.folder = 02770, .exact = true, .group = 2001, .open_parents = true};
    CHECK(to_text(made) == "mode=2770,group=2001,open-parents");
    CHECK(workspace_from(to_text(made)) == made);
    for (const char* wrong : {"", "mode=0777", "group=-1", "group=x", "mode=0750,", "what"})
        CHECK_THROWS_AS(workspace_from(wrong), Error);
}

TEST_CASE("what is made is for its group to read and not for the world, less the umask") {
    const SharedPlace shared;
    const mode_t before = ::umask(022);
    const OwnedFolder folder = OwnedFolder::make(shared.path / "runs/4711");
    folder.folder("generation-0").append("stdout");
    folder.replace("plan.json", "{}", 0600);
    ::umask(077);
    folder.folder("mine").append("log");
    ::umask(before);
    CHECK(mode_of(shared.path / "runs") == 0750);
    CHECK(mode_of(shared.path / "runs/4711") == 0750);
    CHECK(mode_of(shared.path / "runs/4711/generation-0") == 0750);
    CHECK(mode_of(shared.path / "runs/4711/generation-0/stdout") == 0640);
    CHECK(mode_of(shared.path / "runs/4711/plan.json") == 0600);
    CHECK(mode_of(shared.path / "runs/4711/mine") == 0700);
    CHECK(mode_of(shared.path / "runs/4711/mine/log") == 0600);
}

TEST_CASE("names stay ours in a folder of ours, of root's, or in a sticky one") {
    const SharedPlace shared;
    const fs::path folder = shared.path / "folder";
    REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
    CHECK(keeps_our_names(shared.path));
    CHECK(keeps_our_names(folder));
    CHECK_FALSE(keeps_our_names(shared.path / "victim"));
    CHECK_FALSE(keeps_our_names(shared.path / "absent"));
    REQUIRE(::chmod(folder.c_str(), 0770) == 0);
    CHECK_FALSE(keeps_our_names(folder));
    if (!is_root())
        return;
    REQUIRE(::chmod(folder.c_str(), 0700) == 0);
    REQUIRE(::chown(folder.c_str(), kStranger, kStranger) == 0);
    CHECK_FALSE(keeps_our_names(folder));
}

TEST_CASE("a folder for us alone is no one that others prepared, or may look into") {
    const SharedPlace shared;
    const OwnedFolder place = OwnedFolder::open(shared.path);
    CHECK(mode_of(place.private_folder("ours").path()) == 0700);
    CHECK_NOTHROW(place.private_folder("ours"));
    place.folder("readable");
    check_tells(refusal([&] { place.private_folder("readable"); }), "not a folder of ours alone");
    fs::create_directory_symlink(shared.path / "ours", shared.path / "link");
    check_tells(refusal([&] { place.private_folder("link"); }), "is a symbolic link");
    CHECK_NOTHROW(refuse_strangers_link(shared.path / "link"));
    CHECK_NOTHROW(refuse_strangers_link(shared.path / "absent"));
    if (!is_root())
        return;
    as_stranger([&] {
        return ::mkdir((shared.path / "theirs").c_str(), 0700) == 0 &&
               ::symlink((shared.path / "ours").c_str(), (shared.path / "trap").c_str()) == 0;
    });
    check_tells(refusal([&] { place.private_folder("theirs"); }), "belongs to another user");
    check_tells(refusal([&] { place.private_folder("trap"); }), "is a symbolic link");
    check_tells(refusal([&] { refuse_strangers_link(shared.path / "trap"); }),
                "is a symbolic link");
}

TEST_CASE("what is read in a folder of ours is a file of ours, and no more than is wanted") {
    const SharedPlace shared;
    const OwnedFolder folder = OwnedFolder::open(shared.path);
    CHECK_FALSE(folder.read("absent", 10));
    folder.replace("word", "0123456789");
    CHECK(folder.read("word", 10) == "0123456789");
    CHECK_THROWS_WITH_AS(folder.read("word", 9), doctest::Contains("too long"), Error);
    const std::string large(300'000, 'x');  // more than is read at first
    std::ofstream(folder.path() / "large") << large;
    CHECK(folder.read("large", std::size_t{1} << 40) == large);  // a bound that no memory has
    CHECK(folder.read("large", large.size()) == large);
    CHECK_THROWS_WITH_AS(folder.read("large", large.size() - 1), doctest::Contains("too long"),
                         Error);
    fs::create_symlink(shared.path / "victim", shared.path / "link");
    check_tells(refusal([&] { folder.read("link", 10); }), "is a symbolic link");
    REQUIRE(::mkfifo((shared.path / "fifo").c_str(), 0600) == 0);
    check_tells(refusal([&] { folder.read("fifo", 10); }), "is not a regular file");
}

TEST_CASE("a file is gone on with at its end, in blocking mode, and replaced whole") {
    const SharedPlace shared;
    const OwnedFolder folder = OwnedFolder::make(shared.path / "run");
    write_all(folder.append("log").get(), "one\n", "log");
    const UniqueFd again = folder.append("log");
    write_all(again.get(), "two\n", "log");
    CHECK(read_file(folder.path() / "log") == "one\ntwo\n");
    CHECK((::fcntl(again.get(), F_GETFL) & (O_APPEND | O_NONBLOCK)) == O_APPEND);
    CHECK((::fcntl(again.get(), F_GETFD) & FD_CLOEXEC) != 0);
    fs::create_hard_link(folder.path() / "log", shared.path / "backup");
    CHECK_NOTHROW(folder.append("log"));  // nobody else could have done that
    folder.replace("log", "new");
    CHECK(read_file(folder.path() / "log") == "new");
    CHECK(read_file(shared.path / "backup") == "one\ntwo\n");
    folder.remove("log");
    folder.remove("log");
    CHECK(list_folder(folder.path()).empty());
}

}  // namespace owned_folder_test
