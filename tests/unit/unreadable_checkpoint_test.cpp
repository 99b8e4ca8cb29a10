// Checkpoints that are there and cannot be used: what cannot be read is neither absent nor damaged,
// is not passed over unasked, and is never deleted.
#include "base/hash.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/usable.hpp"
#include "crashing_storage.hpp"
#include "drain_samples.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace unreadable_checkpoint_test {

using namespace autolaunch;
using namespace autolaunch::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

const fs::path kRuns = "/runs/a/checkpoints";

/// Gives an I/O error for whatever is below some paths, as a disk with bad sectors does.
class FailingStorage final : public Storage {
public:
    std::set<fs::path> bad;

    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return inner_.create(path);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override {
        require_good(path, "open ");
        return inner_.open(path);
    }
    void create_directories(const fs::path& path) override { inner_.create_directories(path); }
    std::vector<std::string> list(const fs::path& path) override {
        require_good(path, "list ");
        return inner_.list(path);
    }
    void rename(const fs::path& from, const fs::path& to) override { inner_.rename(from, to); }
    void remove_all(const fs::path& path) override { inner_.remove_all(path); }
    void sync_directory(const fs::path& path) override { inner_.sync_directory(path); }
    void link_file(const fs::path& from, const fs::path& to) override {
        inner_.link_file(from, to);
    }
    void replace_link(const fs::path& path, const std::string& target) override {
        inner_.replace_link(path, target);
    }

private:
    void require_good(const fs::path& path, const std::string& doing) const {
        for (const fs::path& one : bad)
            if (path.string().starts_with(one.string()))
                throw SystemError(EIO, doing + path.string());
    }

    CrashingStorage inner_;
};

/// A job of one rank on a storage, which keeps what it says.
struct Job {
    explicit Job(std::shared_ptr<Storage> on, bool pass_over = false, int keep = 2,
                 const std::string& far = {})
        : storage(std::move(on)),
          engine(storage, Communicator(std::make_shared<SelfBackend>()),
                 options_of(pass_over, keep, far),
                 {{}, [this](const std::string& text) { notes += text + '\n'; }}) {}

    static CheckpointOptions options_of(bool pass_over, int keep, const std::string& far) {
        CheckpointOptions options;
        options.directory = kRuns;
        options.keep = keep;
        options.pass_over_unusable = pass_over;
        options.drain.place = far;
        return options;
    }
    void save(std::int64_t step) {
        DrainSample sample(static_cast<float>(step), 3000);
        engine.save(step, sample.state(), {});
    }
    /// What load_latest() gives, with the values of that step; -1 for nothing.
    std::int64_t resumes_from() {
        DrainSample sample(-1, 3000);
        const auto found = engine.load_latest(sample.state());
        if (found)
            CHECK(sample.weights == DrainSample(static_cast<float>(found->step), 3000).weights);
        return found ? found->step : -1;
    }
    /// The error of load_latest(), with its hint.
    std::string refusal(ErrorCode code) {
        try {
            const std::int64_t step = resumes_from();
            return "it went on from " + std::to_string(step);
        } catch (const Error& error) {
            CHECK(error.code() == code);
            return std::string(error.what()) + " | " + error.hint();
        }
    }

    std::shared_ptr<Storage> storage;
    std::string notes;
    CheckpointEngine engine;
};

std::shared_ptr<FailingStorage> with_steps(const std::vector<std::int64_t>& steps) {
    auto storage = std::make_shared<FailingStorage>();
    for (const std::int64_t step : steps)
        save_sample(storage, kRuns, step);
    return storage;
}

fs::path place_of(std::int64_t step) { return kRuns / checkpoint_name(step); }

fs::path shard_of(Storage& storage, std::int64_t step) {
    for (const std::string& name : storage.list(place_of(step)))
        if (name.ends_with(".safetensors"))
            return place_of(step) / name;
    throw Error(ErrorCode::corrupt, "no shard");
}

void cut_by_one(Storage& storage, std::int64_t step) {
    const fs::path shard = shard_of(storage, step);
    const std::string content = read_whole(storage, shard, 1 << 20);
    write_whole(storage, shard, content.substr(0, content.size() - 1));
}

void flip_a_byte(Storage& storage, std::int64_t step) {
    const fs::path shard = shard_of(storage, step);
    std::string content = read_whole(storage, shard, 1 << 20);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x10);
    write_whole(storage, shard, content);
}

