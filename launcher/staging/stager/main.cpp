// autolaunch-stager: brings a job's data to this node's own disk. The agent starts it, says on its
// stdin what is wanted, and reads there what has come of it. A process of its own, which may hang
// with a shared file system while the agent does not.
#include "base/room_on_disk.hpp"
#include "exit_codes/exit_error.hpp"
#include "staging/stager/agent_line.hpp"
#include "staging/stager/stager.hpp"

#include <sys/resource.h>

#include <exception>
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
    const auto tell = [](const Error& error) {
        // Nothing is written here but the scratch: the source is read alone.
        const auto* system = dynamic_cast<const SystemError*>(&error);
        const bool is_full = system != nullptr && is_want_of_room(system->error_number());
        const char* const of = is_full ? "storage.scratch: " : "storage.stage_in: ";
        launcher::say_failed(
            {is_full ? launcher::exit_code::kCannotCreate : launcher::exit_code_of(error),
             std::string(error.what()).starts_with("storage.") ? error.what()
                                                               : std::string(of) + error.what(),
             is_full ? "make room there, or name another folder in storage.scratch"
                     : error.hint()});
    };
    try {
        launcher::take_all_descriptors();
        launcher::AgentLine agent;
        launcher::Stager(agent, launcher::parse_order(agent.hear()), environment_of_process())
            .run();
    } catch (const Error& error) {
        tell(error);
    } catch (const std::exception& error) {
        tell(launcher::as_exit_error(error));
    }
    return 0;
}
