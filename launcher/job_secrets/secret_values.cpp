#include "job_secrets/secret_values.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {

namespace {

// MAX_ARG_STRLEN: "NAME=value" with the zero behind it, 32 pages of 4 KiB on most machines.
constexpr std::size_t kLongestVariable = std::size_t{128} << 10;
constexpr std::size_t kShortestMask = 6, kShortestLine = 8, kMostLines = 256;

// Scripts and editors put one there; others would be a part of the secret.
void strip_line_end(std::string& text) {
    if (text.ends_with('\n'))
        text.pop_back();
    if (text.ends_with('\r'))
        text.pop_back();
}

void add_mask(std::string_view text, std::vector<std::string>& masks) {
    if (std::find(masks.begin(), masks.end(), text) == masks.end())
        masks.emplace_back(text);
}

}  // namespace

std::string secret_label(const SecretSpec& secret) { return "secrets." + secret.name; }

std::string as_variable(const SecretSpec& secret, std::string bytes) {
    strip_line_end(bytes);
    const std::string hint = secret_label(secret) + ".as: file gives it as a file";
    if (bytes.find('\0') != std::string::npos)
        throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument,
                        secret_label(secret) + ": it has a NUL, which no variable can hold", hint);
    if (bytes.size() + secret.name.size() + 2 > kLongestVariable)
        throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument,
                        secret_label(secret) + ": it has " + std::to_string(bytes.size()) +
                            " bytes, and the kernel takes variables of 128 KiB",
                        hint);
    return bytes;
}

std::string as_given(const SecretSpec& secret, std::string bytes) {
    return secret.as == SecretSpec::As::file ? bytes : as_variable(secret, std::move(bytes));
}

void add_masks(const std::string& value, std::vector<std::string>& masks) {
    std::string whole = value;
    strip_line_end(whole);
    if (whole.size() < kShortestMask)
        return;
    add_mask(whole, masks);
    if (whole.find('\n') == std::string::npos)
        return;
    std::size_t lines = 0;
    for (const auto& line : split(whole, '\n')) {
        const std::string_view text = trim(line);
        if (text.size() >= kShortestLine && ++lines <= kMostLines)
            add_mask(text, masks);
    }
    // The longest first: one may be a part of another.
    std::stable_sort(masks.begin(), masks.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

bool is_too_short_to_mask(const std::string& value) {
    std::string whole = value;
    strip_line_end(whole);
    return whole.size() < kShortestMask;
}

}  // namespace autolaunch::launcher
