// A rank whose flight recorder is looked at. The ranks gather three times; then all but the last
// one go into an all_reduce, and that one waits until the file GO is there.
//
//     flight_rank late GO        … and then they are done
//     flight_rank die GO         … but rank 1 is killed while it is in it
//     flight_rank timeout GO     … and nobody waits longer than a second
//     flight_rank train GO       … after 12 steps, and 3 more follow
//     flight_rank work GO        … the same, but meanwhile it computes
//     flight_rank once GO        … the same, but in the first generation alone
//     flight_rank slow GO        the last one needs twice the time for each of many steps
//     flight_rank reads GO       … the same, but it reads from a pipe, GO.pipe
//     flight_rank child GO       … the same, but it waits for its child
//     flight_rank kernel GO      … the same, but in the kernel, where no signal wakes it
//     flight_rank skips GO       … the same, but it leaves the collective out, and is done
//     flight_rank deadlock GO    … the same, but each waits for the other in a communicator of its
//     own
//     flight_rank pretend GO     … by their recorders alone: no bytes move, so the ranks may be
//     on several nodes
//     flight_rank pace GO        … in the same way it takes steps until GO or SIGTERM; for those on
//     machines that the file GO.slow names, the others wait. While GO.hold is there SIGTERM is
//     not answered
#include "flight/flight_recorder.hpp"
#include "session/agent_line.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

using namespace autolaunch;
using namespace std::chrono_literals;

