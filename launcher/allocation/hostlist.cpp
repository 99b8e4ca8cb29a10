#include "allocation/hostlist.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace autolaunch::launcher {
namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxDigits = 18;  // fits long long

// A recursive-descent reader of the grammar in the header.
class HostlistReader {
public:
    explicit HostlistReader(std::string_view text) : text_(text) {}

    std::vector<std::string> read() {
        auto names = read_list(0);
        if (at_ != text_.size()) fail("a ']' without its '['");
        return names;
    }

private:
    using Names = std::vector<std::string>;

    [[noreturn]] void fail(std::string_view what) const {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("host list '{}': {} at character {}", text_, what, at_ + 1));
    }

    bool ends_term() const { return at_ == text_.size() || text_[at_] == ',' || text_[at_] == ']'; }

    void append(Names& names, Names more) const {
        if (names.size() + more.size() > kMaxHosts) fail(fmt::format("more than {} hosts", kMaxHosts));
        std::move(more.begin(), more.end(), std::back_inserter(names));
    }

    Names read_list(int depth) {
        if (depth > kMaxDepth) fail(fmt::format("brackets nested deeper than {}", kMaxDepth));
        Names names;
        for (;;) {
            append(names, read_term(depth));
            if (at_ == text_.size() || text_[at_] != ',') return names;
            ++at_;
        }
    }

    Names read_term(int depth) {
        if (ends_term()) fail("an empty name");
        Names names{""};
        while (!ends_term()) names = multiply(names, text_[at_] == '[' ? read_brackets(depth) : read_text(depth));
        return names;
    }

    Names read_brackets(int depth) {
        ++at_;
        Names names = read_list(depth + 1);
        if (at_ == text_.size()) fail("a '[' without its ']'");
        ++at_;
        return names;
    }

    Names read_text(int depth) {
        const std::size_t end = std::min(text_.find_first_of("[],", at_), text_.size());
        const std::string_view word = text_.substr(at_, end - at_);
        const bool whole_term =
            depth > 0 && (at_ == 0 || text_[at_ - 1] != ']') && (end == text_.size() || text_[end] != '[');
        std::optional<Names> range;
        if (whole_term) range = read_range(word);
        at_ = end;
        return range ? *range : Names{std::string(word)};
    }

    std::optional<Names> read_range(std::string_view word) const {
        const std::size_t dash = word.find('-');
        if (dash == std::string_view::npos) return std::nullopt;
        const std::string_view low_text = word.substr(0, dash), high_text = word.substr(dash + 1);
        const auto digits = [](std::string_view part) {
            return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
        };
        if (!digits(low_text) || !digits(high_text)) return std::nullopt;
        if (low_text.size() > kMaxDigits || high_text.size() > kMaxDigits) fail("a number too long");
        long long low = 0, high = 0;
        parse_integer(low_text, low);
        parse_integer(high_text, high);
        if (high < low) fail(fmt::format("the range {} counts down", word));
        if (high - low >= static_cast<long long>(kMaxHosts)) fail(fmt::format("more than {} hosts", kMaxHosts));
        Names names;
        for (long long number = low; number <= high; ++number)
            names.push_back(fmt::format("{:0{}}", number, low_text.size()));
        return names;
    }

    Names multiply(const Names& heads, const Names& tails) const {
        if (heads.size() * tails.size() > kMaxHosts) fail(fmt::format("more than {} hosts", kMaxHosts));
        Names names;
        names.reserve(heads.size() * tails.size());
        for (const auto& head : heads)
            for (const auto& tail : tails) names.push_back(head + tail);
        return names;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text) { return HostlistReader(text).read(); }

std::vector<int> expand_counts(std::string_view text) {
    std::vector<int> counts;
    for (const std::string& part : split(text, ',')) {
        const std::size_t open = part.find("(x");
        long long value = 0, times = 1;
        bool good = parse_integer(std::string_view(part).substr(0, open), value) && value >= 0 && value <= 1'000'000;
        if (good && open != std::string::npos) {
            good = part.ends_with(')') &&
                   parse_integer(std::string_view(part).substr(open + 2, part.size() - open - 3), times) && times >= 1;
        }
        if (!good) throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is not a list like 8(x4),2", text));
        if (times + static_cast<long long>(counts.size()) > static_cast<long long>(kMaxHosts))
            throw Error(ErrorCode::invalid_argument, fmt::format("'{}' names more than {} nodes", text, kMaxHosts));
        counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(value));
    }
    return counts;
}

}  // namespace autolaunch::launcher
