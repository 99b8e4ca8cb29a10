#include "allocation/hostlist.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace autolaunch::launcher {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void check_name(const std::string& name) {
    const auto refuse = [&](std::string_view why) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the host name '{}' {}", name.substr(0, 80), why));
    };
    if (name.empty())
        refuse("is empty");
    if (name.size() > kMaxHostName)
        refuse(fmt::format("is longer than {} bytes", kMaxHostName));
    if (name.find_first_of("[], \t\r\n") != std::string::npos)
        refuse("has a bracket, a comma or a blank in it");
}

/// Where the digits are in which two names differ: both are `prefix`, digits, `suffix`.
struct Frame {
    std::string_view prefix, suffix;
};

std::optional<Frame> common_frame(std::string_view a, std::string_view b) {
    const std::size_t shorter = std::min(a.size(), b.size());
    std::size_t begin = 0;
    while (begin < shorter && a[begin] == b[begin])
        ++begin;
    while (begin > 0 && is_digit(a[begin - 1]))
        --begin;
    const auto digits_end = [begin](std::string_view name) {
        return static_cast<std::size_t>(
            std::find_if_not(name.begin() + static_cast<std::ptrdiff_t>(begin), name.end(),
                             is_digit) -
            name.begin());
    };
    const std::size_t end_a = digits_end(a), end_b = digits_end(b);
    if (end_a == begin || end_b == begin || a == b)
        return std::nullopt;
    if (end_a - begin > kMaxHostDigits || end_b - begin > kMaxHostDigits)
        return std::nullopt;
    if (a.substr(end_a) != b.substr(end_b))
        return std::nullopt;
    return Frame{a.substr(0, begin), a.substr(end_a)};
}

/// The digits of `name` in that frame; empty when it does not fit.
std::string_view digits_in(const Frame& frame, std::string_view name) {
    if (name.size() <= frame.prefix.size() + frame.suffix.size())
        return {};
    if (!name.starts_with(frame.prefix) || !name.ends_with(frame.suffix))
        return {};
    const std::string_view digits =
        name.substr(frame.prefix.size(), name.size() - frame.prefix.size() - frame.suffix.size());
    return digits.size() <= kMaxHostDigits && std::all_of(digits.begin(), digits.end(), is_digit)
               ? digits
               : std::string_view();
}

/// "08-10,5": numbers as written, those that count up by one with the first's width as a range.
class NumberList {
public:
    void add(std::string_view digits) {
        if (length_ > 0 && digits == next_) {
            ++length_;
        } else {
            end_range();
            low_ = digits;
            length_ = 1;
            parse_integer(low_, value_);
        }
        next_ = fmt::format("{:0{}}", value_ + length_, static_cast<int>(low_.size()));
    }

    std::string take() {
        end_range();
        return std::move(text_);
    }

private:
    void end_range() {
        if (length_ == 0)
            return;
        if (!text_.empty())
            text_ += ',';
        text_ += low_;
        if (length_ > 1)
            text_ += fmt::format("-{:0{}}", value_ + length_ - 1, static_cast<int>(low_.size()));
        length_ = 0;
    }

    std::string text_;
    std::string_view low_;
    std::string next_;
    long long value_ = 0, length_ = 0;
};

}  // namespace

std::string compress_hostlist(std::span<const std::string> names) {
    std::string text;
    for (std::size_t first = 0; first < names.size();) {
        check_name(names[first]);
        if (first > 0)
            text += ',';
        const auto frame =
            first + 1 < names.size() ? common_frame(names[first], names[first + 1]) : std::nullopt;
        std::size_t next = first + 1;
        if (!frame) {
            text += names[first];
        } else {
            NumberList numbers;
            numbers.add(digits_in(*frame, names[first]));
            for (; next < names.size(); ++next) {
                const std::string_view digits = digits_in(*frame, names[next]);
                if (digits.empty())
                    break;
                check_name(names[next]);
                numbers.add(digits);
            }
            text += fmt::format("{}[{}]{}", frame->prefix, numbers.take(), frame->suffix);
        }
        first = next;
    }
    return text;
}

}  // namespace autolaunch::launcher