namespace {

constexpr auto kLongestLife = 60s;  // a test that fails must not leave us here for ever

void wait_for(const std::string& file, std::chrono::milliseconds nap = 10ms) {
    const auto end = std::chrono::steady_clock::now() + kLongestLife;
    while (!std::filesystem::exists(file) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(nap);
}

void say_ready() { std::fputs("ready\n", stderr); }

session::Hello hello_of(const RankInfo& info) {
    session::Hello hello;
    hello.rank = info.rank;
    hello.local_rank = info.local_rank;
    hello.generation = info.generation;
    hello.pid = static_cast<int>(::getpid());
    return hello;
}

void pretend(const Session& session, const std::string& go) {
    const RankInfo& info = session.info();
    session::AgentLine line(std::getenv("AUTOLAUNCH_SOCKET"), hello_of(info), 10s);
    const auto recorder = FlightRecorder::create(info.rank, info.generation);
    line.announce(session::Recorder{1}, UniqueFd(::dup(recorder->file().get())));
    FlightRing ring(recorder, "world", info.rank, info.world_size, "shm");
    auto entry = ring.enqueue({.kind = flight::Kind::all_gather, .bytes = 64}, true);
    ring.end(entry, false);
    ring.set_label("h.0 gradients");
    if (info.rank != info.world_size - 1)
        entry = ring.enqueue({.kind = flight::Kind::all_reduce, .bytes = 1024}, true);
    line.announce(session::Message{"recording"});  // it follows the recorder
    wait_for(go);
    ring.end(entry, false);
}

volatile std::sig_atomic_t asked_to_stop = 0;

std::string machine() {
    char here[256] = {};
    ::gethostname(here, sizeof here - 1);
    return here;
}

bool is_slow_here(const std::string& file) {
    const std::string here = machine();
    std::ifstream names(file);
    for (std::string name; names >> name;)
        if (name == here)
            return true;
    return false;
}

void pace(Session& session, const std::string& go) {
    const RankInfo& info = session.info();
    std::signal(SIGTERM, [](int) { asked_to_stop = 1; });
    std::printf("on %s\n", machine().c_str());
    std::fflush(stdout);
    session::AgentLine line(std::getenv("AUTOLAUNCH_SOCKET"), hello_of(info), 10s);
    const auto recorder = FlightRecorder::create(info.rank, info.generation);
    line.announce(session::Recorder{1}, UniqueFd(::dup(recorder->file().get())));
    FlightRing ring(recorder, "world", info.rank, info.world_size, "shm");
    const auto end = std::chrono::steady_clock::now() + 3 * kLongestLife;
    for (int step = 0; std::chrono::steady_clock::now() < end; ++step) {
        const bool slow = is_slow_here(go + ".slow");
        std::this_thread::sleep_for(slow ? 95ms : 50ms);
        auto entry = ring.enqueue({.kind = flight::Kind::all_reduce, .bytes = 1024}, true);
        std::this_thread::sleep_for(slow ? 5ms : 50ms);
        ring.end(entry, false);
        StepReport report;
        report.step = step;
        session.report_step(report);
        if (asked_to_stop != 0 || std::filesystem::exists(go)) {
            while (std::filesystem::exists(go + ".hold"))
                std::this_thread::sleep_for(10ms);
            std::printf("saved step %d\n", step);
            return;
        }
    }
}

void compute_until(const std::string& file) {
    const auto end = std::chrono::steady_clock::now() + kLongestLife;
    for (int i = 0; std::chrono::steady_clock::now() < end; ++i)
        if (i % 1000 == 0 && std::filesystem::exists(file))
            return;
}

void nap_until(const std::string& file) {
    const timespec nap{0, 500'000'000};
    for (int i = 0; i < 120 && ::access(file.c_str(), F_OK) != 0; ++i)
        ::nanosleep(&nap, nullptr);
}

// What keeps the last rank from its next step.
void stand(const std::string& mode, const std::string& go) {
    if (mode == "work") {
        compute_until(go);
    } else if (mode == "reads") {
        const std::string pipe = go + ".pipe";
        ::mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR);
        const UniqueFd fd(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
        char byte = 0;
        if (::read(fd.get(), &byte, 1) < 0)
            std::perror("read");
    } else if (mode == "child" || mode == "kernel") {
        // Who waits for a vfork(2) sleeps uninterruptibly.
        const pid_t child = mode == "child" ? ::fork() : ::vfork();
        if (child == 0) {
            nap_until(go);
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
    } else {
        wait_for(go, 500ms);
    }
}

void train(Session& session, const std::string& mode, const std::string& go) {
    constexpr int kSteps = 15, kManySteps = 70, kStandsBefore = 12;
    Communicator world = Communicator::world(session, CommunicatorOptions{});
    Communicator other = *world.split(0, session.rank());
    std::vector<float> values(1 << 12);
    world.set_label("gradients");
    say_ready();
    const bool is_slow = mode == "slow" && session.rank() == world.size() - 1;
    for (int step = 0; step < (mode == "slow" ? kManySteps : kSteps); ++step) {
        std::this_thread::sleep_for(is_slow ? 100ms : 50ms);
        const bool stands = mode == "once" ? session.info().generation == 0 : mode != "slow";
        if (stands && step == kStandsBefore && session.rank() == world.size() - 1) {
            if (mode == "skips")
                return;
            if (mode == "deadlock")
                other.all_reduce(std::span<float>(values)).wait();
            stand(mode, go);
        }
        world.all_reduce(std::span<float>(values)).wait();
        StepReport report;
        report.step = step;
        session.report_step(report);
    }
}

void meet(Session& session, const std::string& mode, const std::string& go) {
    CommunicatorOptions options;
    if (mode == "timeout")
        options.timeout = 1s;
    Communicator world = Communicator::world(session, options);
    std::vector<float> values(1 << 18), gathered(static_cast<std::size_t>(world.size()));
    world.set_label("warm-up");
    for (int i = 0; i < 3; ++i)
        world.all_gather(values.data(), gathered.data(), 1, f32).wait();
    world.set_label("h.0 gradients");
    session.report_phase("evaluation");
    std::thread killer;
    if (mode == "die" && session.rank() == 1)
        killer = std::thread([] {
            std::this_thread::sleep_for(300ms);
            ::kill(::getpid(), SIGKILL);
        });
    say_ready();
    if (session.rank() == world.size() - 1)
        wait_for(go);
    world.all_reduce(std::span<float>(values)).wait();
    if (killer.joinable())
        killer.join();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3)
        return 2;
    const std::string mode = argv[1];
    try {
        Session session = Session::from_environment();
        if (mode == "pretend") {
            pretend(session, argv[2]);
        } else if (mode == "pace") {
            pace(session, argv[2]);
        } else if (mode == "late" || mode == "die" || mode == "timeout") {
            meet(session, mode, argv[2]);
        } else {
            train(session, mode, argv[2]);
        }
    } catch (const Error& error) {
        // The first that exits has the others ended; who was aborted lets those speak that know
        // why.
        if (error.code() == ErrorCode::aborted)
            std::this_thread::sleep_for(5s);
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
