#include "lint/edits.hpp"

#include "base/text.hpp"
#include "lint/shell_script.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kNowhere = std::string::npos;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool bounds_word(char c) { return std::strchr(" \t\r\n;&|()<>\"'`", c) != nullptr; }

/// Where `word` stands as a whole; kNowhere where it does not, or more than once.
std::size_t find_word(const std::string& line, std::string_view word) {
    std::size_t found = kNowhere;
    for (std::size_t at = line.find(word); at != kNowhere && !word.empty();
         at = line.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        const bool whole = (at == 0 || bounds_word(line[at - 1])) &&
                           (end == line.size() || bounds_word(line[end]));
        if (!whole)
            continue;
        if (found != kNowhere)
            return kNowhere;
        found = at;
    }
    return found;
}

Edit edit_at(int line, std::size_t at, std::string_view old_text, std::string_view new_text) {
    return {line, static_cast<int>(at) + 1, std::string(old_text), std::string(new_text)};
}

std::string indentation_of(const std::string& line) {
    return line.substr(0, line.find_first_not_of(" \t"));
}

/// The nearest line before (step -1) or behind (1) that is neither empty nor a comment, trimmed.
std::string_view neighbour(const SourceLines& source, int line, int step) {
    for (const std::string* at = source.at(line += step); at != nullptr;
         at = source.at(line += step))
        if (const auto text = trim(*at); !text.empty() && !text.starts_with('#'))
            return text;
    return {};
}

bool ends_in_word(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [text](std::string_view word) {
        return text == word ||
               (text.ends_with(word) && bounds_word(text[text.size() - word.size() - 1]));
    });
}

/// Whether nothing else stands between then and fi, do and done, { and }.
bool is_whole_body(const SourceLines& source, int line) {
    const auto next = neighbour(source, line, 1);
    return ends_in_word(neighbour(source, line, -1), {"then", "do", "else", "{"}) &&
           (next.starts_with("fi") || next.starts_with("done") || next.starts_with("else") ||
            next.starts_with("elif") || next.starts_with('}'));
}

/// Behind the shell word that begins at `at`: quotes and $(…) belong to it. kNowhere: it does not
/// end in this line.
std::size_t end_of_word(const std::string& line, std::size_t at) {
    char quote = 0;
    int open = 0;
    for (; at < line.size(); ++at) {
        const char c = line[at];
        if (c == '\\' && quote != '\'') {
            ++at;
        } else if (quote == '\'') {
            quote = c == '\'' ? '\0' : quote;
        } else if (c == '(' || c == ')') {
            if (c == ')' && open == 0 && quote == 0)
                return at;
            open = std::max(0, open + (c == '(' ? 1 : -1));
        } else if (c == '"') {
            if (open == 0)
                quote = quote == 0 ? '"' : '\0';
        } else if (c == '\'' && quote == 0) {
            quote = '\'';
        } else if (quote == 0 && open == 0 && std::strchr(" \t\r;&|<>", c) != nullptr) {
            return at;
        }
    }
    return quote == 0 && open == 0 ? std::min(at, line.size()) : kNowhere;
}

/// NAME=VALUE in a line: where it begins, its value, and what is behind it.
struct Place {
    std::size_t begin = kNowhere, value = kNowhere, end = kNowhere;
    bool found() const { return begin != kNowhere && end != kNowhere; }
};

Place find_assignment(const std::string& line, const std::string& name) {
    Place place;
    const std::string written = name + '=';
    for (std::size_t at = line.find(written); at != kNowhere; at = line.find(written, at + 1)) {
        if (at > 0 && line[at - 1] != ',' && !bounds_word(line[at - 1]))
            continue;
        if (place.begin != kNowhere)
            return {};
        place.begin = at;
    }
    if (place.begin == kNowhere)
        return {};
    place.value = place.begin + written.size();
    place.end = place.begin > 0 && line[place.begin - 1] == ','
                    ? std::min(line.find_first_of(", \t\r\"'", place.value), line.size())
                    : end_of_word(line, place.value);
    return place;
}

bool declares(std::string_view before) {
    before = trim(before);
    return before.empty() || before == "export" || before.starts_with("declare ") ||
           before.starts_with("typeset ") || before == "local" || before == "readonly";
}

/// The span of the option's words; {kNowhere, …} where they are not there once.
std::pair<std::size_t, std::size_t> find_option(const std::string& line,
                                                const SlurmOption& option) {
    const std::size_t begin = find_word(line, option.written);
    if (begin == kNowhere)
        return {kNowhere, kNowhere};
    std::size_t end = begin + option.written.size();
    if (option.separate.empty())
        return {begin, end};
    while (end < line.size() && is_blank(line[end]))
        ++end;
    if (line.compare(end, option.separate.size(), option.separate) != 0)
        return {kNowhere, kNowhere};
    return {begin, end + option.separate.size()};
}

