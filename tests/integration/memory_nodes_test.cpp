// Copies in memory over several nodes: an agent for each, ranks as real processes, and nodes that
// come back empty.
#include "base/memory_file.hpp"
#include "checkpoint/memory/memory_copies.hpp"
#include "fsdp_ranks.hpp"
#include "generation/rank_memory.hpp"
#include "rank_services/session_server.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <csignal>
#include <numeric>
#include <optional>

namespace memory_nodes_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::fsdp::testing;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kEnough = 1 << 30;
constexpr std::int64_t kElements = 1'500'000;  // of a rank: two blocks

// The part of a node's agent that ranks ask for memory, in a process of its own. A new one has
// none.
class NodeAgent {
public:
    NodeAgent(const fs::path& socket, std::uint64_t limit) : socket_(socket) {
        int ends[2] = {};
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        process_ = ::fork();
        REQUIRE(process_ >= 0);
        if (process_ == 0)
            serve(limit, ends[1]);
        ::close(ends[1]);
        char ready = 0;
        REQUIRE(::read(ends[0], &ready, 1) == 1);
        ::close(ends[0]);
    }
    NodeAgent(const NodeAgent&) = delete;
    ~NodeAgent() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        fs::remove(socket_);
    }

private:
    [[noreturn]] void serve(std::uint64_t limit, int ready) const {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        asio::io_context context;
        launcher::RankMemory memory(limit, "checkpoint.memory_limit", "node");
        const SessionServer server(
            context, socket_, [&](const SessionPeer& peer, const session::RankMessage& message) {
                if (const auto* const asked = std::get_if<session::MemoryAsked>(&message))
                    memory.answer(peer.rank, peer.generation, *asked);
            });
        if (::write(ready, "r", 1) == 1)
            context.run();
        ::_exit(1);
    }

    fs::path socket_;
    pid_t process_ = -1;
};

// The state of one rank: a part of a tensor that is cut, and one that every rank has.
struct RankState {
    RankState(int rank, int ranks, std::int64_t step) : cut(kElements), whole(1000) {
        std::iota(cut.begin(), cut.end(), static_cast<float>(rank * 100 + step));
        std::iota(whole.begin(), whole.end(), static_cast<float>(step));
        size = ranks;
        index = rank;
    }
    fsdp::State state() {
        fsdp::StateTensor shard{"w", DataType::f32, {size * kElements}, {}};
        shard.pieces = {{index * kElements, kElements, reinterpret_cast<std::byte*>(cut.data())}};
        fsdp::StateTensor copy{"scale", DataType::f32, {1000}, {}};
        copy.pieces = {{0, 1000, reinterpret_cast<std::byte*>(whole.data())}};
        copy.replicated = true;
        return {shard, copy};
    }
    std::vector<float> cut, whole;
    std::int64_t size = 0, index = 0;
};

// A job of nodes whose ranks come and go.
class Job {
public:
    explicit Job(std::vector<int> node_of_rank, std::uint64_t limit = kEnough)
        : nodes_(std::move(node_of_rank)), agents_(static_cast<std::size_t>(nodes_.back()) + 1) {
        fs::permissions(directory_.path(), fs::perms::owner_all);
        for (std::size_t node = 0; node < agents_.size(); ++node)
            start_agent(static_cast<int>(node), limit);
    }
    void start_agent(int node, std::uint64_t limit = kEnough) {
        agents_[static_cast<std::size_t>(node)].reset();
        agents_[static_cast<std::size_t>(node)].emplace(socket(node), limit);
    }
    fs::path socket(int node) const {
        return directory_.path() / ("agent-" + std::to_string(node));
    }
    int size() const { return static_cast<int>(nodes_.size()); }

