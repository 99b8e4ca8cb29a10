// A rank that trains a small sharded model, keeps copies of it in memory, and says what it came
// back from.
//   memory_rank STEPS [key=value]...
// every=K: a copy each K steps (1); copies=N: so many of each, one after the other (1). disk=PATH:
// a checkpoint on disk each 10 steps there, too. peers=0: no copies for other nodes. floats=N: as
// many parameters. backend=NAME. die=RANK:STEP,…: in generation 0 these ranks kill themselves
// before that step; stuck=RANK:STEP: that one sleeps there. in_place=1: by Session::run(); chaos
// then kills one rank, and in every third generation two. hold=PATH: after step 5 of generation 0
// it waits until the file is there. chaos=US: every rank kills itself within so many microseconds
// from its restore on, in all generations but the last, which trains STEPS more; the file
// "copying-RANK-GENERATION" then says whether it was in a copy. Prints "from STEP
// memory|disk|nothing" and the saved text, and "digest HEX" at the end.
#include "base/file_io.hpp"
#include "base/hash.hpp"

#include <autolaunch/autolaunch.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

namespace {

struct Options {
    std::int64_t steps = 0;
    std::map<std::string, std::string> given;

    std::string text(const std::string& name) const {
        const auto found = given.find(name);
        return found == given.end() ? std::string() : found->second;
    }
    std::int64_t number(const std::string& name, std::int64_t otherwise) const {
        return given.contains(name) ? std::stoll(text(name)) : otherwise;
    }
};

Options read_options(int argc, char** argv) {
    if (argc < 2)
        throw std::runtime_error("usage: memory_rank STEPS [key=value]...");
    Options options{std::stoll(argv[1]), {}};
    for (int i = 2; i < argc; ++i) {
        const std::string text = argv[i];
        const std::size_t equals = text.find('=');
        options.given[text.substr(0, equals)] =
            equals == std::string::npos ? "" : text.substr(equals + 1);
    }
    return options;
}

// The kernel kills this process within that time, wherever it is then.
void kill_myself_after_at_most(std::chrono::microseconds longest) {
    std::random_device seed;
    const std::chrono::microseconds delay(
        std::uniform_int_distribution<std::int64_t>(0, longest.count())(seed));
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer = {};
    itimerspec when = {};
    when.it_value.tv_sec = delay.count() / 1'000'000;
    when.it_value.tv_nsec = delay.count() % 1'000'000 * 1000 + 1;
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        ::timer_settime(timer, 0, &when, nullptr) != 0)
        throw std::runtime_error("no timer");
}

// A byte in a file that stays as it was when we were killed: '1' in a copy, '0' else.
class CopyingFlag {
public:
    explicit CopyingFlag(const al::Session& session) {
        const std::string name = "copying-" + std::to_string(session.rank()) + "-" +
                                 std::to_string(session.info().generation);
        const al::UniqueFd file = al::open_file(name, O_RDWR | O_CREAT);
        void* const memory =
            ::ftruncate(file.get(), 1) == 0
                ? ::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)
                : MAP_FAILED;
        if (memory == MAP_FAILED)
            throw std::runtime_error("cannot map " + name);
        byte_ = static_cast<volatile char*>(memory);
        set('0');
    }
    void set(char value) { *byte_ = value; }

private:
    volatile char* byte_;
};

struct Trainer {
    Trainer(al::Communicator& world, std::int64_t floats)
        : model(world, {.strategy = fsdp::ShardingStrategy::full_shard, .precision = {}}),
          unit(model.add_unit("h", {{"w", {floats}}, {"b", {31}}})),
          optimizer((model.finalize(), model), {.lr = 1e-2, .decays = {}}) {
        model.initialize([](const std::string&, std::span<const std::int64_t>, std::int64_t at,
                            std::span<float> values) {
            for (float& value : values)
                value = 0.25f * static_cast<float>(at++ % 17);
        });
    }

    // Gradients are functions of the step and the element alone: the same bits however often it was
    // interrupted.
    void step() {
        for (const auto& parameter : unit.parameters()) {
            std::int64_t i = optimizer.step_count() * 31;
            for (float& value : unit.grad(parameter.name).as<float>())
                value = static_cast<float>(i++ % 13 - 6);
        }
        unit.reduce_grads();
        optimizer.step();
    }

    // Of all that this rank holds.
    std::string digest() {
        std::string all;
        for (auto state : {model.state(), optimizer.state()})
            for (const auto& tensor : state)
                for (const auto& piece : tensor.pieces)
                    all += al::hex64(
                        al::hash64(piece.data, static_cast<std::size_t>(piece.count) * 4));
        return al::hex64(al::hash64(all.data(), all.size()));
    }

    fsdp::ShardedModel model;
    fsdp::Unit& unit;
    fsdp::AdamW optimizer;
};

