#include "exit_codes/exit_error.hpp"

#include <cerrno>

namespace autolaunch::launcher {

int exit_code_of(const Error& error) {
    if (const auto* knows = dynamic_cast<const ExitError*>(&error))
        return knows->exit_code();
    const auto* system = dynamic_cast<const SystemError*>(&error);
    if (system != nullptr && system->error_number() == ENOENT)
        return exit_code::kNoInput;
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