void make_newer_version(Storage& storage, std::int64_t step) {
    const fs::path path = place_of(step) / kManifestName;
    std::string text = read_whole(storage, path, 1 << 20);
    const std::string now = "\"version\":2";
    text.replace(text.find(now), now.size(), "\"version\":3");
    const std::size_t digest = text.find(":\"") + 2;
    const std::string body = text.substr(digest + 32);
    text.replace(digest, 32, hex128(hash128(body.data(), body.size())));
    write_whole(storage, path, text);
}

bool is_there(Storage& storage, std::int64_t step) {
    const auto names = storage.list(kRuns);
    return std::find(names.begin(), names.end(), checkpoint_name(step)) != names.end();
}

bool has(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the rules: what is passed over, and what a person must decide") {
    const auto of = [](std::int64_t step, Unusable why) {
        return UnusableCheckpoint{step, checkpoint_name(step), why, "because"};
    };
    const auto found = [](std::int64_t step) {
        return CheckpointInfo{step, kRuns / checkpoint_name(step), "{}", {}};
    };
    struct Case {
        std::vector<Search> places;
        std::int64_t chosen;  // -1: nothing; -2: it throws
        std::int64_t chosen_if_passed_over;
        std::size_t passed_over;
    };
    const std::vector<Case> cases = {
        {{{}}, -1, -1, 0},
        {{{found(3), {}}}, 3, 3, 0},
        {{{found(3), {of(4, Unusable::damaged)}}}, 3, 3, 1},
        {{{found(3), {of(4, Unusable::unpublished)}}}, 3, 3, 1},
        {{{found(3), {of(4, Unusable::unreadable)}}}, -2, 3, 1},
        {{{found(3), {of(5, Unusable::damaged), of(4, Unusable::unsupported)}}}, -2, 3, 2},
        {{{std::nullopt, {of(4, Unusable::damaged)}}}, -2, -1, 1},
        {{{std::nullopt, {of(4, Unusable::unsupported)}}}, -2, -1, 1},
        {{{std::nullopt, {of(4, Unusable::unpublished)}}}, -1, -1, 1},
        // The second place has a whole one of that step, or a newer one.
        {{{found(3), {of(4, Unusable::unreadable)}}, {found(4), {}}}, 4, 4, 1},
        {{{found(3), {of(4, Unusable::unreadable)}}, {found(5), {}}}, 5, 5, 0},
        {{{found(4), {}}, {found(3), {of(5, Unusable::unreadable)}}}, -2, 4, 1},
        {{{found(4), {}}, {std::nullopt, {of(4, Unusable::unreadable)}}}, 4, 4, 1},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        const auto step_of = [&](bool pass_over) -> std::int64_t {
            try {
                const Choice choice = choose_checkpoint(cases[i].places, pass_over, kRuns);
                CHECK(choice.passed_over.size() == cases[i].passed_over);
                if (choice.found)
                    CHECK(choice.found->skipped == choice.passed_over);
                return choice.found ? choice.found->step : -1;
            } catch (const Error& error) {
                CHECK(has(error.what(), ": because"));
                CHECK(has(error.hint(), "pass_over_unusable"));
                return -2;
            }
        };
        CHECK(step_of(false) == cases[i].chosen);
        CHECK(step_of(true) == cases[i].chosen_if_passed_over);
    }
}

TEST_CASE("shards that are a byte short: each is listed, and only who asks for it starts anew") {
    const auto storage = with_steps({100, 200, 300});
    cut_by_one(*storage, 300);
    CHECK(Job(storage).resumes_from() == 200);
    cut_by_one(*storage, 200);
    cut_by_one(*storage, 100);
    const std::string said = Job(storage).refusal(ErrorCode::corrupt);
    INFO(said);
    for (const char* step : {"step-00000300: ", "step-00000200: ", "step-00000100: "})
        CHECK(has(said, step));
    CHECK(has(said, " bytes, not "));
    CHECK(has(said, "none of them can be used"));
    CHECK(has(said, "pass_over_unusable"));
    Job anew(storage, true);
    CHECK(anew.resumes_from() == -1);
    CHECK(has(anew.notes, "passed over step-00000300"));
    // What it saves itself is found after a restart, though its steps are lower.
    for (const std::int64_t step : {10, 20, 30, 40})
        anew.save(step);
    CHECK(Job(storage, true).resumes_from() == 40);
    for (const std::int64_t step : {100, 200, 300})
        CHECK(is_there(*storage, step));
}

