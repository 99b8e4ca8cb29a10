// autolaunch-stager: brings a job's data to this node's own disk. The agent starts it, says on its
// stdin what is wanted, and reads there what has come of it. A process of its own, which may hang
// with a shared file system while the agent does not.
#include "exit_codes/exit_error.hpp"
#include "staging/stager/agent_line.hpp"
#include "staging/stager/stager.hpp"

#include <sys/resource.h>

#include <string>

namespace autolaunch::launcher {

namespace {

void take_all_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

}  // namespace autolaunch::launcher

int main() {
    using namespace autolaunch;
    try {
        launcher::take_all_descriptors();
        launcher::AgentLine agent;
        launcher::Stager(agent, launcher::parse_order(agent.hear()), environment_of_process())
            .run();
    } catch (const Error& error) {
        launcher::say_failed({launcher::exit_code_of(error),
                              std::string(error.what()).starts_with("storage.")
                                  ? error.what()
                                  : std::string("storage.stage_in: ") + error.what(),
                              error.hint()});
    }
    return 0;
}
