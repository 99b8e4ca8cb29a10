#pragma once
#include "spec/value.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace autolaunch::launcher {

/// What an unquoted scalar means: YAML 1.2's core schema, with what Python's users are used to on
/// top (yes, no, on and off are booleans; digits may be grouped with underscores). monostate: null;
/// string: plain text.
struct ScalarText {};
using Scalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, ScalarText>;
Scalar resolve_scalar(std::string_view text);

std::optional<bool> boolean_from(std::string_view text);

/// How unquoted words are typed.
enum class Typing {
    free,     ///< as resolve_scalar() says
    text_key  ///< of a key that expects text: booleans, null and numbers as JSON writes them; `no`,
              ///< `on`, `007`, `1_000` and all else are words
};

/// Free-form values as JSON, with their YAML types. Numbers that JSON cannot hold and tags that are
/// not YAML's own are errors. `key` is the path of `value`, for messages.
nlohmann::ordered_json to_json(const Value& value, const std::string& key,
                               std::vector<SpecError>& errors, Typing typing = Typing::free);

}  // namespace autolaunch::launcher
