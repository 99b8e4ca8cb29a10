// A writer that stands still between its last look and its rename, and goes on when a later
// generation has begun: a real process that is stopped there.
#include "checkpoint/commit/catalog.hpp"
#include "saved_state.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

namespace late_writer_test {

using namespace autolaunch;
using autolaunch::testing::RecordedEngine;
using autolaunch::testing::SavedState;
using fsdp::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kElements = 3000;

/// This machine's files; stops the process before the rename that publishes `name`.
class StoppingStorage final : public Storage {
public:
    explicit StoppingStorage(std::string name) : name_(std::move(name)) {}

    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return files_->create(path);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override { return files_->open(path); }
    void create_directories(const fs::path& path) override { files_->create_directories(path); }
    std::vector<std::string> list(const fs::path& path) override { return files_->list(path); }
    void rename(const fs::path& from, const fs::path& to) override {
        if (to.filename() == name_)
            ::raise(SIGSTOP);
        files_->rename(from, to);
    }
    void remove_all(const fs::path& path) override { files_->remove_all(path); }
    void sync_directory(const fs::path& path) override { files_->sync_directory(path); }
    void link_file(const fs::path& from, const fs::path& to) override {
        files_->link_file(from, to);
    }
    void replace_link(const fs::path& path, const std::string& target) override {
        files_->replace_link(path, target);
    }

private:
    std::string name_;
    std::unique_ptr<Storage> files_ = make_posix_storage();
};

/// One generation of a job of one rank.
struct Generation {
    Generation(const fs::path& where, std::int64_t number,
               std::shared_ptr<Storage> storage = make_posix_storage())
        : engine(world, {.directory = where, .keep = 9}, {"job.1", number}, std::move(storage)) {}

    /// What it goes on from; -1: from the beginning.
    std::int64_t resumes_from() { return engine.newest(state).value_or(-1); }
    void save(std::int64_t step) {
        state.set(step);
        engine->save(step, state.state(), {});
    }
    bool has_said(const std::string& words) const {
        for (const std::string& note : engine.notes)
            if (note.find(words) != std::string::npos)
                return true;
        return false;
    }

    Communicator world{std::make_shared<SelfBackend>()};
    SavedState state{world, kElements};
    RecordedEngine engine;
};

/// Generation 0, which has saved step 10, and stands still in the middle of publishing step 20.
class LateWriter {
public:
    explicit LateWriter(const fs::path& directory) : child_(::fork()) {
        REQUIRE(child_ >= 0);
        if (child_ == 0) {
            int code = 1;
            try {
                Generation zero(directory, 0,
                                std::make_shared<StoppingStorage>(checkpoint_name(20)));
                zero.save(10);
                zero.save(20);
                code = 0;
            } catch (const std::exception&) {
            }
            ::_exit(code);
        }
        int status = 0;
        REQUIRE(::waitpid(child_, &status, WUNTRACED) == child_);
        REQUIRE(WIFSTOPPED(status));
    }
    LateWriter(const LateWriter&) = delete;
    LateWriter& operator=(const LateWriter&) = delete;
    ~LateWriter() {
        if (child_ <= 0)
            return;
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
    }

    /// True: it has published, and noticed nothing.
    bool goes_on() {
        int status = 0;
        ::kill(child_, SIGCONT);
        REQUIRE(::waitpid(child_, &status, 0) == child_);
        child_ = -1;
        REQUIRE(WIFEXITED(status));
        return WEXITSTATUS(status) == 0;
    }

private:
    pid_t child_;
};

}  // namespace

TEST_CASE("what a writer publishes after a later generation has begun counts for nobody") {
    const TemporaryDirectory folder;
    const fs::path directory = folder.path() / "checkpoints";
    LateWriter late(directory);
    CHECK(Generation(directory, 1).resumes_from() == 10);
    CHECK(late.goes_on());
    REQUIRE(fs::exists(directory / "step-00000020" / kManifestName));

    Generation second(directory, 2);  // the first was lost before it has saved anything
    CHECK(second.resumes_from() == 10);
    second.save(15);
    CHECK(second.has_said("generation 0 published it when generation 1 had begun from step 10"));
    CHECK_FALSE(fs::exists(directory / "step-00000020"));
    CHECK(Generation(directory, 3).resumes_from() == 15);
}

TEST_CASE("the same step of a later generation is not replaced") {
    const TemporaryDirectory folder;
    const fs::path directory = folder.path() / "checkpoints";
    LateWriter late(directory);
    Generation first(directory, 1);
    CHECK(first.resumes_from() == 10);
    CHECK(late.goes_on());
    first.save(20);
    const Look look = look_at(*make_posix_storage(), directory, {20, "step-00000020"}, {});
    REQUIRE(look.manifest);
    CHECK(look.manifest->generation == 1);
    CHECK(Generation(directory, 2).resumes_from() == 20);
}

TEST_CASE("a later generation that has saved leaves nothing to publish") {
    const TemporaryDirectory folder;
    const fs::path directory = folder.path() / "checkpoints";
    LateWriter late(directory);
    Generation first(directory, 1);
    CHECK(first.resumes_from() == 10);
    first.save(20);
    CHECK_FALSE(late.goes_on());
    CHECK(Generation(directory, 2).resumes_from() == 20);
}

TEST_CASE("what was published before the look counts, whoever is dead by then") {
    const TemporaryDirectory folder;
    const fs::path directory = folder.path() / "checkpoints";
    LateWriter late(directory);
    CHECK(late.goes_on());
    Generation first(directory, 1);
    CHECK(first.resumes_from() == 20);
    first.save(30);
    CHECK(Generation(directory, 2).resumes_from() == 30);
}

}  // namespace late_writer_test