    /// A generation: its ranks, until they end.
    void run(const std::function<void(memory::MemoryCopies& engine, Communicator& world)>& body) {
        const int generation = generation_++;
        on_ranks(size(), [&](Communicator& world) {
            memory::MemoryCopies engine(
                files(world.rank(), generation), world,
                {.generation = generation, .node_rank = node_of(world.rank()), .threads = 2});
            body(engine, world);
        });
    }
    void save(std::vector<std::int64_t> steps) {
        run([&](memory::MemoryCopies& engine, Communicator& world) {
            for (const std::int64_t step : steps) {
                RankState now(world.rank(), world.size(), step);
                engine.save(step, now.state(), {.extra = std::to_string(step)});
            }
        });
    }
    /// What a generation comes back to must be this step's state, on every rank.
    void expect_restore(std::int64_t step) {
        run([&](memory::MemoryCopies& engine, Communicator& world) {
            restore(engine, world, step);
        });
    }
    static void restore(memory::MemoryCopies& engine, Communicator& world, std::int64_t step) {
        const auto found = engine.latest(INT64_MAX);
        expect(found && found->step == step && found->in_memory,
               "a copy of step " + std::to_string(step));
        expect(found->extra == std::to_string(step), "its extra text");
        RankState now(world.rank(), world.size(), -1);
        engine.load(*found, now.state(), {});
        const RankState saved(world.rank(), world.size(), step);
        expect(same_bits(now.cut, saved.cut), "the bits of the rank's own part");
        expect(same_bits(now.whole, saved.whole), "the bits of what every rank has");
    }
    std::unique_ptr<memory::SlotFiles> files(int rank, int generation) const {
        session::Hello hello;
        hello.rank = rank;
        hello.generation = generation;
        return memory::make_agent_slot_files(socket(node_of(rank)), hello, "test");
    }
    /// Changes a byte of the data in both slots of a shard, on the node of `on_rank`.
    void damage(int shard, int on_rank) {
        const auto there = files(on_rank, 0);
        for (int slot = 0; slot < memory::kSlots; ++slot) {
            const auto file = there->open(shard, slot, 0);
            if (file.file)
                SharedMapping(file.file, file.bytes).data()[file.bytes / 2] ^= std::byte{1};
        }
    }

private:
    int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

    TemporaryDirectory directory_;
    std::vector<int> nodes_;
    std::vector<std::optional<NodeAgent>> agents_;
    int generation_ = 0;
};

}  // namespace

TEST_CASE(
    "ranks that ended come back from their agents' memory, to the newest step that all had "
    "finished") {
    Job job({0, 0, 1, 1});
    job.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(!engine.latest(INT64_MAX), "nothing at first");
    });
    job.save({10, 20, 30});
    job.expect_restore(30);
    job.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(engine.latest(30)->step == 20, "the one before is there, too");
        expect(!engine.latest(20), "and no third");
    });
}

TEST_CASE("a node that comes back empty gets its shards from the next node, again and again") {
    Job job({0, 0, 1, 1});
    job.save({10, 20});
    job.start_agent(1);
    job.expect_restore(20);
    // They are at home again; the other node's copies there come with the next save.
    job.run([](memory::MemoryCopies& engine, Communicator& world) {
        Job::restore(engine, world, 20);
        RankState now(world.rank(), world.size(), 30);
        engine.save(30, now.state(), {.extra = "30"});
    });
    job.start_agent(0);
    job.expect_restore(30);
    job.start_agent(0);
    job.expect_restore(30);
    job.start_agent(0);
    job.start_agent(1);
    job.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(!engine.latest(INT64_MAX), "both lost: nothing");
    });
}

TEST_CASE("nodes with different numbers of ranks, and three nodes of which one is lost") {
    Job uneven({0, 0, 0, 1});
    uneven.save({5});
    uneven.start_agent(0);
    uneven.expect_restore(5);
    Job three({0, 1, 2});
    three.save({5, 6});
    three.start_agent(1);
    three.expect_restore(6);
    three.start_agent(1);
    three.start_agent(2);  // what 1 lost was with 2
    three.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(!engine.latest(INT64_MAX), "two in a row: nothing");
    });
}

TEST_CASE(
    "a damaged copy is replaced by the other node's; where both are damaged the step is not "
    "offered") {
    Job job({0, 1});
    job.save({10, 20});
    job.damage(0, 0);
    job.expect_restore(20);
    job.damage(1, 0);
    job.expect_restore(20);
    job.damage(1, 1);
    job.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(!engine.latest(INT64_MAX), "nothing that is undamaged");
    });
    // Whichever slot the newest copy is in.
    for (const std::vector<std::int64_t>& steps :
         {std::vector<std::int64_t>{1}, {1, 2}, {1, 2, 3}}) {
        Job other({0, 0, 1, 1});
        other.save(steps);
        for (const int rank : {2, 3})
            other.damage(rank, rank);
        other.expect_restore(steps.back());
        other.expect_restore(steps.back());
    }
}

