#include "allocation/hostlist.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace autolaunch::launcher {
namespace {

using Names = std::vector<std::string>;

constexpr int kMaxDepth = 8;
constexpr std::string_view kBlanks = " \t\r\n";
// All that is built on the way counts, the inner lists too: this many times the result's own
// bounds.
constexpr std::size_t kWorkFactor = 4;

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// What stands at the fault, of a text that may be megabytes long.
std::string excerpt(std::string_view text, std::size_t at) {
    constexpr std::size_t kAround = 40;
    if (text.size() <= 2 * kAround)
        return std::string(text);
    const std::size_t begin = at > kAround ? at - kAround : 0;
    const std::string_view part = text.substr(begin, 2 * kAround);
    return fmt::format("{}{}{}", begin > 0 ? "…" : "", part,
                       begin + part.size() < text.size() ? "…" : "");
}

// A term's pieces in the order written: texts have one name, brackets any number.
struct Piece {
    Names names;
    bool is_bracket = false;
};

// A recursive-descent reader of the grammar in the header.
class HostlistReader {
public:
    HostlistReader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

    Names read() {
        skip_blanks();
        auto names = read_list(0);
        if (at_ != text_.size())
            fail("a ']' without its '['");
        return names;
    }

private:
    [[noreturn]] void fail(std::string_view what) const { fail(what, at_); }
    [[noreturn]] void fail(std::string_view what, std::size_t at) const {
        throw Error(ErrorCode::invalid_argument, fmt::format("host list '{}': {} at character {}",
                                                             excerpt(text_, at), what, at + 1));
    }

    std::string too_many() const { return fmt::format("more than {} hosts", most_); }
    bool at_end() const { return at_ == text_.size(); }
    bool at_blank() const {
        return !at_end() && kBlanks.find(text_[at_]) != std::string_view::npos;
    }
    bool ends_term() const {
        return at_end() || text_[at_] == ',' || text_[at_] == ']' || at_blank();
    }
    void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

    // Before anything is built: is there room for it?
    void charge(std::size_t names, std::size_t bytes) {
        if (names > most_)
            fail(too_many());
        if (bytes > kMaxHostlistBytes)
            fail(fmt::format("more than {} bytes of names", kMaxHostlistBytes));
        names_built_ += names;
        bytes_built_ += bytes;
        if (names_built_ > kWorkFactor * most_ || bytes_built_ > kWorkFactor * kMaxHostlistBytes)
            fail(too_many());
    }

    Names read_list(int depth) {
        if (depth > kMaxDepth)
            fail(fmt::format("brackets nested deeper than {}", kMaxDepth));
        Names names;
        std::size_t bytes = 0;
        do {
            Names more = read_term(depth);
            if (names.size() + more.size() > most_)
                fail(too_many());
            for (const auto& name : more)
                bytes += name.size();
            if (bytes > kMaxHostlistBytes)
                fail(fmt::format("more than {} bytes of names", kMaxHostlistBytes));
            if (names.empty())
                names = std::move(more);
            else
                std::move(more.begin(), more.end(), std::back_inserter(names));
        } while (skip_separator(depth));
        return names;
    }

    // True when another term follows.
    bool skip_separator(int depth) {
        const std::size_t before = at_;
        if (depth == 0)
            skip_blanks();
        if (at_end() || text_[at_] == ']')
            return false;
        if (text_[at_] == ',') {
            ++at_;
            if (depth == 0)
                skip_blanks();
            return true;
        }
        if (at_ == before)
            fail("a blank inside brackets");
        return true;
    }

    Names read_term(int depth) {
        const std::size_t begin = at_;
        if (ends_term())
            fail(at_blank() ? "a blank inside brackets" : "an empty name");
        std::vector<Piece> pieces;
        std::size_t count = 1, longest = 0;
        while (!ends_term()) {
            const bool is_bracket = text_[at_] == '[';
            pieces.push_back({is_bracket ? read_brackets(depth) : read_text(depth), is_bracket});
            const Names& names = pieces.back().names;
            if (count * names.size() > most_)
                fail(too_many(), begin);
            count *= names.size();
            longest += std::accumulate(
                names.begin(), names.end(), std::size_t{0},
                [](std::size_t most, const auto& name) { return std::max(most, name.size()); });
            if (longest > kMaxHostName)
                fail(fmt::format("a name longer than {} bytes", kMaxHostName), begin);
        }
        return pieces.size() == 1 ? std::move(pieces[0].names) : multiply(pieces, count);
    }

