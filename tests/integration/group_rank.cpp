// A rank that reduces numbers with the others, over any backend, and goes on in its process when
// one of them is lost.
//   group_rank STEPS BACKEND [key=RANK:STEP,…]...
// In generation 0, before that step: die, it kills itself; sleeps, it is stuck for two minutes;
// broken: from there on its GPU takes nothing any more; holds: NCCL does not let go of the GPU (the
// fake one, tests/integration/fake_gpu.hpp). chaos=US: in all generations but the last, one rank,
// and in every third two, kill themselves within so many microseconds from the begin on. Prints
// "summed NUMBER in GENERATION PID" at the end.
#include "fake_gpu.hpp"

#include <autolaunch/autolaunch.hpp>

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

namespace al = autolaunch;

namespace {

struct Options {
    std::int64_t steps = 0;
    std::string backend;
    std::map<std::string, std::string> given;
};

FakeGpuControl& fake_gpu_here() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void* found = driver == nullptr ? nullptr : ::dlsym(driver, "fake_gpu_control");
    if (found == nullptr)
        throw std::runtime_error("there is no fake GPU");
    return *reinterpret_cast<FakeGpuControl* (*)()>(found)();
}

bool is_due(const Options& options, const char* what, const al::Session& session,
            std::int64_t step) {
    const std::string own = "," + std::to_string(session.rank()) + ":" + std::to_string(step) + ",";
    const auto found = options.given.find(what);
    return session.info().generation == 0 && found != options.given.end() &&
           ("," + found->second + ",").find(own) != std::string::npos;
}

void misbehave(const Options& options, const al::Session& session, std::int64_t step) {
    if (is_due(options, "die", session, step)) {
        // Others that are to misbehave in this step have come to it by then, on a busy machine too.
        if (options.given.contains("broken") || options.given.contains("holds"))
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::kill(::getpid(), SIGKILL);
    }
    if (is_due(options, "sleeps", session, step))
        std::this_thread::sleep_for(std::chrono::minutes(2));
    if (is_due(options, "broken", session, step))
        fake_gpu_here().driver_has_ended = true;
    if (is_due(options, "holds", session, step))
        fake_gpu_here().hang_in_end = true;
}

// From another thread: wherever this one is then.
void die_at_random(const Options& options, const al::Session& session) {
    const auto found = options.given.find("chaos");
    const al::RankInfo& info = session.info();
    if (found == options.given.end() || info.generation >= info.max_restarts)
        return;
    const int first = info.generation % info.world_size;
    const bool two = info.generation % 3 == 0 && info.generation + 10 < info.max_restarts;
    if (info.rank != first && !(two && info.rank == (first + 1) % info.world_size))
        return;
    std::random_device seed;
    const std::chrono::microseconds delay(
        std::uniform_int_distribution<std::int64_t>(0, std::stoll(found->second))(seed));
    std::thread([delay] {
        std::this_thread::sleep_for(delay);
        ::kill(::getpid(), SIGKILL);
    }).detach();
}

std::int64_t sum_up(al::Session& session, const Options& options) {
    die_at_random(options, session);
    auto world = al::Communicator::world(session, {.backend = options.backend});
    auto odd_or_even = world.split(world.rank() % 2, world.rank());
    std::int64_t sum = 0;
    const bool endless =
        options.given.contains("chaos") && session.info().generation < session.info().max_restarts;
    for (std::int64_t step = 1; endless || step <= options.steps; ++step) {
        misbehave(options, session, step);
        sum += world.all_reduce_value(step * (world.rank() + 1));
        sum += odd_or_even->all_reduce_value(step);
        session.report_step(
            {.step = step, .total_steps = {}, .loss = {}, .tokens = {}, .seconds = {}});
    }
    return sum;
}

Options read_options(int argc, char** argv) {
    if (argc < 3)
        throw std::runtime_error("usage: group_rank STEPS BACKEND [key=RANK:STEP]...");
    Options options{std::stoll(argv[1]), argv[2], {}};
    for (int i = 3; i < argc; ++i) {
        const std::string text = argv[i];
        const std::size_t equals = text.find('=');
        options.given[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const Options options = read_options(argc, argv);
        auto session = al::Session::from_environment();
        session.run([&] {
            const std::int64_t sum = sum_up(session, options);
            std::printf("summed %lld in %d %d\n", static_cast<long long>(sum),
                        session.info().generation, static_cast<int>(::getpid()));
        });
    } catch (const al::Error& error) {
        std::fprintf(stderr, "group_rank: %s\n  %s\n", error.what(), error.hint().c_str());
        return 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "group_rank: %s\n", error.what());
        return 1;
    }
}
