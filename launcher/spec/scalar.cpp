#include "spec/scalar.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

namespace autolaunch::launcher {

namespace {

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
    return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Without the underscores that group digits; nothing when one stands elsewhere.
std::optional<std::string> without_grouping(std::string_view text) {
    std::string digits;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            digits += text[i];
        } else if (i == 0 || !is_digit(text[i - 1]) || i + 1 == text.size() ||
                   !is_digit(text[i + 1])) {
            return std::nullopt;
        }
    }
    return digits;
}

/// Nothing: not a whole number. A whole number beyond 64 bits becomes infinite, which to_json
/// refuses.
std::optional<Scalar> whole_number_from(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (text.starts_with('-') || text.starts_with('+'))
        text.remove_prefix(1);
    int base = 10;
    if (text.starts_with("0x"))
        base = 16;
    if (text.starts_with("0o"))
        base = 8;
    if (base != 10)
        text.remove_prefix(2);
    std::uint64_t magnitude = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
    if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument)
        return std::nullopt;
    const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (error == std::errc::result_out_of_range || (negative && magnitude > limit + 1))
        return Scalar(std::numeric_limits<double>::infinity());
    if (negative)
        return Scalar(static_cast<std::int64_t>(0 - magnitude));
    return magnitude <= limit ? Scalar(static_cast<std::int64_t>(magnitude)) : Scalar(magnitude);
}

/// Of a number that no double holds: whether it is too near to zero rather than too large.
bool is_small(std::string_view digits) {
    const std::size_t exponent = digits.find_first_of("eE");
    if (exponent != std::string_view::npos && exponent + 1 < digits.size())
        return digits[exponent + 1] == '-';
    return digits.starts_with("0.") || digits.starts_with('.');
}

std::optional<Scalar> real_number_from(std::string_view text) {
    constexpr std::array<std::string_view, 3> kInfinity = {".inf", ".Inf", ".INF"};
    constexpr std::array<std::string_view, 3> kNotANumber = {".nan", ".NaN", ".NAN"};
    if (is_one_of(text, kNotANumber))
        return Scalar(std::numeric_limits<double>::quiet_NaN());
    const bool negative = text.starts_with('-');
    if (text.starts_with('-') || text.starts_with('+'))
        text.remove_prefix(1);
    if (is_one_of(text, kInfinity))
        return Scalar(std::numeric_limits<double>::infinity());
    // from_chars also takes "inf" and "nan", which are words in YAML.
    if (text.empty() ||
        !(is_digit(text[0]) || (text[0] == '.' && text.size() > 1 && is_digit(text[1]))))
        return std::nullopt;
    double magnitude = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument)
        return std::nullopt;
    if (error == std::errc::result_out_of_range)  // it leaves the number as it was
        magnitude = is_small(text) ? 0 : std::numeric_limits<double>::infinity();
    return Scalar(negative ? -magnitude : magnitude);
}

/// A tag that the file spells out overrides what the text looks like.
std::optional<Scalar> tagged_scalar(const Value& value) {
    const Scalar found = resolve_scalar(value.text);
    const bool whole =
        std::holds_alternative<std::int64_t>(found) || std::holds_alternative<std::uint64_t>(found);
    if (value.tag == "!!str")
        return Scalar(ScalarText{});
    if (value.tag == "!!null")
        return Scalar();
    if (value.tag == "!!int" && whole)
        return found;
    if (value.tag == "!!bool" && std::holds_alternative<bool>(found))
        return found;
    if (value.tag == "!!float" && std::holds_alternative<double>(found))
        return found;
    if (value.tag == "!!float" && std::holds_alternative<std::int64_t>(found))
        return Scalar(static_cast<double>(std::get<std::int64_t>(found)));
    return std::nullopt;
}

/// 12, -3, 1.5, 1e-4, but not 007, +1, .5, 1_000 or 0x1F: what a text key's reader would lose of
/// those is what was meant, the name of a folder, say.
bool is_json_number(std::string_view text) {
    if (text.starts_with('-'))
        text.remove_prefix(1);
    const bool digits = text.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
    const bool leading_zero = text.size() > 1 && text[0] == '0' && is_digit(text[1]);
    return digits && !text.empty() && is_digit(text[0]) && !leading_zero && is_digit(text.back()) &&
           text.find(".e") == std::string_view::npos && text.find(".E") == std::string_view::npos;
}

