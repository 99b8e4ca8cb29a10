// What NFS does to those who save there: files that others replaced are stale once, and files that
// somebody has open stay under another name when they are deleted, with their directory. Simulated:
// not a mount.
#include "checkpoint/commit/catalog.hpp"
#include "crashing_storage.hpp"
#include "drain_samples.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <set>
#include <string>

namespace nfs_storage_test {

using namespace autolaunch;
using namespace autolaunch::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

const fs::path kPlace = "/nfs/checkpoints";

class NfsStorage final : public Storage {
public:
    bool held = false;   ///< somebody has a file open in whatever is deleted
    bool stale = false;  ///< the first open of every path finds what is not there any more
    int stale_opens = 0;

    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return inner_.create(path);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override {
        if (stale && seen_.insert(path).second) {
            ++stale_opens;
            throw SystemError(ESTALE, "open " + path.string());
        }
        if (stale)
            seen_.erase(path);
        return inner_.open(path);
    }
    void create_directories(const fs::path& path) override { inner_.create_directories(path); }
    std::vector<std::string> list(const fs::path& path) override { return inner_.list(path); }
    void rename(const fs::path& from, const fs::path& to) override { inner_.rename(from, to); }
    void remove_all(const fs::path& path) override {
        const auto names = inner_.list(path);
        const bool is_held = held && !names.empty();
        inner_.remove_all(path);
        if (!is_held)
            return;
        inner_.create_directories(path);
        write_whole(inner_, path / ".nfs000000000001", "what somebody still reads");
        throw SystemError(ENOTEMPTY, "remove " + path.string());
    }
    void sync_directory(const fs::path& path) override { inner_.sync_directory(path); }
    void replace_link(const fs::path& path, const std::string& target) override {
        inner_.replace_link(path, target);
    }

private:
    CrashingStorage inner_;
    std::set<fs::path> seen_;
};

std::vector<std::string> unfinished(Storage& storage) {
    std::vector<std::string> found;
    for (const std::string& name : storage.list(kPlace))
        if (name.ends_with(".tmp"))
            found.push_back(name);
    return found;
}

}  // namespace

TEST_CASE("a file that others replaced is opened anew") {
    auto storage = std::make_shared<NfsStorage>();
    storage->stale = true;
    for (const std::int64_t step : {100, 200, 300})
        save_sample(storage, kPlace, step, 3000, 2);
    CHECK(newest_sample(storage, kPlace) == 300);
    CHECK(storage->stale_opens > 10);
}

TEST_CASE(
    "a deleted directory that somebody still reads from is cleared away later, and fails nothing") {
    auto storage = std::make_shared<NfsStorage>();
    storage->held = true;
    for (const std::int64_t step : {100, 200, 100, 300, 100, 400})
        save_sample(storage, kPlace, step, 3000, 1);
    CHECK_FALSE(unfinished(*storage).empty());
    CHECK(newest_sample(storage, kPlace) == 400);
    storage->held = false;
    save_sample(storage, kPlace, 500, 3000, 1);
    CHECK(unfinished(*storage).empty());
    CHECK(storage->list(kPlace) ==
          std::vector<std::string>{"latest", "step-00000500", "writer.json"});
}

TEST_CASE("a drain to such a place goes on too") {
    auto near = std::make_shared<CrashingStorage>();
    auto far = std::make_shared<NfsStorage>();
    far->held = true;
    far->stale = true;
    DrainSettings settings;
    settings.directory = "/near";
    settings.retention.keep = 1;
    for (const std::int64_t step : {100, 200, 300}) {
        save_sample(near, "/near", step);
        DrainLog log;
        Drain drain(near, make_directory_tier(far, kPlace), settings, log.events());
        CHECK(drain.wait_idle(Deadline::after(10s)));
        CHECK(log.notes() == "");
    }
    CHECK(newest_sample(far, kPlace) == 300);
}

}  // namespace nfs_storage_test
