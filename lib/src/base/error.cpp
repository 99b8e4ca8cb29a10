#include "base/file_limit.hpp"

#include <autolaunch/error.hpp>

#include <cerrno>
#include <system_error>

namespace autolaunch {

namespace {

/// Where the error itself says what to do, whatever was to be done.
std::string hint_of(int error_number) {
    if (error_number == EMFILE)
        return explain_file_limit();
    if (error_number == ENFILE)
        return "the machine has as many files open as it may: sysctl fs.file-max";
    return {};
}

}  // namespace

SystemError::SystemError(int error_number, const std::string& doing, std::string hint)
    : Error(ErrorCode::system,
            "cannot " + doing + ": " + std::generic_category().message(error_number),
            hint.empty() ? hint_of(error_number) : std::move(hint)),
      error_number_(error_number) {}

}  // namespace autolaunch
