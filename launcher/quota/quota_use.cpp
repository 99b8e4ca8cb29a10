#include "quota/quota_use.hpp"

#include "base/text.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kColumns = 8;

std::vector<std::string> words_in(const std::string& line) {
    std::vector<std::string> words = split(line, ' ');
    std::erase(words, "");
    return words;
}

// "1500", over its quota "1500*", of a server that did not answer "[1500]".
std::optional<std::uint64_t> number_of(std::string_view word) {
    if (word.ends_with('*'))
        word.remove_suffix(1);
    if (word.starts_with('[') && word.ends_with(']') && word.size() > 2)
        word = word.substr(1, word.size() - 2);
    long long number = 0;
    if (!parse_integer(std::string(word), number) || number < 0)
        return std::nullopt;
    return static_cast<std::uint64_t>(number);
}

std::optional<QuotaUse> use_of(QuotaUse::Of of, const std::string* columns) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max() / 1024;
    const auto used = number_of(columns[0]), soft = number_of(columns[1]),
               hard = number_of(columns[2]);
    if (!used || !soft || !hard || std::max({*used, *soft, *hard}) > kMost)
        return std::nullopt;
    const std::uint64_t unit = of == QuotaUse::Of::bytes ? 1024 : 1;
    return QuotaUse{of, *used * unit, *soft * unit, *hard * unit};
}

std::string amount(const QuotaUse& use, std::uint64_t number) {
    return use.of == QuotaUse::Of::bytes ? format_bytes(number) : fmt::format("{} files", number);
}

}  // namespace

std::vector<QuotaUse> parse_quotas(std::string_view answer) {
    std::vector<QuotaUse> uses;
    // A long name of a file system has a line of its own: the columns are the last eight words.
    for (const std::string& line : split(answer, '\n')) {
        const std::vector<std::string> words = words_in(line);
        if (words.size() < kColumns || words.size() > kColumns + 1)
            continue;
        const std::string* const columns = &words[words.size() - kColumns];
        const auto bytes = use_of(QuotaUse::Of::bytes, columns),
                   files = use_of(QuotaUse::Of::files, columns + kColumns / 2);
        if (!bytes || !files)
            continue;
        uses.push_back(*bytes);
        uses.push_back(*files);
    }
    return uses;
}

std::string quota_words(const QuotaUse& use) {
    const bool is_full = use.hard != 0 && use.used >= use.hard;
    const std::uint64_t limit = is_full || use.soft == 0 ? use.hard : use.soft;
    if (limit == 0)
        return {};
    const double share = static_cast<double>(use.used) / static_cast<double>(limit);
    if (share * 100 < kQuotaWarnsAt)
        return {};
    if (use.used >= limit)
        return fmt::format("{} are used of the {} that you may have there{}", amount(use, use.used),
                           amount(use, limit),
                           is_full ? ": nothing more can be written" : ", for some days at most");
    return fmt::format("{:.0f}% of the {} that you may have there are used", share * 100,
                       amount(use, limit));
}

}  // namespace autolaunch::launcher
