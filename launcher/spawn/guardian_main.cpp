// The guardian as a program of its own: so that its /proc/PID/exe is not autolaunch's. What it is
// to do comes in its environment, because anybody may search command lines.
#include "spawn/guardian.hpp"
#include "spawn/guardian_image.hpp"

#include <unistd.h>

#include <cstdlib>

namespace autolaunch::launcher {

const unsigned char kGuardianImage[] = {0};
const std::size_t kGuardianImageBytes = 0;

}  // namespace autolaunch::launcher

int main(int argc, char** argv) {
    const char* const agent = std::getenv("AGENT");
    const char* const folder = std::getenv("FOLDER");
    if (argc != 3 || agent == nullptr || folder == nullptr)
        return 64;
    autolaunch::launcher::GuardOrder order;
    order.keeper = std::atoi(argv[2]);
    order.agent = std::atoi(agent);
    order.scratch = folder;
    order.in_own_image = true;
    autolaunch::launcher::guard(order);
}