std::size_t depth_of(const std::string& line) {
    return std::min(line.find_first_not_of(" \t"), line.size());
}

}  // namespace

// What is found in a line is looked for in it again: no edits in lines that no person has written.
const std::string* SourceLines::at(int line) const {
    constexpr std::size_t kLongest = 8192;
    const int index = line - first_line;
    if (index < 0 || static_cast<std::size_t>(index) >= lines.size())
        return nullptr;
    const std::string& text = lines[static_cast<std::size_t>(index)];
    return text.size() <= kLongest ? &text : nullptr;
}

std::optional<std::string> apply_edits(std::string_view text, Edits edits) {
    std::vector<std::size_t> begins = {0};
    for (std::size_t at = text.find('\n'); at != kNowhere; at = text.find('\n', at + 1))
        begins.push_back(at + 1);
    std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
        return a.line != b.line ? a.line < b.line : a.column < b.column;
    });
    std::string result;
    std::size_t done = 0;
    for (const Edit& edit : edits) {
        if (edit.line < 1 || static_cast<std::size_t>(edit.line) > begins.size() || edit.column < 1)
            return std::nullopt;
        const std::size_t at = begins[static_cast<std::size_t>(edit.line) - 1] +
                               static_cast<std::size_t>(edit.column) - 1;
        const auto next = static_cast<std::size_t>(edit.line);
        const std::size_t end = next < begins.size() ? begins[next] - 1 : text.size();
        if (at < done || at > end || text.substr(at, edit.old_text.size()) != edit.old_text)
            return std::nullopt;
        result += text.substr(done, at - done);
        result += edit.new_text;
        done = at + edit.old_text.size();
    }
    return result += text.substr(std::min(done, text.size()));
}

Edits replace_word(const SourceLines& source, int line, std::string_view word,
                   std::string_view by) {
    const std::string* text = source.at(line);
    const std::size_t at = text == nullptr ? kNowhere : find_word(*text, word);
    return at == kNowhere ? Edits{} : Edits{edit_at(line, at, word, by)};
}

Edits remove_word(const SourceLines& source, int line, std::string_view word) {
    Edits edits = replace_word(source, line, word, "");
    if (edits.empty())
        return edits;
    const std::string& text = *source.at(line);
    const auto end = static_cast<std::size_t>(edits[0].column) - 1;
    std::size_t begin = end;
    while (begin > 0 && is_blank(text[begin - 1]))
        --begin;
    if (begin == 0 || text[begin - 1] == '"' || text[begin - 1] == '\'')
        begin = end;
    return {
        edit_at(line, begin, std::string_view(text).substr(begin, end - begin + word.size()), "")};
}

Edits replace_text(const SourceLines& source, int line, std::string_view text,
                   std::string_view by) {
    const std::string* whole = source.at(line);
    const std::size_t at = whole == nullptr || text.empty() ? kNowhere : whole->find(text);
    if (at == kNowhere || whole->find(text, at + 1) != kNowhere)
        return {};
    return {edit_at(line, at, text, by)};
}

Edits replace_name(const SourceLines& source, int line, std::string_view name,
                   std::string_view by) {
    const auto is_part = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
    };
    Edits edits;
    const std::string* text = source.at(line);
    for (std::size_t at = text == nullptr || name.empty() ? kNowhere : text->find(name);
         at != kNowhere; at = text->find(name, at + name.size())) {
        const std::size_t end = at + name.size();
        if ((at == 0 || !is_part((*text)[at - 1])) &&
            (end == text->size() || !is_part((*text)[end])))
            edits.push_back(edit_at(line, at, name, by));
    }
    return edits;
}

Edits remove_line(const SourceLines& source, int line) {
    const std::string* text = source.at(line);
    if (text == nullptr)
        return {};
    if (is_whole_body(source, line)) {
        const std::size_t depth = depth_of(*text);
        return {edit_at(line, depth, std::string_view(*text).substr(depth), ":")};
    }
    const bool last = source.at(line + 1) == nullptr;
    return {edit_at(line, 0, *text + (last ? "" : "\n"), "")};
}

Edits insert_line(const SourceLines& source, int line, const std::string& text) {
    const std::string* next = source.at(line);
    const std::string* before = source.at(line - 1);
    if (next == nullptr || (before != nullptr && trim(*before).ends_with('\\')))
        return {};
    return {edit_at(line, 0, "", indentation_of(*next) + text + '\n')};
}

Edits append_line(const SourceLines& source, const std::string& text) {
    if (source.lines.empty())
        return {};
    const int line = source.first_line + static_cast<int>(source.lines.size()) - 1;
    const std::string& last = source.lines.back();
    return last.empty() ? Edits{edit_at(line, 0, "", text + '\n')}
                        : Edits{edit_at(line, last.size(), "", '\n' + text)};
}

