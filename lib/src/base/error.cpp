#include <autolaunch/error.hpp>

#include <system_error>

namespace autolaunch {

SystemError::SystemError(int error_number, const std::string& doing, std::string hint)
    : Error(ErrorCode::system,
            "cannot " + doing + ": " + std::generic_category().message(error_number),
            std::move(hint)),
      error_number_(error_number) {}

}  // namespace autolaunch
