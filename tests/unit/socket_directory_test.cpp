#include "rank_services/socket_directory.hpp"

#include "base/locked_folder.hpp"
#include "remains/abandoned_jobs.hpp"
#include "remains/other_users.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

namespace socket_directory_test {

using namespace autolaunch;
using autolaunch::launcher::SocketDirectory;
namespace fs = std::filesystem;

namespace {

void sweep() {
    autolaunch::launcher::sweep_abandoned_jobs(
        {.places = SocketDirectory::places(), .prefix = SocketDirectory::name_prefix()});
}

struct RuntimeFolder {
    RuntimeFolder() {
        std::string name = "/tmp/socket-directory-test-XXXXXX";
        path = ::mkdtemp(name.data());
        ::setenv("XDG_RUNTIME_DIR", path.c_str(), 1);
    }
    ~RuntimeFolder() {
        fs::remove_all(path);
        ::unsetenv("XDG_RUNTIME_DIR");
    }
    RuntimeFolder(const RuntimeFolder&) = delete;
    RuntimeFolder& operator=(const RuntimeFolder&) = delete;

    fs::path path;
};

void make_older(const fs::path& folder, int seconds) {
    const timespec then{std::time(nullptr) - seconds, 0};
    const timespec both[2] = {then, then};
    REQUIRE(::utimensat(AT_FDCWD, folder.c_str(), both, 0) == 0);
}

bool is_owners_alone(const fs::path& folder) {
    return (fs::status(folder).permissions() & fs::perms::mask) == fs::perms::owner_all;
}

}  // namespace

TEST_CASE("a socket directory is its user's alone, and gone with its owner") {
    const RuntimeFolder runtime;
    fs::path path;
    {
        const SocketDirectory directory;
        path = directory.path();
        CHECK(path.parent_path() == runtime.path);
        CHECK(is_owners_alone(path));
        std::ofstream(path / "agent-0") << "a socket";
    }
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("what a killed autolaunch left is removed, however young, and nothing else") {
    const RuntimeFolder runtime;
    const std::string prefix = "autolaunch-" + std::to_string(::getuid()) + "-";
    const fs::path old = runtime.path / (prefix + "killed"),
                   young = runtime.path / (prefix + "new"),
                   shared_memory = runtime.path / (prefix + "killed-mpi-0"),
                   other = runtime.path / "autolaunch-of-another-kind",
                   link = runtime.path / (prefix + "link"), target = runtime.path / "target";
    for (const auto& folder : {old, young, shared_memory, other, target}) {
        fs::create_directory(folder);
        std::ofstream(folder / "agent-0") << "a socket";
    }
    fs::create_directory_symlink(target, link);
    make_older(old, 120);
    make_older(other, 120);

    sweep();
    CHECK_FALSE(fs::exists(old));
    CHECK_FALSE(fs::exists(young));
    CHECK_FALSE(fs::exists(shared_memory));
    CHECK(fs::exists(other / "agent-0"));
    CHECK(fs::exists(target / "agent-0"));
    CHECK(fs::is_symlink(link));
}

TEST_CASE("nothing of a live job is removed, however old it looks") {
    const RuntimeFolder runtime;
    const SocketDirectory alive;
    const LockedFolder shared_memory(alive.path().string() + "-mpi-0");
    make_older(alive.path(), 1'000'000);
    make_older(shared_memory.path(), 1'000'000);
    sweep();
    CHECK(fs::exists(alive.path()));
    CHECK(fs::exists(shared_memory.path()));
}

TEST_CASE("what another user has put there is not removed") {
    if (::geteuid() != 0)
        return;  // only root can make it
    const RuntimeFolder runtime;
    const fs::path theirs = runtime.path / "autolaunch-0-theirs";
    fs::create_directory(theirs);
    REQUIRE(::chown(theirs.c_str(), 65534, 65534) == 0);
    sweep();
    CHECK(fs::exists(theirs));
}

TEST_CASE(
    "a folder is a live job's as long as one process of the agent, keeper and guardian lives") {
    const RuntimeFolder runtime;
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t agent = ::fork();
    if (agent == 0) {
        const SocketDirectory directory;
        const pid_t guardian = ::fork();
        if (guardian == 0)
            for (;;)
                ::pause();
        [[maybe_unused]] const auto sent = ::write(ends[1], &guardian, sizeof guardian);
        for (;;)
            ::pause();
    }
    pid_t guardian = -1;
    REQUIRE(::read(ends[0], &guardian, sizeof guardian) == sizeof guardian);
    ::close(ends[0]);
    ::close(ends[1]);
    ::kill(agent, SIGKILL);
    ::waitpid(agent, nullptr, 0);
    sweep();
    CHECK_FALSE(fs::is_empty(runtime.path));
    ::kill(guardian, SIGKILL);
    for (int i = 0; i < 2000 && !fs::is_empty(runtime.path); ++i) {  // it is not our child
        sweep();
        ::usleep(10'000);
    }
    CHECK(fs::is_empty(runtime.path));
}

TEST_CASE("a folder that somebody removed is made again") {
    const RuntimeFolder runtime;
    SocketDirectory directory;
    const fs::path before = directory.path();
    CHECK_FALSE(directory.restore());
    SUBCASE("alone") {
        fs::remove_all(before);
        CHECK(directory.restore());
        CHECK(directory.path() == before);
    }
    SUBCASE("with the folder that it was in, as logind does") {
        fs::remove_all(runtime.path);
        CHECK(directory.restore());
        CHECK(directory.path().filename() == before.filename());
        CHECK(directory.path().parent_path() != runtime.path);
    }
    SUBCASE("and somebody else has taken its place") {
        fs::remove_all(before);
        fs::create_directory(before);
        CHECK(directory.restore());
        CHECK(directory.path() != before);
        CHECK(fs::exists(before));
    }
    CHECK(is_owners_alone(directory.path()));
    CHECK_FALSE(directory.restore());
    sweep();
    CHECK(fs::exists(directory.path()));  // locked again
}

TEST_CASE("no socket is put where another user could replace its folder") {
    const RuntimeFolder runtime;
    fs::permissions(runtime.path, fs::perms::all);
    CHECK(SocketDirectory().path().parent_path() != runtime.path);
    fs::permissions(runtime.path, fs::perms::all | fs::perms::sticky_bit);
    CHECK(SocketDirectory().path().parent_path() == runtime.path);
}

TEST_CASE("whose folder of a job it is, by its name, and by nothing like one") {
    using autolaunch::launcher::user_in_name;
    CHECK(user_in_name("autolaunch-1000-Ab3xYz") == 1000U);
    CHECK(user_in_name("autolaunch-0-Ab3xYz-mpi-0") == 0U);
    CHECK(user_in_name("autolaunch-4294967294-Ab3xYz") == 4294967294U);
    for (const char* name : {"autolaunch-", "autolaunch-1000", "autolaunch--1-Ab3xYz",
                             "autolaunch-+1-Ab3xYz", "autolaunch-1x-Ab3xYz", "other-1000-Ab3xYz",
                             "autolaunch-4294967295-Ab3xYz", "autolaunch-99999999999999999999-a"})
        CHECK_FALSE(user_in_name(name));
}

}  // namespace socket_directory_test
