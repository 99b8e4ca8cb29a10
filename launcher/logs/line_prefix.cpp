#include "logs/line_prefix.hpp"

#include <cctype>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::string expand_prefix(const std::string& text,
                          const std::map<std::string, std::string>& values) {
    std::string expanded;
    for (std::size_t at = 0; at < text.size();) {
        if (text.compare(at, 2, "$$") == 0) {
            expanded += '$';
            at += 2;
            continue;
        }
        const bool braced = text.compare(at, 2, "${") == 0;
        const std::size_t begin = at + (braced ? 2 : 1);
        std::size_t end = begin;
        while (text[at] == '$' && end < text.size() && is_word(text[end]))
            ++end;
        const auto known = values.find(text.substr(begin, end - begin));
        const bool closed = !braced || (end < text.size() && text[end] == '}');
        if (text[at] != '$' || known == values.end() || !closed) {
            expanded += text[at++];
            continue;
        }
        expanded += known->second;
        at = end + (braced ? 1 : 0);
    }
    return expanded;
}

}  // namespace autolaunch::launcher
