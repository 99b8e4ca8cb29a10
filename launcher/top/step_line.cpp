#include "top/step_line.hpp"

#include "report/parse_event.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kTime = R"({"time":")";
constexpr std::size_t kTimeBytes = 24;

/// Whether what from_chars() took is a number in JSON, too: not 050, .5, 1. or inf.
bool is_json_number(std::string_view text) {
    const auto is_digit = [&text](std::size_t at) {
        return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    const std::size_t first = text.starts_with('-') ? 1 : 0, point = text.find('.');
    return is_digit(first) && !(text[first] == '0' && is_digit(first + 1)) &&
           (point == text.npos || is_digit(point + 1));
}

/// Takes words and numbers from the front of a line; false once something else stands there.
class LineEater {
public:
    explicit LineEater(std::string_view rest) : rest_(rest) {}

    bool eat(std::string_view word) {
        if (!rest_.starts_with(word))
            return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    template <class Number>
    bool eat_number(Number& value) {
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        const auto bytes = static_cast<std::size_t>(end - rest_.data());
        if (error != std::errc() || !is_json_number(rest_.substr(0, bytes)))
            return false;
        rest_.remove_prefix(bytes);
        return true;
    }
    /// `,"key":number`, where it comes next; left alone where another key does.
    template <class Number>
    bool eat_if_next(std::string_view key, std::optional<Number>& value) {
        if (!eat(key))
            return true;
        if (eat("null"))
            return true;
        Number number{};
        if (!eat_number(number))
            return false;
        value = number;
        return true;
    }
    bool is_over() const { return rest_.empty(); }

private:
    std::string_view rest_;
};

}  // namespace

std::optional<std::chrono::sys_time<std::chrono::milliseconds>> time_of_line(
    std::string_view line) {
    if (!line.starts_with(kTime) || line.size() < kTime.size() + kTimeBytes)
        return std::nullopt;
    return parse_event_time(line.substr(kTime.size(), kTimeBytes));
}

std::optional<Event> parse_step_line(std::string_view line) {
    const auto at = time_of_line(line);
    if (!at)
        return std::nullopt;
    LineEater rest(line.substr(kTime.size() + kTimeBytes));
    Event event{.at = *at, .generation = 0, .what = StepReported{}};
    auto& step = std::get<StepReported>(event.what);
    const bool whole = rest.eat(R"(","generation":)") && rest.eat_number(event.generation) &&
                       rest.eat(R"(,"event":"step","rank":)") && rest.eat_number(step.rank) &&
                       rest.eat(R"(,"step":)") && rest.eat_number(step.step) &&
                       rest.eat_if_next(R"(,"total_steps":)", step.total_steps) &&
                       rest.eat_if_next(R"(,"tokens":)", step.tokens) &&
                       rest.eat_if_next(R"(,"loss":)", step.loss) &&
                       rest.eat_if_next(R"(,"seconds":)", step.seconds) && rest.eat("}") &&
                       rest.is_over();
    return whole ? std::optional(std::move(event)) : std::nullopt;
}

}  // namespace autolaunch::launcher