    Names read_brackets(int depth) {
        const std::size_t open = at_++;
        Names names = read_list(depth + 1);
        if (at_end())
            fail("a '[' without its ']'", open);
        ++at_;
        return names;
    }

    Names read_text(int depth) {
        const std::size_t end = std::min(text_.find_first_of("[], \t\r\n", at_), text_.size());
        const std::string_view word = text_.substr(at_, end - at_);
        const bool whole_term =
            depth > 0 && text_[at_ - 1] != ']' && (end == text_.size() || text_[end] != '[');
        std::optional<Names> range;
        if (whole_term)
            range = read_range(word);
        at_ = end;
        return range ? std::move(*range) : Names{std::string(word)};
    }

    // LO-HI or LO-HI:STEP; nothing for a number or a name.
    std::optional<Names> read_range(std::string_view word) {
        const std::size_t dash = word.find('-');
        const bool is_name = word.find_first_not_of("0123456789-:") != std::string_view::npos;
        if (is_name || is_number(word))
            return std::nullopt;
        if (dash == std::string_view::npos)
            fail(fmt::format("'{}' is no range", word));
        const std::size_t colon = std::min(word.find(':', dash), word.size());
        const std::string_view low_text = word.substr(0, dash),
                               high_text = word.substr(dash + 1, colon - dash - 1);
        const std::string_view step_text =
            colon == word.size() ? std::string_view("1") : word.substr(colon + 1);
        if (!is_number(low_text) || !is_number(high_text))
            fail(fmt::format("'{}' is no range", word));
        if (!is_number(step_text))
            fail(fmt::format("the range {} has no step after its ':'", word));
        for (const std::string_view part : {low_text, high_text, step_text})
            if (part.size() > kMaxHostDigits)
                fail("a number too long");
        long long low = 0, high = 0, step = 0;
        parse_integer(low_text, low);
        parse_integer(high_text, high);
        parse_integer(step_text, step);
        if (high < low)
            fail(fmt::format("the range {} counts down", word));
        if (step == 0)
            fail(fmt::format("the range {} has step 0", word));
        const auto count = static_cast<std::size_t>((high - low) / step) + 1;
        charge(count, 0);
        Names names;
        names.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            names.push_back(fmt::format("{:0{}}", low + static_cast<long long>(i) * step,
                                        static_cast<int>(low_text.size())));
        return names;
    }

    // The last bracket runs fastest, then the first, the second, and so on.
    Names multiply(const std::vector<Piece>& pieces, std::size_t count) {
        std::vector<std::size_t> wheels, at(pieces.size(), 0);
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            for (const auto& name : pieces[i].names)
                bytes += name.size() * (count / pieces[i].names.size());
            if (pieces[i].is_bracket)
                wheels.push_back(i);
        }
        if (!wheels.empty())
            std::rotate(wheels.begin(), wheels.end() - 1, wheels.end());
        charge(count, bytes);
        Names names;
        names.reserve(count);
        for (std::size_t made = 0; made < count; ++made) {
            std::string& name = names.emplace_back();
            for (std::size_t i = 0; i < pieces.size(); ++i)
                name += pieces[i].names[at[i]];
            for (const std::size_t wheel : wheels) {
                if (++at[wheel] < pieces[wheel].names.size())
                    break;
                at[wheel] = 0;
            }
        }
        return names;
    }

    std::string_view text_;
    std::size_t most_, at_ = 0;
    std::size_t names_built_ = 0, bytes_built_ = 0;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, std::size_t most) {
    return HostlistReader(text, most).read();
}

std::vector<int> expand_counts(std::string_view text) {
    std::vector<int> counts;
    std::size_t at = 0;
    const auto fail = [&](std::string_view what) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("'{}' {} at character {}", excerpt(text, at), what, at + 1));
    };
    for (const std::string& part : split(text, ',')) {
        const std::size_t open = part.find("(x");
        const std::string_view value_text = std::string_view(part).substr(0, open);
        long long value = 0, times = 1;
        bool good = is_number(value_text) && parse_integer(value_text, value) && value <= 1'000'000;
        if (good && open != std::string::npos) {
            const std::string_view times_text =
                std::string_view(part).substr(open + 2, part.size() - open - 3);
            good = part.ends_with(')') && is_number(times_text) &&
                   parse_integer(times_text, times) && times >= 1;
        }
        if (!good)
            fail("is not a list like 8(x4),2");
        if (times > static_cast<long long>(kMaxHosts - counts.size()))
            fail(fmt::format("names more than {} nodes", kMaxHosts));
        counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(value));
        at += part.size() + 1;
    }
    return counts;
}

}  // namespace autolaunch::launcher
