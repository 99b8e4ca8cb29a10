#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace autolaunch {

/// A whole number of a JSON text that somebody else may have written. The library's own get<int>()
/// takes any number: 1.5 and 2^32 + 1 for 1, and for 1e99 it is undefined. Throws
/// nlohmann::json::type_error for what is none, or does not fit. Pure.
template <class Integer, class Json>
Integer whole_number(const Json& value) {
    static_assert(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>);
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<Integer>(value.template get<std::uint64_t>())
                          : value.is_number_integer() &&
                                std::in_range<Integer>(value.template get<std::int64_t>());
    // Its own exception, which is made differently from version to version.
    return fits ? value.template get<Integer>() : nlohmann::json("no whole number").get<Integer>();
}

/// The same of a key that may be missing.
template <class Integer, class Json>
Integer whole_number_or(const Json& object, const char* key, Integer otherwise) {
    const auto found = object.find(key);
    return found == object.end() ? otherwise : whole_number<Integer>(*found);
}

/// The same of a list of them.
template <class Integer, class Json>
std::vector<Integer> whole_numbers(const Json& list) {
    std::vector<Integer> numbers;
    for (const auto& one : list)
        numbers.push_back(whole_number<Integer>(one));
    return numbers;
}

}  // namespace autolaunch
