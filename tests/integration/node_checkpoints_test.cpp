// Nodes with directories of their own: each holds and drains its own ranks' files, a checkpoint
// loads from all of them together or from the second place, and crashes at any operation leave the
// newest announced one.

#include "base/file_io.hpp"
#include "checkpoint/checkpoint_engine.hpp"
#include "checkpoint/commit/node_catalog.hpp"
#include "checkpoint/drain/drain.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/session.hpp>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace node_checkpoints_test {

using namespace autolaunch;
using namespace autolaunch::fsdp::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kPerRank = 1'100'000;  // a block of digests and a bit

// Four ranks on two nodes, or as many as there are.
int node_of(int rank) { return rank / 2; }

struct Places {
    Places() { fs::create_directory(far()); }
    fs::path near(int rank) const {
        return folder.path() / ("node" + std::to_string(node_of(rank)));
    }
    fs::path far() const { return folder.path() / "far"; }
    CheckpointOptions options(int rank) const {
        CheckpointOptions options;
        options.directory = near(rank);
        if (archive.empty())
            options.drain.place = far();
        else
            options.tiers = {{.place = far()}, {.place = archive}};
        options.node_local = true;
        options.memory = false;
        return options;
    }
    TemporaryDirectory folder;
    fs::path archive = {};  // a further place yet
};

// A cut tensor, and one that all ranks hold: its values say which step it is of.
struct Model {
    explicit Model(Communicator& world, float step)
        : begin(kAll * world.rank() / world.size()),
          end(kAll * (world.rank() + 1) / world.size()),
          cut(static_cast<std::size_t>(end - begin), step),
          common(1000, step + 1) {}
    fsdp::State state() {
        return {{"cut",
                 f32,
                 {kAll},
                 {{begin, end - begin, reinterpret_cast<std::byte*>(cut.data())}},
                 false},
                {"common",
                 f32,
                 {1000},
                 {{0, 1000, reinterpret_cast<std::byte*>(common.data())}},
                 true}};
    }
    void expect_step(std::int64_t step) const {
        for (const float value : cut)
            expect(value == static_cast<float>(step), "each value is what was saved");
        for (const float value : common)
            expect(value == static_cast<float>(step + 1), "and each that all hold");
    }

    static constexpr std::int64_t kAll = 4 * kPerRank;
    std::int64_t begin, end;
    std::vector<float> cut, common;
};

CheckpointEngine engine_of(const Places& places, Communicator& world,
                           std::shared_ptr<Storage> storage, CheckpointEvents events = {}) {
    const CheckpointOptions options = places.options(world.rank());
    auto leaders = leaders_of_directories(world, *storage, options.directory);
    return CheckpointEngine(std::move(storage), world, options, std::move(events), {},
                            std::move(leaders));
}

void save(const Places& places, std::vector<std::int64_t> steps) {
    on_ranks(4, [&](Communicator& world) {
        auto engine = engine_of(places, world, make_posix_storage());
        for (const std::int64_t step : steps)
            engine.save(step, Model(world, static_cast<float>(step)).state(), {"{\"next\":7}"});
    });
}

// What `ranks` ranks find and load; -1 for nothing.
std::int64_t newest(const Places& places, int ranks) {
    const Shared<std::int64_t> step(1);
    step[0] = -2;
    on_ranks(ranks, [&](Communicator& world) {
        auto engine = engine_of(places, world, make_posix_storage());
        Model model(world, -1);
        const auto found = engine.load_latest(model.state());
        if (found)
            model.expect_step(found->step);
        if (found)
            expect(found->extra == "{\"next\":7}" || found->extra == "{}", "its extra text");
        if (world.rank() == 0)
            step[0] = found ? found->step : -1;
    });
    return step[0];
}

std::vector<std::string> names_in(const fs::path& path) { return make_posix_storage()->list(path); }

void copy_to_far(const Places& places, const std::string& name) {
    for (const int node : {0, 2})
        fs::copy(places.near(node) / name, places.far() / name,
                 fs::copy_options::recursive | fs::copy_options::skip_existing);
}

}  // namespace