TEST_CASE("a save that one rank cannot do leaves the one before") {
    Job job({0, 0, 1, 1});
    job.save({10, 20});
    job.run([&](memory::MemoryCopies& engine, Communicator& world) {
        Job::restore(engine, world, 20);
        RankState now(world.rank(), world.size(), 30);
        fsdp::State state = now.state();
        if (world.rank() == 3)
            state[0].pieces[0].data = nullptr;
        expect_error(ErrorCode::invalid_argument, "state tensor w has a piece without memory",
                     [&] { engine.save(30, state, {}); });
    });
    job.expect_restore(20);
    job.save({40});
    job.expect_restore(40);
}

TEST_CASE(
    "memory that one node refuses is an error of all ranks, and costs nothing that was whole") {
    const std::uint64_t one_state = 4 * (kElements + 1000) + 100'000;
    Job job({0, 1});
    job.save({10});
    // Node 1 comes back with room for its own copies and one more, which is not enough for its
    // neighbour's two.
    job.start_agent(1, 3 * one_state);
    job.run([&](memory::MemoryCopies& engine, Communicator& world) {
        Job::restore(engine, world, 10);
        RankState now(world.rank(), world.size(), 20);
        engine.save(20, now.state(), {.extra = "20"});
        expect_error(ErrorCode::unsupported, "checkpoint.memory_limit allows", [&] {
            engine.save(30, RankState(world.rank(), world.size(), 30).state(), {});
        });
    });
    job.expect_restore(20);
}

TEST_CASE("a part of the state loads, another state does not, and opaque bytes come back by rank") {
    Job job({0, 0, 1});
    job.run([&](memory::MemoryCopies& engine, Communicator& world) {
        RankState now(world.rank(), world.size(), 7);
        const std::string mine = "rng" + std::to_string(world.rank());
        engine.save(7, now.state(),
                    {.extra = "7", .opaque = {{"rng", mine, true}, {"loader", "at 5", false}}});
    });
    job.start_agent(1);
    job.run([&](memory::MemoryCopies& engine, Communicator& world) {
        const auto found = engine.latest(INT64_MAX);
        expect(found.has_value(), "a copy");
        expect(
            engine.load_opaque(*found, "rng") == std::vector<std::string>{"rng0", "rng1", "rng2"},
            "each rank's");
        expect(engine.load_opaque(*found, "loader") == std::vector<std::string>{"at 5"},
               "rank 0's");
        expect(engine.load_opaque(*found, "other").empty(), "no other");
        RankState now(world.rank(), world.size(), -1);
        fsdp::State part = {now.state()[1]};
        engine.load(*found, part, {});
        expect(now.whole[0] == 7 && now.cut[0] != static_cast<float>(world.rank() * 100 + 7),
               "that tensor alone");
        part[0].name = "unknown";
        expect_error(ErrorCode::mismatch, "no tensor named unknown",
                     [&] { engine.load(*found, part, {}); });
        expect(engine.load(*found, part, {.allow_missing = true}) ==
                   std::vector<std::string>{"unknown"},
               "its name");
        fsdp::State other = now.state();
        other[0].pieces[0].count -= 1;
        expect_error(ErrorCode::mismatch, "tensor w has another cut",
                     [&] { engine.load(*found, other, {}); });
    });
}

TEST_CASE("where copies are kept is said as it is") {
    Job one({0, 0});
    one.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(engine.describe().find("there is one node only") != std::string::npos,
               engine.describe());
    });
    Job two({0, 1});
    two.run([](memory::MemoryCopies& engine, Communicator&) {
        expect(engine.describe() == "by each node's agent, and a second time on the next node",
               engine.describe());
    });
    on_ranks(2, [](Communicator& world) {
        memory::MemoryCopies engine(memory::make_process_slot_files("test"), world,
                                    {.node_rank = world.rank()});
        expect(engine.describe().find("end with them") != std::string::npos, engine.describe());
        RankState now(world.rank(), world.size(), 3);
        engine.save(3, now.state(), {.extra = "3"});
        memory::MemoryCopies again(memory::make_process_slot_files("test"), world,
                                   {.generation = 1});
        Job::restore(again, world, 3);
    });
}

}  // namespace memory_nodes_test