bool dies_at_random(const Options& options, const al::Session& session) {
    return options.number("chaos", 0) > 0 &&
           session.info().generation < session.info().max_restarts;
}

std::string rng_state(std::int64_t step, int rank) {
    return std::to_string(step) + '\0' + std::to_string(rank);
}

void wait_for(const std::filesystem::path& file) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(file)) {
        if (std::chrono::steady_clock::now() > deadline)
            throw std::runtime_error("nobody let us go on");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

bool is_among(const Options& options, const char* name, const al::Session& session,
              std::int64_t step) {
    const std::string own = "," + std::to_string(session.rank()) + ":" + std::to_string(step) + ",";
    return session.info().generation == 0 &&
           ("," + options.text(name) + ",").find(own) != std::string::npos;
}

// Two at once never near the end: the second one's death may come some generations later.
bool is_chosen(const Options& options, const al::Session& session) {
    constexpr int kAlone = 10;
    if (options.number("in_place", 0) == 0)
        return true;
    const al::RankInfo& info = session.info();
    const bool two = info.generation % 3 == 0 && info.generation + kAlone < info.max_restarts;
    const int first = info.generation % info.world_size;
    return info.rank == first || (two && info.rank == (first + 1) % info.world_size);
}

void train(al::Session& session, const Options& options) {
    const std::string backend = options.text("backend");
    auto world = al::Communicator::world(session, {.backend = backend.empty() ? "auto" : backend});
    Trainer trainer(world, options.number("floats", 100'000));
    const std::string disk = options.text("disk");
    al::CheckpointOptions where;
    where.directory = disk.empty() ? "no-checkpoints" : disk;
    where.memory_peers = options.number("peers", 1) != 0;
    al::Checkpointer checkpointer(session, world, where);
    if (dies_at_random(options, session) && is_chosen(options, session))
        kill_myself_after_at_most(std::chrono::microseconds(options.number("chaos", 0)));
    const auto found = checkpointer.latest();
    if (found)
        checkpointer.load(*found, trainer.model, trainer.optimizer);
    std::printf("from %lld %s %s\n", static_cast<long long>(trainer.optimizer.step_count()),
                !found             ? "nothing"
                : found->in_memory ? "memory"
                                   : "disk",
                found ? found->extra.c_str() : "");
    std::fflush(stdout);
    if (found && found->extra != "{\"step\":" + std::to_string(found->step) + "}")
        throw std::runtime_error("the extra text is of another step");
    if (found) {
        const auto opaque = checkpointer.load_opaque(*found, "rng");
        if (std::ssize(opaque) != session.world_size() ||
            opaque[static_cast<std::size_t>(session.rank())] !=
                rng_state(found->step, session.rank()))
            throw std::runtime_error("the opaque state is another's");
    }

    std::int64_t steps = options.steps;
    if (options.number("chaos", 0) > 0)
        steps = dies_at_random(options, session) ? INT64_MAX
                                                 : trainer.optimizer.step_count() + options.steps;
    std::optional<CopyingFlag> copying;
    if (options.number("chaos", 0) > 0)
        copying.emplace(session);
    while (trainer.optimizer.step_count() < steps) {
        if (is_among(options, "die", session, trainer.optimizer.step_count() + 1))
            ::kill(::getpid(), SIGKILL);
        if (is_among(options, "stuck", session, trainer.optimizer.step_count() + 1))
            std::this_thread::sleep_for(std::chrono::minutes(2));
        trainer.step();
        const std::int64_t step = trainer.optimizer.step_count();
        session.report_step(
            {.step = step, .total_steps = {}, .loss = {}, .tokens = {}, .seconds = {}});
        const al::SaveOptions extra{
            .extra = "{\"step\":" + std::to_string(step) + "}",
            .opaque = {{"rng", rng_state(step, session.rank()), /*per_rank=*/true}}};
        if (!disk.empty() && step % 10 == 0)
            checkpointer.save(step, trainer.model, trainer.optimizer, extra);
        if (copying)
            copying->set('1');
        for (std::int64_t i = 0;
             step % options.number("every", 1) == 0 && i < options.number("copies", 1); ++i)
            checkpointer.save_to_memory(step, trainer.model, trainer.optimizer, extra);
        if (copying)
            copying->set('0');
        if (!options.text("hold").empty() && session.info().generation == 0 && step == 5)
            wait_for(options.text("hold"));
    }
    std::printf("digest %s\n", trainer.digest().c_str());
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const Options options = read_options(argc, argv);
        auto session = al::Session::from_environment();
        if (options.number("in_place", 0) != 0)
            session.run([&] { train(session, options); });
        else
            train(session, options);
    } catch (const al::Error& error) {
        std::fprintf(stderr, "memory_rank: %s\n  %s\n", error.what(), error.hint().c_str());
        return 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "memory_rank: %s\n", error.what());
        return 1;
    }
}
