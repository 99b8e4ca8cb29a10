#include "base/network_file_system.hpp"

#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace autolaunch {

bool is_network_file_system(const std::filesystem::path& folder) noexcept {
    constexpr unsigned long kShared[] = {0x6969,     0x65735546, 0x0BD00BD0, 0x47504653,
                                         0x19830326, 0x00C36400, 0xFE534D42, 0xFF534D42,
                                         0x01021997, 0x5346414F, 0xAAD7AAEA, 0x20030528};
    struct statfs facts {};
    return ::statfs(folder.c_str(), &facts) == 0 &&
           std::find(std::begin(kShared), std::end(kShared),
                     static_cast<unsigned long>(facts.f_type) & 0xFFFFFFFFUL) != std::end(kShared);
}

bool is_lost_server(int error) noexcept {
    constexpr int kLost[] = {ENOTCONN,     ESTALE,       ETIMEDOUT,  EHOSTDOWN, EHOSTUNREACH,
                             ECONNABORTED, ECONNREFUSED, ECONNRESET, ESHUTDOWN, ENETUNREACH,
                             ENETDOWN,     EREMOTEIO,    ENOTBLK};
    return std::find(std::begin(kLost), std::end(kLost), error) != std::end(kLost);
}

}  // namespace autolaunch
