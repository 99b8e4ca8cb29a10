#pragma once
#include "spec/secret_spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// "secrets.HF_TOKEN", which messages begin with.
std::string secret_label(const SecretSpec& secret);

/// What was read, as a variable can have it: without the line end behind it. Throws ExitError 65:
/// a NUL, or more than the kernel takes. Pure.
std::string as_variable(const SecretSpec& secret, std::string bytes);

/// The same as a file has it: all of it. Pure.
std::string as_given(const SecretSpec& secret, std::string bytes);

/// Adds what of it is to be masked where it is shown: all of it, and of several lines each that is
/// long enough. What is shorter than 6 bytes would be found in other texts, too. Pure.
void add_masks(const std::string& value, std::vector<std::string>& masks);

/// What add_masks() leaves out is said: such a secret is not masked in what ranks print. Pure.
bool is_too_short_to_mask(const std::string& value);

}  // namespace autolaunch::launcher
