// A rank that trains a little, saves to one place and drains to another, and says what it came back
// from.
//   tier_rank DIRECTORY PLACE STEPS [key=value]...
// every=K: a checkpoint each K steps (5). pause=MS: so long a step takes (20). end=MS: how long it
// waits for the second place at its end (60000). local=1: the directory is each node's own. Prints
// "from STEP PATH", "stopped at STEP, S s left" where it was asked to stop, and "digest HEX" at the
// end.
#include "base/hash.hpp"

#include <autolaunch/autolaunch.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace al = autolaunch;

namespace {

struct Options {
    std::string directory, place;
    std::int64_t steps = 0;
    std::map<std::string, std::int64_t> numbers;

    std::int64_t number(const std::string& name, std::int64_t otherwise) const {
        const auto found = numbers.find(name);
        return found == numbers.end() ? otherwise : found->second;
    }
};

Options read_options(int argc, char** argv) {
    if (argc < 4)
        throw std::runtime_error("usage: tier_rank DIRECTORY PLACE STEPS [key=value]...");
    Options options{argv[1], argv[2], std::stoll(argv[3]), {}};
    for (int i = 4; i < argc; ++i) {
        const std::string text = argv[i];
        const std::size_t equals = text.find('=');
        options.numbers[text.substr(0, equals)] = std::stoll(text.substr(equals + 1));
    }
    return options;
}

// A shard of each rank, and what all hold alike.
struct State {
    explicit State(const al::Communicator& world)
        : rank(world.rank()), ranks(world.size()), mine(kCount, 0), common(kCount, 0) {}

    void step() {
        ++count;
        for (std::size_t i = 0; i < mine.size(); ++i) {
            mine[i] += static_cast<float>((i + static_cast<std::size_t>(rank)) % 7);
            common[i] += static_cast<float>(i % 5);
        }
    }
    al::fsdp::State tensors() {
        const auto bytes = [](std::vector<float>& values) {
            return reinterpret_cast<std::byte*>(values.data());
        };
        constexpr auto kAll = static_cast<std::int64_t>(kCount);
        return {{"mine", al::f32, {kAll * ranks}, {{kAll * rank, kAll, bytes(mine)}}, false},
                {"common", al::f32, {kAll}, {{0, kAll, bytes(common)}}, true}};
    }
    std::uint64_t digest() const {
        return al::hash64(mine.data(), mine.size() * 4) ^
               al::hash64(common.data(), common.size() * 4);
    }

    static constexpr std::size_t kCount = 1'500'000;  // more than a block of digests
    std::int64_t count = 0;
    int rank, ranks;
    std::vector<float> mine, common;
};

void say_how_it_stopped(al::Session& session, std::int64_t step) {
    const auto end = session.stop_deadline();
    const std::chrono::duration<double> left =
        end ? *end - std::chrono::steady_clock::now() : std::chrono::steady_clock::duration(0);
    std::printf("stopped at %lld, %.2f s left\n", static_cast<long long>(step), left.count());
}

void train(const Options& options) {
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session);
    State state(world);
    al::CheckpointOptions saving{.directory = options.directory};
    saving.schedule.every_steps = options.number("every", 5);
    saving.memory = false;
    saving.node_local = options.number("local", 0) != 0;
    if (options.place != "-")
        saving.drain = {.place = options.place, .keep = 2};
    saving.drain.wait_at_end = std::chrono::milliseconds(options.number("end", 60'000));
    al::Checkpointer checkpointer(session, world, saving);
    const auto found = checkpointer.load_latest(state.tensors());
    if (found)
        state.count = found->step;
    std::printf("from %lld %s\n", static_cast<long long>(state.count),
                found ? found->path.c_str() : "nothing");
    bool stop = false;
    while (!stop && state.count < options.steps) {
        std::this_thread::sleep_for(std::chrono::milliseconds(options.number("pause", 20)));
        checkpointer.wait_copied();
        state.step();
        al::StepReport report;
        report.step = state.count;
        report.total_steps = options.steps;
        session.report_step(report);
        const al::SaveDecision decision = checkpointer.should_save(state.count);
        if (decision || state.count == options.steps)
            checkpointer.save_async(state.count, state.tensors());
        stop = decision.stop();
    }
    checkpointer.finish();
    if (stop)
        say_how_it_stopped(session, state.count);
    std::printf("digest %016llx\n", static_cast<unsigned long long>(state.digest()));
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        train(read_options(argc, argv));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
