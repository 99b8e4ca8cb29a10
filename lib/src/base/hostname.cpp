#include "base/hostname.hpp"

#include <unistd.h>

namespace autolaunch {

std::string hostname() {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0)
        return "localhost";
    return name;
}

}  // namespace autolaunch