Edits remove_assignment(const SourceLines& source, int line, const std::string& name) {
    const std::string* text = source.at(line);
    if (text == nullptr)
        return {};
    if (trim(*text).starts_with(name + ':'))
        return remove_yaml_line(source, line);
    const Place place = find_assignment(*text, name);
    if (!place.found())
        return {};
    const std::string_view all = *text;
    if (place.begin > 0 && all[place.begin - 1] == ',')
        return {edit_at(line, place.begin - 1,
                        all.substr(place.begin - 1, place.end - place.begin + 1), "")};
    const std::string_view rest = trim(all.substr(place.end));
    const bool alone = declares(all.substr(0, place.begin));
    const bool continued = neighbour(source, line, -1).ends_with('\\');
    if (alone && !continued && (rest.empty() || rest.starts_with('#')))
        return remove_line(source, line);
    std::size_t begin = place.begin, end = place.end;
    if (alone && (rest.starts_with(';') || rest.starts_with("&&"))) {
        begin = depth_of(*text);
        end = all.find(rest[0], end) + (rest[0] == ';' ? 1 : 2);
    }
    while (end < all.size() && is_blank(all[end]))
        ++end;
    return {edit_at(line, begin, all.substr(begin, end - begin), "")};
}

Edits replace_assignment(const SourceLines& source, int line, const std::string& name,
                         const std::string& by) {
    const std::string* text = source.at(line);
    if (text == nullptr)
        return {};
    if (trim(*text).starts_with(name + ':'))
        return replace_yaml_value(source, line, name, by);
    const Place place = find_assignment(*text, name);
    if (!place.found())
        return {};
    return {edit_at(line, place.value,
                    std::string_view(*text).substr(place.value, place.end - place.value), by)};
}

Edits replace_option(const SourceLines& source, const SlurmOption& option, const std::string& by) {
    const std::string* text = source.at(option.line);
    if (text == nullptr)
        return {};
    const auto [begin, end] = find_option(*text, option);
    if (begin == kNowhere)
        return {};
    return {edit_at(option.line, begin, std::string_view(*text).substr(begin, end - begin), by)};
}

Edits remove_option(const SourceLines& source, const SlurmOption& option) {
    const std::string* text = source.at(option.line);
    if (text == nullptr)
        return {};
    auto [begin, end] = find_option(*text, option);
    if (begin == kNowhere)
        return {};
    const std::string_view all = *text;
    const std::string_view rest = trim(all.substr(end));
    if (trim(all.substr(0, begin)) == "#SBATCH" && (rest.empty() || rest.starts_with('#')))
        return remove_line(source, option.line);
    while (begin > 0 && is_blank(all[begin - 1]))
        --begin;
    return {edit_at(option.line, begin, all.substr(begin, end - begin), "")};
}

Edits replace_yaml_value(const SourceLines& source, int line, const std::string& key,
                         const std::string& by) {
    const std::string* text = source.at(line);
    if (text == nullptr)
        return {};
    std::size_t begin = text->find(key + ':');
    if (begin == kNowhere || (begin > 0 && std::strchr(" \t{,\"'", (*text)[begin - 1]) == nullptr))
        return {};
    begin += key.size() + 1;
    while (begin < text->size() && is_blank((*text)[begin]))
        ++begin;
    const bool flow = text->find('{') < begin;
    std::size_t end = std::min({text->find(" #", begin), text->find('\r', begin), text->size(),
                                flow ? text->find_first_of(",}", begin) : kNowhere});
    while (end > begin && is_blank((*text)[end - 1]))
        --end;
    if (end <= begin)
        return {};
    return {edit_at(line, begin, std::string_view(*text).substr(begin, end - begin), by)};
}

Edits remove_yaml_line(const SourceLines& source, int line) {
    const std::string* text = source.at(line);
    if (text == nullptr || trim(*text).starts_with('{') || trim(*text).ends_with(':'))
        return {};
    const std::size_t depth = depth_of(*text);
    const auto beside = [&](int step) {
        int at = line;
        for (const std::string* other = source.at(at += step); other != nullptr;
             other = source.at(at += step))
            if (const auto words = trim(*other); !words.empty() && !words.starts_with('#'))
                return depth_of(*other) == depth;
        return false;
    };
    if (depth > 0 && !beside(-1) && !beside(1))
        return {};  // its section would be left without a key
    const bool last = source.at(line + 1) == nullptr;
    return {edit_at(line, 0, *text + (last ? "" : "\n"), "")};
}

Edits together(Edits first, const Edits& second) {
    if (first.empty() || second.empty())
        return {};
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

}  // namespace autolaunch::launcher
