// A rank that meets the others in the job's store, whichever node they are on, a number of times,
// and goes on in its process when one of them is lost.
//   meeting_rank TIMES [RANK:TIME]...
//   meeting_rank FILE
// These kill themselves before that meeting, in generation 0. Prints "met in GENERATION PID" once
// all are done in one generation. With a file they meet until it is there, and each prints at its
// first meeting in a generation "meets in GENERATION PID as RANK of RANKS, node NODE of NODES".
#include <autolaunch/autolaunch.hpp>

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void meet(autolaunch::Session& session, int times, const std::vector<std::string>& deaths) {
    const int generation = session.info().generation;
    for (int time = 1; time <= times; ++time) {
        const std::string now = std::to_string(session.rank()) + ":" + std::to_string(time);
        for (const std::string& death : deaths)
            if (generation == 0 && death == now)
                ::kill(::getpid(), SIGKILL);
        const std::string key = std::to_string(time);
        if (session.store().add("here/" + key, 1) == session.world_size())
            session.store().set("all/" + key, "");
        session.store().get("all/" + key);
        session.report_step(
            {.step = time, .total_steps = {}, .loss = {}, .tokens = {}, .seconds = {}});
    }
    std::printf("met in %d %d\n", generation, static_cast<int>(::getpid()));
}

// The last one at each meeting looks for the file, and tells the others.
void meet_until(autolaunch::Session& session, const std::string& file) {
    const autolaunch::RankInfo& info = session.info();
    for (int time = 1;; ++time) {
        const std::string key = std::to_string(time);
        if (session.store().add("here/" + key, 1) == info.world_size)
            session.store().set("all/" + key, ::access(file.c_str(), F_OK) == 0 ? "over" : "");
        const bool over = session.store().get("all/" + key) == "over";
        if (time == 1) {
            std::printf("meets in %d %d as %d of %d, node %d of %d\n", info.generation,
                        static_cast<int>(::getpid()), info.rank, info.world_size, info.node_rank,
                        info.node_count);
            std::fflush(stdout);
        }
        session.report_step(
            {.step = time, .total_steps = {}, .loss = {}, .tokens = {}, .seconds = {}});
        if (over)
            return;
        ::usleep(20'000);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2)
        return 2;
    const std::vector<std::string> deaths(argv + 2, argv + argc);
    try {
        auto session = autolaunch::Session::from_environment();
        const int times = std::atoi(argv[1]);
        session.run(
            [&] { times > 0 ? meet(session, times, deaths) : meet_until(session, argv[1]); });
    } catch (const autolaunch::Error& error) {
        std::fprintf(stderr, "meeting_rank: %s\n", error.what());
        return 1;
    }
}
