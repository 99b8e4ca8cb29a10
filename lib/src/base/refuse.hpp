#pragma once
#include <autolaunch/error.hpp>

#include <string>
#include <utility>

namespace autolaunch {

/// For what makes no sense as it was asked: Error{invalid_argument}, with what to do instead.
[[noreturn]] inline void refuse(const std::string& what, std::string hint = {}) {
    throw Error(ErrorCode::invalid_argument, what, std::move(hint));
}

}  // namespace autolaunch
