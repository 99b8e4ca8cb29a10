#pragma once
#include "exit_codes/exit_codes.hpp"

#include <autolaunch/error.hpp>

#include <exception>
#include <string>
#include <utility>

namespace autolaunch::launcher {

/// An error that knows what the program exits with when it ends it.
class ExitError : public Error {
public:
    ExitError(int exit_code, ErrorCode code, const std::string& what, std::string hint = {})
        : Error(code, what, std::move(hint)), exit_code_(exit_code) {}
    int exit_code() const noexcept { return exit_code_; }

private:
    int exit_code_;
};

/// The command line makes no sense.
class UsageError : public ExitError {
public:
    explicit UsageError(const std::string& what, std::string hint = {})
        : ExitError(exit_code::kUsage, ErrorCode::invalid_argument, what, std::move(hint)) {}
};

/// What the program exits with when an error ends it: docs/exit-codes.md.
int exit_code_of(const Error& error);

/// Any exception as one that ends the program. Of those that are no Error of ours a want of memory
/// or threads is the system's (71), all else a bug (70).
ExitError as_exit_error(const std::exception& error);

}  // namespace autolaunch::launcher
