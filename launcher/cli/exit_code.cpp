#include "cli/exit_code.hpp"

#include "rendezvous/join.hpp"
#include "report/exit_codes.hpp"
#include "supervise/run_directory.hpp"

#include <cerrno>

namespace autolaunch::launcher {

int exit_code_of(const Error& error) {
    if (const auto* apart = dynamic_cast<const RendezvousError*>(&error)) return apart->exit_code();
    if (dynamic_cast<const RunDirectoryError*>(&error) != nullptr) return exit_code::kCannotCreate;
    const auto* system = dynamic_cast<const SystemError*>(&error);
    if (system != nullptr && system->error_number() == ENOENT) return exit_code::kNoInput;
    switch (error.code()) {
        case ErrorCode::invalid_argument:
            return exit_code::kBadSpec;
        case ErrorCode::unsupported:
            return exit_code::kUnavailable;
        default:
            return exit_code::kSystem;
    }
}

}  // namespace autolaunch::launcher
