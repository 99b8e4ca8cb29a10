#include "stage_out/out_journal.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "stage_cache/tree.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

namespace autolaunch::launcher {

std::string journal_line(const std::string& path, const CopiedFile& file) {
    return fmt::format("{} {} {} {}\n", file.bytes, file.mtime_ns, hex128(file.digest),
                       escaped_word(path));
}

std::map<std::string, CopiedFile> parse_journal(std::string_view text) {
    std::map<std::string, CopiedFile> known;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string_view::npos;
         at = end + 1) {
        const auto words = split(text.substr(at, end - at), ' ');
        long long bytes = 0, mtime = 0;
        const auto digest = words.size() == 4 ? parse_hex128(words[2]) : std::nullopt;
        if (!digest || !parse_integer(words[0], bytes) || !parse_integer(words[1], mtime))
            continue;
        try {
            known[unescaped_word(words[3])] = {bytes, mtime, *digest};
        } catch (const Error&) {
            // As a line that was cut.
        }
    }
    return known;
}

}  // namespace autolaunch::launcher