Scalar resolve_text_key(std::string_view text) {
    constexpr std::array<std::string_view, 6> kBooleans = {"true",  "True",  "TRUE",
                                                           "false", "False", "FALSE"};
    const Scalar found = resolve_scalar(text);
    if (std::holds_alternative<std::monostate>(found) || is_one_of(text, kBooleans) ||
        is_json_number(text))
        return found;
    return ScalarText{};
}

nlohmann::ordered_json scalar_to_json(const Value& value, const std::string& key,
                                      std::vector<SpecError>& errors, Typing typing) {
    Scalar scalar = ScalarText{};
    if (value.plain)
        scalar = typing == Typing::free ? resolve_scalar(value.text) : resolve_text_key(value.text);
    if (!value.tag.empty()) {
        const auto tagged = tagged_scalar(value);
        if (!tagged) {
            errors.push_back(error_at(value.at, key,
                                      "the tag " + value.tag + " does not fit " + describe(value)));
            return nullptr;
        }
        scalar = *tagged;
    }
    if (const double* number = std::get_if<double>(&scalar);
        number != nullptr && !std::isfinite(*number)) {
        errors.push_back(error_at(value.at, key,
                                  "the trainer reads this as JSON, which cannot hold the number " +
                                      describe(value) +
                                      "; put it in quotes and convert it in the trainer"));
        return nullptr;
    }
    return std::visit(
        [&](const auto& known) -> nlohmann::ordered_json {
            using Known = std::decay_t<decltype(known)>;
            if constexpr (std::is_same_v<Known, ScalarText>)
                return value.text;
            else if constexpr (std::is_same_v<Known, std::monostate>)
                return nullptr;
            else
                return known;
        },
        scalar);
}

}  // namespace

std::optional<bool> boolean_from(std::string_view text) {
    constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                       "YES",  "on",   "On",   "ON"};
    constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                        "NO",    "off",   "Off",   "OFF"};
    if (is_one_of(text, kTrue))
        return true;
    if (is_one_of(text, kFalse))
        return false;
    return std::nullopt;
}

Scalar resolve_scalar(std::string_view text) {
    constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
    if (is_one_of(text, kNull))
        return {};
    if (const auto boolean = boolean_from(text))
        return *boolean;
    if (const auto digits = without_grouping(text)) {
        if (const auto whole = whole_number_from(*digits))
            return *whole;
        if (const auto real = real_number_from(*digits))
            return *real;
    }
    return ScalarText{};
}

nlohmann::ordered_json to_json(const Value& value, const std::string& key,
                               std::vector<SpecError>& errors, Typing typing) {
    const bool core_tag = value.tag.empty() || value.tag == "!!map" || value.tag == "!!seq";
    if (!value.is_scalar() && !core_tag)
        errors.push_back(
            error_at(value.at, key, "the tag " + value.tag + " is not supported; remove it"));
    switch (value.kind) {
        case Value::Kind::null:
            return nullptr;
        case Value::Kind::scalar:
            return scalar_to_json(value, key, errors, typing);
        case Value::Kind::sequence: {
            auto list = nlohmann::ordered_json::array();
            for (std::size_t i = 0; i < value.items.size(); ++i)
                list.push_back(
                    to_json(value.items[i], key + '[' + std::to_string(i) + ']', errors));
            return list;
        }
        case Value::Kind::mapping: {
            // Keys are unique already. An ordered object's own insertion searches all keys: too
            // slow for large mappings.
            auto object = nlohmann::ordered_json::object();
            nlohmann::ordered_json::object_t::Container& fields =
                object.get_ref<nlohmann::ordered_json::object_t&>();
            for (const auto& entry : value.entries) {
                const std::string path = key.empty() ? entry.key : key + '.' + entry.key;
                fields.emplace_back(entry.key, to_json(entry.value, path, errors));
            }
            return object;
        }
    }
    return nullptr;
}

}  // namespace autolaunch::launcher
