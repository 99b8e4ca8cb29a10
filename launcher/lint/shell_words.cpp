// Words: quotes, expansions, substitutions, arrays. What stands between words is read in
// shell_parser.cpp, and again from here for what a substitution runs.

#include "lint/shell_parser.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Each name once: nested substitutions would double them at each level.
void add_expansion(Word& word, std::string_view name) {
    constexpr std::size_t kMostNames = 256;
    if (word.expansions.size() < kMostNames && !word.expands(name))
        word.expansions.emplace_back(name);
}

/// What a substitution inside a word replaces, the word replaces.
void adopt_expansions(Word& word, const ShellCommand& inner) {
    for (const auto& part : inner.words)
        for (const auto& name : part.expansions)
            add_expansion(word, name);
}

}  // namespace

bool ShellParser::ends_word(char c) {
    return c == '\0' || is_blank(c) || std::strchr("\n;&|<>()", c) != nullptr;
}

Word ShellParser::read_word() {
    Word word;
    word.line = line_;
    const std::size_t begin = pos_;
    if ((peek() == '<' || peek() == '>') && peek(1) == '(') {  // process substitution
        take();
        read_substitution(word);
    }
    while (!ends_word(peek()))
        read_into(word, '\0');
    if (peek() == '(' && !assigned_name(word.raw = text_.substr(begin, pos_ - begin)).empty() &&
        word.raw.ends_with('='))
        read_array(word);
    word.raw = text_.substr(begin, pos_ - begin);
    if (pos_ == begin)
        take();  // never stand still
    return word;
}

/// One character or construct, outside double quotes.
void ShellParser::read_into(Word& word, char inside) {
    const char c = peek();
    if (c == '\\') {
        take();
        if (peek() == '\n') {
            take();
        } else if (!at_end()) {
            word.value += take();
        }
    } else if (c == '\'') {
        read_quoted(word);
    } else if (c == '"') {
        read_double_quoted(word);
    } else if (c == '$') {
        read_dollar(word);
    } else if (c == '`') {
        read_backticks(word);
    } else {
        if (inside == '\0' && (c == '*' || c == '?' || c == '{'))
            word.literal = false;
        word.value += take();
    }
}

void ShellParser::read_quoted(Word& word) {
    take();
    while (!at_end() && peek() != '\'')
        word.value += take();
    take();
}

void ShellParser::read_double_quoted(Word& word) {
    take();
    while (!at_end() && peek() != '"') {
        if (peek() == '\\' && peek(1) != '\0' && std::strchr("$`\"\\\n", peek(1)) != nullptr) {
            take();
            const char c = take();
            if (c != '\n')
                word.value += c;
        } else if (peek() == '$') {
            read_dollar(word);
        } else if (peek() == '`') {
            read_backticks(word);
        } else {
            word.value += take();
        }
    }
    take();
}

std::string_view ShellParser::read_name() {
    const std::size_t begin = pos_;
    while (is_name_char(peek()))
        take();
    return text_.substr(begin, pos_ - begin);
}

void ShellParser::read_dollar(Word& word) {
    const std::size_t begin = pos_;
    take();
    const char c = peek();
    if (nesting_ >= kMaxNesting) {
        word.value += '$';
        return;
    }
    if (c == '\'' || c == '"') {
        if (c == '"') {
            ++nesting_;
            read_double_quoted(word);
            --nesting_;
            return;
        }
        take();
        while (!at_end() && peek() != '\'') {
            if (peek() == '\\')
                take();
            word.value += take();
        }
        take();
        return;
    }
    const std::size_t length = word.value.size();
    if (c == '{') {
        read_braces(word);
    } else if (c == '(' && peek(1) == '(') {
        read_arithmetic(word);
    } else if (c == '(') {
        read_substitution(word);
    } else if (is_name_char(c) && std::isdigit(static_cast<unsigned char>(c)) == 0) {
        add_expansion(word, read_name());
    } else if (c != '\0' && (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
                             std::strchr("?#@*!$-", c) != nullptr)) {
        add_expansion(word, std::string(1, take()));
    } else {
        word.value += '$';
        return;
    }
    word.value.resize(length);
    word.value += text_.substr(begin, pos_ - begin);
    word.literal = false;
}

void ShellParser::read_braces(Word& word) {
    ++nesting_;
    take();
    if (peek() == '#' || peek() == '!')
        take();
    if (const auto name = read_name(); !name.empty())
        add_expansion(word, name);
    int bracket = 0;
    while (!at_end() && peek() != '}') {
        if (bracket > 0 && is_name_char(peek())) {  // a subscript is arithmetic: names need no $
            add_expansion(word, read_name());
            continue;
        }
        bracket += peek() == '[' ? 1 : peek() == ']' ? -1 : 0;
        read_into(word, '{');
    }
    take();
    --nesting_;
}

void ShellParser::read_arithmetic(Word& word) {
    ++nesting_;
    take();
    take();
    int open = 2;
    while (!at_end() && open > 0) {
        const char c = peek();
        if (is_name_char(c)) {
            const std::string_view name = read_name();
            if (is_identifier(name))
                add_expansion(word, name);
        } else if (c == '(' || c == ')') {
            open += take() == '(' ? 1 : -1;
        } else {
            read_into(word, '(');
        }
    }
    --nesting_;
}

void ShellParser::read_substitution(Word& word) {
    take();
    word.literal = false;
    if (nesting_ >= kMaxNesting)
        return;
    const ShellCommand outer = std::exchange(command_, {});
    const bool outer_condition = std::exchange(in_condition_, false);
    const bool outer_pattern = std::exchange(pattern_ahead_, false);
    const auto outer_pending = std::exchange(pending_, {});
    const int outer_depth = depth_;
    const std::size_t first = script_.commands.size();
    ++nesting_;
    ++substitutions_;
    parse_list(true);
    --substitutions_;
    --nesting_;
    for (std::size_t i = first; i < script_.commands.size(); ++i)
        adopt_expansions(word, script_.commands[i]);
    command_ = outer;
    in_condition_ = outer_condition;
    pattern_ahead_ = outer_pattern;
    pending_ = outer_pending;
    depth_ = outer_depth;
}

void ShellParser::read_backticks(Word& word) {
    const int line = line_;
    const std::size_t begin = pos_;
    take();
    std::string inner;
    while (!at_end() && peek() != '`') {
        if (peek() == '\\' && peek(1) != '\0' && std::strchr("$`\\", peek(1)) != nullptr)
            take();
        inner += take();
    }
    take();
    word.value += text_.substr(begin, pos_ - begin);
    word.literal = false;
    if (nesting_ >= kMaxNesting)
        return;
    ShellScript nested;
    ShellParser(inner, line, nested, nesting_ + 1).parse();
    for (auto& command : nested.commands) {
        command.in_substitution = true;
        adopt_expansions(word, command);
        script_.commands.push_back(std::move(command));
    }
}

void ShellParser::read_array(Word& word) {
    if (nesting_ >= kMaxNesting)
        return;
    take();
    ++nesting_;
    word.array = true;
    while (!at_end() && peek() != ')') {
        if (is_blank(peek()) || peek() == '\n') {
            take();
        } else if (peek() == '\\' && peek(1) == '\n') {
            take();
            take();
        } else if (peek() == '#') {
            skip_comment();
        } else {
            Word element = read_word();
            if (!element.raw.empty())
                word.elements.push_back(std::move(element));
        }
    }
    take();
    --nesting_;
}

}  // namespace autolaunch::launcher