TEST_CASE("each node has its own ranks' files, and all of them together are a checkpoint") {
    const Places places;
    save(places, {100, 200, 300});
    for (const int rank : {0, 2}) {
        const auto near = places.near(rank);
        CHECK(names_in(near) ==
              std::vector<std::string>{"latest", "step-00000200", "step-00000300", "writer.json"});
        const auto files = names_in(near / "step-00000300");
        CHECK(files.size() == 3);  // the manifest, and two ranks' files
    }
    CHECK(names_in(places.near(0) / "step-00000300") != names_in(places.near(2) / "step-00000300"));
    CHECK(read_file(places.near(0) / "step-00000300/manifest.json") ==
          read_file(places.near(2) / "step-00000300/manifest.json"));
    CHECK(newest(places, 4) == 300);
    CHECK(newest(places, 3) == 300);  // cut otherwise: blocks come from the other node
}

TEST_CASE(
    "a lost node's files are gone; what is in the second place loads, and what is near is not read "
    "there") {
    const Places places;
    save(places, {100, 200});
    copy_to_far(places, "step-00000100");
    fs::remove_all(places.near(2));
    CHECK(newest(places, 4) == 100);
    // What is here is read here: the second place's copy of these files is damaged.
    for (const auto& name : names_in(places.near(0) / "step-00000100"))
        if (name.ends_with(".safetensors")) {
            std::string content = read_file(places.far() / "step-00000100" / name);
            content[2 << 20] =
                static_cast<char>(content[2 << 20] ^ 1);  // of what only its own rank needs
            write_whole(*make_posix_storage(), places.far() / "step-00000100" / name, content);
        }
    CHECK(newest(places, 4) == 100);
}

TEST_CASE("a file that is damaged on a node is read from the second place") {
    const Places places;
    save(places, {100});
    copy_to_far(places, "step-00000100");
    for (const auto& name : names_in(places.near(2) / "step-00000100"))
        if (name.ends_with(".safetensors")) {
            std::string content = read_file(places.near(2) / "step-00000100" / name);
            std::fill(content.end() - 64, content.end(), 'x');
            write_whole(*make_posix_storage(), places.near(2) / "step-00000100" / name, content);
        }
    CHECK(newest(places, 4) == 100);
}

TEST_CASE("what is damaged on a node and in the first further place is read from the next") {
    Places places;
    places.archive = places.folder.path() / "archive";
    save(places, {100});
    copy_to_far(places, "step-00000100");
    fs::create_directory(places.archive);
    fs::copy(places.far() / "step-00000100", places.archive / "step-00000100",
             fs::copy_options::recursive);
    for (const fs::path& place : {places.near(2), places.far()})
        for (const auto& name : names_in(place / "step-00000100"))
            if (name.ends_with(".safetensors")) {
                std::string content = read_file(place / "step-00000100" / name);
                std::fill(content.end() - 64, content.end(), 'x');
                write_whole(*make_posix_storage(), place / "step-00000100" / name, content);
            }
    CHECK(newest(places, 4) == 100);
    // A place that has it alone is enough.
    for (const fs::path& place : {places.near(0), places.near(2), places.far()})
        fs::remove_all(place);
    CHECK(newest(places, 4) == 100);
}

TEST_CASE("a directory that all see is one place") {
    const Places places;
    on_ranks(3, [&](Communicator& world) {
        const auto storage = make_posix_storage();
        expect(leaders_of_directories(world, *storage, places.near(0)) == std::vector<int>{0, 0, 0},
               "one leader");
        const auto two = leaders_of_directories(world, *storage, places.near(world.rank()));
        expect(two == std::vector<int>{0, 0, 2}, "a leader of each");
    });
    CHECK(names_in(places.near(0)).empty());
}

