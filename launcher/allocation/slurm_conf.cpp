#include "allocation/slurm_conf.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

void skip_blanks(std::string_view text, std::size_t& at) {
    while (at < text.size() && blank(text[at]))
        ++at;
}

// Up to a blank, or to `stop` as well.
std::string_view take_word(std::string_view text, std::size_t& at, char stop = ' ') {
    const std::size_t begin = at;
    while (at < text.size() && !blank(text[at]) && text[at] != stop)
        ++at;
    return text.substr(begin, at - begin);
}

std::string_view take_value(std::string_view text, std::size_t& at) {
    if (at >= text.size() || text[at] != '"')
        return take_word(text, at);
    const std::size_t begin = ++at;
    const std::size_t end = std::min(text.find('"', begin), text.size());
    at = std::min(end + 1, text.size());
    return text.substr(begin, end - begin);
}

// Slurm allows blanks on both sides of the `=`.
void take_fields(std::string_view text, ConfLine& into) {
    std::size_t at = 0;
    while (skip_blanks(text, at), at < text.size()) {
        const std::string name(take_word(text, at, '='));
        skip_blanks(text, at);
        if (at >= text.size() || text[at] != '=')
            continue;
        ++at;
        skip_blanks(text, at);
        into.fields.emplace_back(name, take_value(text, at));
    }
}

// "Include FILE", at the beginning of a line.
std::string included_by(std::string_view text) {
    std::size_t at = 0;
    skip_blanks(text, at);
    if (!equals_ignoring_case(take_word(text, at), "Include"))
        return {};
    skip_blanks(text, at);
    return at < text.size() && text[at] == '=' ? std::string() : std::string(take_word(text, at));
}

// A `#` that a backslash escapes begins none.
std::string_view without_comment(std::string_view line) {
    bool escaped = false;
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (line[at] == '#' && !escaped)
            return line.substr(0, at);
        escaped = line[at] == '\\' && !escaped;
    }
    return line;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [](unsigned char x, unsigned char y) {
               return std::tolower(x) == std::tolower(y);
           });
}

std::string ConfLine::value(std::string_view name) const {
    for (const auto& [key, text] : fields)
        if (equals_ignoring_case(key, name))
            return text;
    return {};
}

bool ConfLine::has(std::string_view name) const {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const auto& f) { return equals_ignoring_case(f.first, name); });
}

const ConfLine* ConfFile::first_with(std::string_view name) const {
    const auto found =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.has(name); });
    return found == lines.end() ? nullptr : &*found;
}

ConfFile parse_slurm_conf(std::string_view text) {
    ConfFile conf;
    std::string joined;
    int number = 0, first = 0;
    const auto take_joined = [&] {
        ConfLine parsed{first, {}, included_by(joined)};
        if (parsed.include.empty())
            take_fields(joined, parsed);
        if (!parsed.fields.empty() || !parsed.include.empty())
            conf.lines.push_back(std::move(parsed));
        joined.clear();
    };
    for (const auto& raw : split(text, '\n')) {
        ++number;
        if (joined.empty())
            first = number;
        const std::string_view line = trim(without_comment(raw));
        if (line.ends_with('\\')) {
            joined.append(line.substr(0, line.size() - 1)).append(" ");
            continue;
        }
        joined += line;
        take_joined();
    }
    take_joined();  // the last line may ask for one more
    return conf;
}

}  // namespace autolaunch::launcher
