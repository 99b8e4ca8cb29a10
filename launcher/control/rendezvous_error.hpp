#pragma once
#include <autolaunch/error.hpp>

#include <string>
#include <utility>

namespace autolaunch::launcher {

/// The nodes did not come together: exit code 68 (kNoHost), or 77 (kNotPermitted) when the key was the reason. what()
/// is one sentence, hint() the diagnosis: a line for each thing that was tried and what came of it.
class RendezvousError : public Error {
public:
    RendezvousError(int exit_code, const std::string& what, std::string hint)
        : Error(ErrorCode::system, what, std::move(hint)), exit_code_(exit_code) {}
    int exit_code() const noexcept { return exit_code_; }

private:
    int exit_code_;
};

}  // namespace autolaunch::launcher
