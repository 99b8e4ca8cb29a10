#pragma once
#include <autolaunch/error.hpp>

#include <string>

namespace autolaunch::launcher {

/// The command line makes no sense. The program says so and exits with exit_code::kUsage.
class UsageError : public Error {
public:
    explicit UsageError(const std::string& what, std::string hint = {})
        : Error(ErrorCode::invalid_argument, what, std::move(hint)) {}
};

}  // namespace autolaunch::launcher
