#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Looks up a variable by its name; "#LIST" is the length of LIST.
using VariableLookup = std::function<std::optional<long long>(const std::string&)>;

/// The value of a shell's arithmetic: numbers, names with or without $ and braces, ${#LIST[@]}, + -
/// * / %, parentheses and $((…)) inside. Nothing for whatever else stands there, division by zero
/// and overflow. Linear; nested at most 40 deep.
std::optional<long long> evaluate_arithmetic(std::string_view text, const VariableLookup& variable);

}  // namespace autolaunch::launcher
