#include "exit_codes/exit_error.hpp"

#include <cerrno>
#include <new>
#include <system_error>

namespace autolaunch::launcher {

namespace {

/// Whether it says that a path leads to nothing that could be read.
bool leads_nowhere(int error_number) {
    return error_number == ENOENT || error_number == ENOTDIR || error_number == ENAMETOOLONG ||
           error_number == ELOOP || error_number == ENODATA;  // a pipe without writer
}

}  // namespace

int exit_code_of(const Error& error) {
    if (const auto* knows = dynamic_cast<const ExitError*>(&error))
        return knows->exit_code();
    const auto* system = dynamic_cast<const SystemError*>(&error);
    if (system != nullptr && leads_nowhere(system->error_number()))
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

ExitError as_exit_error(const std::exception& error) {
    if (const auto* ours = dynamic_cast<const Error*>(&error))
        return ExitError(exit_code_of(*ours), ours->code(), ours->what(), ours->hint());
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
        dynamic_cast<const std::system_error*>(&error) != nullptr)
        return ExitError(exit_code::kSystem, ErrorCode::system,
                         std::string("the system refused: ") + error.what());
    return ExitError(exit_code::kInternal, ErrorCode::system,
                     std::string("a bug of autolaunch: ") + error.what(), "please report it");
}

}  // namespace autolaunch::launcher
