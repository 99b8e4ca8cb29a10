// A rank that meets the others in the job's store, whichever node they are on, a number of times,
// and goes on in its process when one of them is lost.
//   meeting_rank TIMES [RANK:TIME]...
// These kill themselves before that meeting, in generation 0. Prints "met in GENERATION PID" once
// all are done in one generation.
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

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2)
        return 2;
    const std::vector<std::string> deaths(argv + 2, argv + argc);
    try {
        auto session = autolaunch::Session::from_environment();
        session.run([&] { meet(session, std::atoi(argv[1]), deaths); });
    } catch (const autolaunch::Error& error) {
        std::fprintf(stderr, "meeting_rank: %s\n", error.what());
        return 1;
    }
}
