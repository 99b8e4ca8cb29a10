#pragma once
#include <autolaunch/error.hpp>

#include <cerrno>

namespace autolaunch {

/// What `call` returns, which opens a file and looks into it. On NFS that is ESTALE when another
/// machine replaced the file in between: the next open finds the new one.
template <class Call>
auto again_if_stale(const Call& call) {
    constexpr int kTries = 5;
    for (int number = 1;; ++number) {
        try {
            return call();
        } catch (const SystemError& error) {
            if (error.error_number() != ESTALE || number == kTries)
                throw;
        }
    }
}

}  // namespace autolaunch
