#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace autolaunch {

/// A whole number of a JSON text that somebody else may have written. The library's own get<int>()
/// takes any number: 1.5 and 2^32 + 1 for 1, and for 1e99 it is undefined. Throws
/// nlohmann::json::type_error for what is none, or does not fit. Pure.
template <class T, class Json>
T whole_number(const Json& value) {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
    const bool fits =
        value.is_number_unsigned()
            ? std::in_range<T>(value.template get<std::uint64_t>())
            : value.is_number_integer() && std::in_range<T>(value.template get<std::int64_t>());
    // Its own exception, which is made differently from version to version.
    return fits ? value.template get<T>() : nlohmann::json("no whole number").get<T>();
}

/// The same of a key that may be missing.
template <class T, class Json>
T whole_number_or(const Json& object, const char* key, T otherwise) {
    const auto found = object.find(key);
    return found == object.end() ? otherwise : whole_number<T>(*found);
}

/// Nothing for what is none, or does not fit.
template <class T, class Json>
std::optional<T> whole_number_if_any(const Json& value) {
    try {
        return whole_number<T>(value);
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
}

/// The same of a list of them.
template <class T, class Json>
std::vector<T> whole_numbers(const Json& list) {
    std::vector<T> numbers;
    for (const auto& one : list)
        numbers.push_back(whole_number<T>(one));
    return numbers;
}

}  // namespace autolaunch