namespace {

/// Kills all ranks before an operation of the storage.
class DyingStorage final : public Storage {
public:
    DyingStorage(std::size_t last, const Shared<pid_t>& ranks, std::size_t& count)
        : last_(last), ranks_(ranks), count_(count) {}
    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return next().create(path);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override { return inner_->open(path); }
    std::unique_ptr<StorageFile> create_large(const fs::path& path) override {
        return next().create_large(path);
    }
    std::unique_ptr<StorageFile> open_large(const fs::path& path) override {
        return next().open_large(path);
    }
    void create_directories(const fs::path& path) override { next().create_directories(path); }
    std::vector<std::string> list(const fs::path& path) override { return inner_->list(path); }
    void rename(const fs::path& from, const fs::path& to) override { next().rename(from, to); }
    void remove_all(const fs::path& path) override { next().remove_all(path); }
    void sync_directory(const fs::path& path) override { next().sync_directory(path); }
    void replace_link(const fs::path& path, const std::string& target) override {
        next().replace_link(path, target);
    }

private:
    Storage& next() {
        if (count_++ == last_) {
            ::usleep(2000);  // the others come as far as they come without it
            for (const pid_t rank : ranks_.copy())
                if (rank != ::getpid())
                    ::kill(rank, SIGKILL);
            ::_exit(9);
        }
        return *inner_;
    }

    std::shared_ptr<Storage> inner_ = make_posix_storage();
    std::size_t last_;
    const Shared<pid_t>& ranks_;
    std::size_t& count_;
};

}  // namespace

TEST_CASE("a crash of a node at any operation of a save leaves the newest announced checkpoint") {
    int old_found = 0, new_found = 0;
    for (const int dying : {0, 1}) {  // one rank a node: the first node, and another one
        std::size_t operations = 1000;
        for (std::size_t last = 0; last <= operations; ++last) {
            CAPTURE(dying);
            CAPTURE(last);
            const TemporaryDirectory folder;
            const auto options = [&](int rank) {
                CheckpointOptions made;
                made.directory = folder.path() / std::to_string(rank);
                made.drain.place = folder.path() / "far";
                made.keep = 1;
                return made;
            };
            const Shared<pid_t> pids(2);
            const Shared<std::int64_t> announced(1), counted(1);
            const auto run =
                [&](bool dies,
                    const std::function<void(CheckpointEngine&, std::vector<float>&)>& body) {
                    return [&, dies](Communicator& world) {
                        pids[static_cast<std::size_t>(world.rank())] = ::getpid();
                        world.barrier();
                        std::size_t count = 0;
                        std::shared_ptr<Storage> storage = make_posix_storage();
                        if (dies && world.rank() == dying)
                            storage = std::make_shared<DyingStorage>(last, pids, count);
                        CheckpointEvents events;
                        if (world.rank() == 0)
                            events.published = [&](std::int64_t step, auto&&, double) {
                                announced[0] = step;
                            };
                        CheckpointEngine engine(storage, world, options(world.rank()), events, {},
                                                {0, 1});
                        std::vector<float> values(100, 0);
                        body(engine, values);
                        if (dies && world.rank() == dying)
                            counted[0] = static_cast<std::int64_t>(count);
                    };
                };
            const auto state = [](std::vector<float>& values) -> fsdp::State {
                return {{"w",
                         f32,
                         {100},
                         {{0, 100, reinterpret_cast<std::byte*>(values.data())}},
                         true}};
            };
            const auto saves = [&](std::int64_t step) {
                return [&, step](CheckpointEngine& engine, std::vector<float>& values) {
                    values.assign(100, static_cast<float>(step));
                    engine.save(step, state(values), {});
                };
            };
            on_ranks(2, run(false, saves(100)));
            statuses_of_ranks(2, run(true, saves(200)));
            if (counted[0] > 0)
                operations = 0;  // it was not reached any more
            const Shared<std::int64_t> found(1);
            on_ranks(2, run(false, [&](CheckpointEngine& engine, std::vector<float>& values) {
                         const auto info = engine.load_latest(state(values));
                         expect(info.has_value(), "one is there");
                         for (const float value : values)
                             expect(value == static_cast<float>(info->step), "and it is whole");
                         found[0] = info->step;
                     }));
            CHECK((found[0] == 100 || found[0] == 200));
            CHECK(found[0] >= announced[0]);
            ++(found[0] == 200 ? new_found : old_found);
            if (last % 4 != 0)
                continue;
            on_ranks(2, run(false, saves(300)));  // and what was half is cleared away
            for (const int rank : {0, 1})
                for (const auto& name : names_in(options(rank).directory)) {
                    CHECK_FALSE(name.ends_with(".tmp"));
                    CHECK((!name.starts_with("step-") || name == "step-00000300"));
                }
        }
    }
    CHECK(old_found > 10);
    CHECK(new_found > 2);
}