TEST_CASE("an I/O error or another version is not passed over for an older checkpoint") {
    for (const bool is_version : {false, true}) {
        CAPTURE(is_version);
        const auto storage = with_steps({100, 200});
        if (is_version)
            make_newer_version(*storage, 200);
        else
            storage->bad = {place_of(200)};
        const auto code = is_version ? ErrorCode::unsupported : ErrorCode::system;
        const std::string said = Job(storage).refusal(code);
        INFO(said);
        CHECK(has(said, "a newer checkpoint than /runs/a/checkpoints/step-00000100 is there"));
        CHECK(has(said, "step-00000200: "));
        CHECK(has(said, is_version ? "version 3; this build reads version 2" : "Input/output"));
        CHECK(has(said, "move it elsewhere to go on from step-00000100"));

        Job asked(storage, true, 1);
        CHECK(asked.resumes_from() == 100);
        // And what nobody could read outlives all that is kept.
        for (const std::int64_t step : {300, 400, 500})
            asked.save(step);
        CHECK(is_there(*storage, 200));
        CHECK_FALSE(is_there(*storage, 400));
        CHECK(has(asked.notes, "not deleted, for it cannot be read: step-00000200"));
        const std::size_t told = asked.notes.find("not deleted");
        CHECK(asked.notes.find("not deleted", told + 1) == std::string::npos);  // once
        storage->bad.clear();
        if (!is_version)
            CHECK(find_newest(*storage, kRuns, 300)->step == 200);
    }
}

TEST_CASE("a block that cannot be read is no damage, and the one before is not taken for it") {
    const auto storage = with_steps({100, 200});
    class UnreadBlocks final : public Storage {
    public:
        explicit UnreadBlocks(std::shared_ptr<Storage> inner) : inner_(std::move(inner)) {}
        std::unique_ptr<StorageFile> create(const fs::path& path) override {
            return inner_->create(path);
        }
        std::unique_ptr<StorageFile> open(const fs::path& path) override {
            return inner_->open(path);
        }
        std::unique_ptr<StorageFile> open_large(const fs::path& path) override {
            if (path.string().starts_with(place_of(200).string()))
                throw SystemError(EIO, "read " + path.string());
            return inner_->open_large(path);
        }
        void create_directories(const fs::path& path) override { inner_->create_directories(path); }
        std::vector<std::string> list(const fs::path& path) override { return inner_->list(path); }
        void rename(const fs::path& from, const fs::path& to) override { inner_->rename(from, to); }
        void remove_all(const fs::path& path) override { inner_->remove_all(path); }
        void sync_directory(const fs::path& path) override { inner_->sync_directory(path); }
        void replace_link(const fs::path& path, const std::string& target) override {
            inner_->replace_link(path, target);
        }

    private:
        std::shared_ptr<Storage> inner_;
    };
    const auto failing = std::make_shared<UnreadBlocks>(storage);
    const std::string said = Job(failing).refusal(ErrorCode::system);
    CHECK_MESSAGE(has(said,
                      "a newer checkpoint than /runs/a/checkpoints/step-00000100 is there "
                      "and cannot be read: step-00000200: cannot read"),
                  said);
    CHECK(has(said, "pass_over_unusable"));
    Job asked(failing, true);
    CHECK(asked.resumes_from() == 100);
    CHECK(has(asked.notes, "passed over step-00000200: cannot read"));
}

TEST_CASE("a copy in memory counts as the checkpoint before one that is damaged") {
    const auto copy_of = [](std::int64_t step) {
        CheckpointInfo info;
        info.step = step;
        info.path = "memory";
        info.in_memory = true;
        return info;
    };
    const auto storage = with_steps({100, 300});
    flip_a_byte(*storage, 300);
    Job job(storage);
    std::vector<std::int64_t> tried;
    const auto resumes_with = [&](std::vector<std::int64_t> in_memory, ErrorCode misfit) {
        tried.clear();
        DrainSample sample(-1, 3000);
        const auto found = job.engine.load_latest(
            sample.state(), {},
            {[&](std::int64_t before) -> std::optional<CheckpointInfo> {
                 for (const std::int64_t step : in_memory)
                     if (step < before)
                         return copy_of(step);
                 return std::nullopt;
             },
             [&](const CheckpointInfo& newest) {
                 tried.push_back(newest.step);
                 if (misfit != ErrorCode::aborted && newest.step == in_memory.front())
                     throw Error(misfit, "it does not fit");
             }});
        return found ? std::pair(found->step, found->in_memory)
                     : std::pair(std::int64_t{-1}, false);
    };
    const auto fits = ErrorCode::aborted;
    // The newest file is damaged inside: the copy is newer than the file before.
    CHECK(resumes_with({200}, fits) == std::pair(std::int64_t{200}, true));
    CHECK(has(job.notes, "passed over step-00000300"));
    CHECK(resumes_with({300}, fits) == std::pair(std::int64_t{300}, true));
    CHECK(resumes_with({50}, fits) == std::pair(std::int64_t{100}, false));
    // And a copy that is of another state is passed over for an older one, or for the file.
    CHECK(resumes_with({400, 200}, ErrorCode::mismatch) == std::pair(std::int64_t{200}, true));
    CHECK(tried == std::vector<std::int64_t>{400, 200});
    CHECK(resumes_with({400}, ErrorCode::corrupt) == std::pair(std::int64_t{100}, false));
    CHECK_THROWS_AS(resumes_with({400}, ErrorCode::system), Error);
    // Where files are damaged so that it shows at once, and nothing is left of them.
    cut_by_one(*storage, 300);
    cut_by_one(*storage, 100);
    CHECK(resumes_with({200}, fits) == std::pair(std::int64_t{200}, true));
    CHECK(job.engine.latest(INT64_MAX, copy_of(200))->skipped.size() == 1);
    storage->bad = {place_of(300)};
    CHECK_THROWS_WITH_AS(job.engine.latest(INT64_MAX, copy_of(200)),
                         doctest::Contains("a newer checkpoint than the copy of step 200 in memory "
                                           "is there and cannot be read: step-00000300"),
                         Error);
}

