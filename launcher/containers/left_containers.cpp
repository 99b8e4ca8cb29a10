#include "containers/left_containers.hpp"

#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"
#include "plan/container_choice.hpp"

#include <chrono>
#include <exception>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr auto kRemovalTime = std::chrono::milliseconds(2500);
// podman finds out in the first that a container whose conmon was killed does not run any more.
constexpr int kRemovals = 2;

}  // namespace

void remove_left_containers(const std::filesystem::path& sockets) noexcept try {
    const std::string label = "label=autolaunch=" + sockets.filename().string();
    for (int i = 0; i < kRemovals; ++i)
        SlurmCommand({kPodman, "rm", "--force", "--time=0", "--filter", label})
            .wait(Deadline::after(kRemovalTime));
} catch (const std::exception&) {  // the keeper has an end to tell of, which is more
}

}  // namespace autolaunch::launcher
