#include "rank_services/socket_directory.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

using autolaunch::launcher::SocketDirectory;
namespace fs = std::filesystem;

namespace {

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

}  // namespace

TEST_CASE("a socket directory is its user's alone, and gone with its owner") {
    const RuntimeFolder runtime;
    fs::path path;
    {
        const SocketDirectory directory;
        path = directory.path();
        CHECK(path.parent_path() == runtime.path);
        CHECK((fs::status(path).permissions() & fs::perms::all) == fs::perms::owner_all);
        std::ofstream(path / "agent-0") << "a socket";
    }
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("what a killed autolaunch left is removed by the next one, and nothing else") {
    const RuntimeFolder runtime;
    const std::string prefix = "autolaunch-" + std::to_string(::getuid()) + "-";
    const fs::path abandoned = runtime.path / (prefix + "killed"),
                   young = runtime.path / (prefix + "newborn"),
                   other = runtime.path / "autolaunch-of-another-kind";
    for (const auto& folder : {abandoned, young, other}) {
        fs::create_directory(folder);
        std::ofstream(folder / "agent-0") << "a socket";
    }
    make_older(abandoned, 120);
    make_older(other, 120);
    const SocketDirectory alive;
    make_older(alive.path(), 120);

    const SocketDirectory next;
    CHECK_FALSE(fs::exists(abandoned));
    CHECK(fs::exists(alive.path()));
    CHECK(fs::exists(young / "agent-0"));
    CHECK(fs::exists(other / "agent-0"));
}
