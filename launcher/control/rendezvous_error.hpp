#pragma once
#include "exit_codes/exit_error.hpp"

#include <string>
#include <utility>

namespace autolaunch::launcher {

/// The nodes did not come together: exit code 68 (kNoHost), or 77 (kNotPermitted) when the key was
/// the reason. what() is one sentence, hint() the diagnosis: a line for each thing that was tried
/// and what came of it.
class RendezvousError : public ExitError {
public:
    RendezvousError(int exit_code, const std::string& what, std::string hint)
        : ExitError(exit_code, ErrorCode::system, what, std::move(hint)) {}
};

}  // namespace autolaunch::launcher