namespace {

class MemoryBoard final : public Noticeboard {
public:
    void post(const std::string& key, const std::string& text) override {
        const std::lock_guard lock(mutex_);
        texts_[key] = text;
        changed_.notify_all();
    }
    std::optional<std::string> read(const std::string& key,
                                    std::chrono::milliseconds timeout) override {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, timeout, [&] { return texts_.contains(key); }))
            return std::nullopt;
        return texts_[key];
    }
    void remove(const std::string& key) override {
        const std::lock_guard lock(mutex_);
        texts_.erase(key);
    }
    std::size_t size() {
        const std::lock_guard lock(mutex_);
        return texts_.size();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> texts_;
};

struct Log {
    DrainEvents events() {
        return {[this](const DrainedCheckpoint& one) {
                    const std::lock_guard lock(mutex);
                    drained.push_back(one.step);
                },
                [this](const std::string& text) {
                    const std::lock_guard lock(mutex);
                    notes += text + '\n';
                }};
    }
    std::string text() {
        const std::lock_guard lock(mutex);
        return notes;
    }
    std::mutex mutex;
    std::vector<std::int64_t> drained;
    std::string notes;
};

std::unique_ptr<Drain> drain_of(const Places& places, int rank,
                                const std::shared_ptr<MemoryBoard>& board, Log& log,
                                const fs::path& far) {
    DrainSettings settings;
    settings.directory = places.near(rank);
    settings.first_pause = 20ms;
    settings.crew = std::make_shared<DrainCrew>(board, node_of(rank), 2);
    return std::make_unique<Drain>(make_posix_storage(),
                                   make_directory_tier(make_posix_storage(), far), settings,
                                   log.events());
}

}  // namespace

TEST_CASE("each node drains its own files, and the first one publishes") {
    const Places places;
    save(places, {100, 200});
    const auto board = std::make_shared<MemoryBoard>();
    Log first_log, other_log;
    {
        const auto other = drain_of(places, 2, board, other_log, places.far());
        {
            const auto first = drain_of(places, 0, board, first_log, places.far());
            CHECK(first->wait_idle(Deadline::after(60s)));
            CHECK_FALSE(other->wait_idle(Deadline::after(1ms)));
        }
        CHECK(other->wait_idle(Deadline::after(10s)));  // it was told that there is no more
    }
    CHECK(first_log.text() + other_log.text() == "");
    CHECK(first_log.drained == std::vector<std::int64_t>{200, 100});
    CHECK(board->size() == 1);  // the end
    fs::remove_all(places.near(0));
    fs::remove_all(places.near(2));
    CHECK(newest(places, 4) == 200);
    CHECK(newest(places, 3) == 200);
}

TEST_CASE("what a lost node had not copied is never published; what it had copied counts") {
    const Places places;
    save(places, {100, 200});
    // Node 1 had copied its part of step 100, and then it was lost.
    fs::create_directories(places.far() / "step-00000100.tmp");
    for (const auto& name : names_in(places.near(2) / "step-00000100"))
        if (name.ends_with(".safetensors"))
            fs::copy(places.near(2) / "step-00000100" / name,
                     places.far() / "step-00000100.tmp" / name);
    fs::remove_all(places.near(2));
    const auto board = std::make_shared<MemoryBoard>();
    Log first_log, other_log;
    {
        const auto other = drain_of(places, 2, board, other_log, places.far());
        const auto first = drain_of(places, 0, board, first_log, places.far());
        CHECK(first->wait_idle(Deadline::after(60s)));
    }
    CHECK(first_log.drained == std::vector<std::int64_t>{100});
    CHECK_MESSAGE(
        first_log.text().find("step 200 is not drained: no node has all of") != std::string::npos,
        first_log.text());
    CHECK(newest(places, 4) == 100);
}