TEST_CASE("what never had a manifest in an empty directory is no checkpoint; one that lost it is") {
    const auto storage = std::make_shared<FailingStorage>();
    storage->create_directories(place_of(100));
    Job empty(storage);
    CHECK(empty.resumes_from() == -1);
    CHECK(has(empty.notes, "passed over step-00000100"));
    save_sample(storage, kRuns, 200);
    storage->remove_all(place_of(200) / kManifestName);
    const std::string said = Job(storage).refusal(ErrorCode::corrupt);
    CHECK_MESSAGE(has(said, "step-00000200: cannot open"), said);
    CHECK_FALSE(has(said, "step-00000100"));
}

TEST_CASE("a checkpoint that cannot be read is set aside when its step is saved again") {
    const auto storage = with_steps({100, 200});
    make_newer_version(*storage, 200);
    Job job(storage, true);
    job.save(200);
    CHECK(job.resumes_from() == 200);
    CHECK(has(job.notes, "what was replaced by step-00000200 is kept as step-00000200.unread-"));
    int aside = 0;
    for (const std::string& name : storage->list(kRuns)) {
        aside += name.starts_with("step-00000200.unread-") ? 1 : 0;
        CHECK_FALSE(name.ends_with(".replaced"));
    }
    CHECK(aside == 1);
    job.save(200);  // and what can be read is replaced as ever
    CHECK(job.resumes_from() == 200);
}

TEST_CASE("a second place that does not answer is no empty one") {
    const fs::path far = "/far";
    const auto storage = with_steps({100});
    save_sample(storage, far, 200);
    storage->bad = {far};
    const std::string said = Job(storage, false, 2, far).refusal(ErrorCode::system);
    CHECK_MESSAGE(has(said, "cannot look into /far"), said);
    Job asked(storage, true, 2, far);
    CHECK(asked.resumes_from() == 100);
    CHECK(has(asked.notes, "cannot look into /far"));
    storage->bad = {far / "step-00000200"};
    CHECK(has(Job(storage, false, 2, far).refusal(ErrorCode::system), "/far/step-00000200: "));
    storage->bad.clear();
    CHECK(Job(storage, false, 2, far).resumes_from() == 200);
}

TEST_CASE("a drain does not wait for what cannot be read here, and says so") {
    const auto near = with_steps({100, 200, 300});
    near->bad = {place_of(300)};
    make_newer_version(*near, 200);
    const auto far = std::make_shared<CrashingStorage>();
    DrainSettings settings;
    settings.directory = kRuns;
    settings.first_pause = 10ms;
    settings.longest_pause = 10ms;
    DrainLog log;
    Drain drain(near, make_directory_tier(far, "/far"), settings, log.events());
    const Deadline enough = Deadline::after(20s);
    while (!has(log.notes(), "failed: ") && !enough.passed())
        CHECK_FALSE(drain.wait_idle(Deadline::after(10ms)));
    CHECK(newest_sample(far, "/far") == 100);
    INFO(log.notes());
    CHECK(has(log.notes(), "step 200 is not drained, this version cannot read it"));
    CHECK(has(log.notes(), "Input/output error; again in 10 ms"));
}

}  // namespace unreadable_checkpoint_test
