#pragma once
#include <string>

namespace autolaunch::launcher {

/// The whole number that an option was given. Throws UsageError naming the option.
int number_from(const std::string& text, const char* option, int minimum, int maximum = 1'000'000);

}  // namespace autolaunch::launcher