TEST_CASE("what fails on another node is tried again, and the first one says so") {
    const Places places;
    save(places, {100});
    const fs::path blocked = places.folder.path() / "blocked";
    write_whole(*make_posix_storage(), blocked,
                "");  // a file where node 1 thinks that the second place is
    const auto board = std::make_shared<MemoryBoard>();
    Log first_log, other_log;
    const auto first = drain_of(places, 0, board, first_log, places.far());
    {
        const auto other = drain_of(places, 2, board, other_log, blocked / "far");
        const Deadline enough = Deadline::after(60s);
        while (first_log.text().find("again in 40 ms") == std::string::npos && !enough.passed())
            CHECK_FALSE(first->wait_idle(Deadline::after(50ms)));
    }
    CHECK_MESSAGE(first_log.text().find("failed: node 1: ") != std::string::npos, first_log.text());
    CHECK(first_log.text().find("again in 40 ms") != std::string::npos);
    CHECK(newest(places, 4) == 100);
    CHECK(names_in(places.far() / "step-00000100").empty());
}

namespace {

int free_port() {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    return ntohs(address.sin_port);
}

// A job of four ranks on two nodes, with a store.
std::function<void(Communicator&)> as_job(std::function<void(Session&, Communicator&)> body) {
    return [body = std::move(body), port = free_port()](Communicator& world) {
        const std::map<std::string, std::string> environment = {
            {"RANK", std::to_string(world.rank())},
            {"WORLD_SIZE", std::to_string(world.size())},
            {"LOCAL_RANK", std::to_string(world.rank() % 2)},
            {"LOCAL_WORLD_SIZE", "2"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(port)}};
        for (const auto& [name, value] : environment)
            ::setenv(name.c_str(), value.c_str(), 1);
        Session session = Session::from_environment();
        body(session, world);
    };
}

}  // namespace

TEST_CASE("a job trains, drains from all nodes, loses one, and goes on") {
    const Places places;
    on_ranks(4, as_job([&](Session& session, Communicator& world) {
                 Checkpointer checkpointer(session, world, places.options(world.rank()));
                 for (int step = 1; step <= 3; ++step) {
                     Model model(world, static_cast<float>(step));
                     checkpointer.save_async(step, model.state());
                     checkpointer.wait_copied();
                 }
                 checkpointer.finish();
                 expect(checkpointer.wait_drained(60s), "it is drained");
                 checkpointer.save(4, Model(world, 4).state());
             }));  // the end waits for the last one
    CHECK(names_in(places.far()).back() == "step-00000004");
    CHECK(names_in(places.near(2)).size() == 4);
    fs::remove_all(places.near(2));
    on_ranks(4, as_job([&](Session& session, Communicator& world) {
                 Checkpointer checkpointer(session, world, places.options(world.rank()));
                 Model model(world, -1);
                 const auto found = checkpointer.load_latest(model.state());
                 expect(found && found->step == 4, "the newest is there");
                 model.expect_step(4);
                 checkpointer.save(5, Model(world, 5).state());
             }));
    CHECK(names_in(places.far()).back() == "step-00000005");
}

TEST_CASE("a job that is killed at any moment leaves what was announced, near and far") {
    const Places places;
    std::int64_t from = 0;
    for (int i = 0; i < 8; ++i) {
        CAPTURE(i);
        const Shared<std::int64_t> announced(1);
        statuses_of_ranks(
            4, as_job([&](Session& session, Communicator& world) {
                Checkpointer checkpointer(session, world, places.options(world.rank()));
                std::thread([i, &announced] {
                    // At first, and in every other run after a save, however long that takes here.
                    const std::atomic_ref latest(announced[0]);
                    while (i % 2 == 1 && latest == 0)
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 40 * i));
                    ::kill(::getpid(), SIGKILL);
                }).detach();
                for (std::int64_t step = from + 1;; ++step) {
                    checkpointer.save(step, Model(world, static_cast<float>(step)).state());
                    if (world.rank() == 0)
                        std::atomic_ref<std::int64_t>(announced[0]).store(step);
                }
            }));
        const std::int64_t found = std::max<std::int64_t>(newest(places, 4), 0);
        CHECK(found >= announced[0]);
        CHECK(found >= from);
        from = found;
    }
    CHECK(from > 0);
    fs::remove_all(places.near(2));
    const std::int64_t far = newest(places, 4);  // whole, if there is one
    CHECK(far <= from);
}

}  // namespace node_checkpoints_test
