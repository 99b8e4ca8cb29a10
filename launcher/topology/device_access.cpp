#include "topology/readers.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace autolaunch::launcher {

bool may_open(const TopologyOptions& options, const std::string& device_node) {
    if (options.may_open)
        return options.may_open(device_node);
    return ::faccessat(AT_FDCWD, device_node.c_str(), R_OK | W_OK, AT_EACCESS) == 0;
}

}  // namespace autolaunch::launcher
