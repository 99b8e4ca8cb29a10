// Commands: operators, reserved words, here-documents. Words are read in shell_words.cpp.

#include "lint/shell_parser.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool all_digits(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

char ShellParser::take() {
    if (at_end())
        return '\0';
    const char c = text_[pos_++];
    if (c == '\n')
        ++line_;
    return c;
}

void ShellParser::parse() {
    while (!at_end())
        parse_list(false);
    finish(End::plain);
}

void ShellParser::parse_list(bool until_parenthesis) {
    while (!at_end()) {
        const char c = peek();
        if (is_blank(c)) {
            take();
        } else if (c == '\\' && peek(1) == '\n') {
            take();
            take();
        } else if (c == '\n') {
            finish(End::plain);
            end_of_line();
        } else if (c == '#') {
            skip_comment();
        } else if (c == '\0') {
            take();
        } else if (bool closed = false; operator_ahead(until_parenthesis, closed)) {
            if (closed)
                return;
        } else {
            add_word();
        }
    }
    finish(End::plain);
}

/// Whether an operator was there and has been taken. `closed`: it was the parenthesis that ends
/// this list.
bool ShellParser::operator_ahead(bool until_parenthesis, bool& closed) {
    const char c = peek();
    const char next = peek(1);
    if (c == ';') {
        take();
        const bool case_item = peek() == ';' || peek() == '&';
        while (peek() == ';' || peek() == '&')
            take();
        finish(End::plain);
        pattern_ahead_ = case_item;
    } else if (c == '&' && next == '>') {
        take();
        redirection();
    } else if (c == '&' || c == '|') {
        take();
        const bool twice = peek() == c;
        if (twice || (c == '|' && peek() == '&'))
            take();
        finish(twice ? End::conditional : c == '&' ? End::background : End::pipe);
    } else if (c == '<' || c == '>') {
        if (next == '(') {
            add_word();
        } else {
            redirection();
        }
    } else if (c == '(') {
        open_parenthesis();
    } else if (c == ')') {
        take();
        if (pattern_ahead_) {  // PATTERN) of a case is no command
            command_ = {};
            pattern_ahead_ = false;
        } else {
            finish(End::plain);
            closed = until_parenthesis;
        }
    } else {
        return false;
    }
    return true;
}

void ShellParser::open_parenthesis() {
    auto& words = command_.words;
    take();
    if (pattern_ahead_)
        return;
    if (peek() == '(' && (words.empty() || words[0].value == "for"))
        return skip_arithmetic_command();
    const bool named = words.size() == 1 || (words.size() == 2 && words[0].value == "function");
    if (named && peek() == ')') {
        take();
        command_ = {};
        function_ahead_ = true;
        return;
    }
    if (!words.empty() || nesting_ >= kMaxNesting)
        return;
    ++nesting_;
    ++depth_;
    parse_list(true);
    --depth_;
    --nesting_;
}

void ShellParser::redirection() {
    int angles = 0;
    while (peek() == '<' || peek() == '>')
        angles += take() == '<' ? 1 : 0;
    const bool here = angles == 2;
    const bool strip_tabs = here && peek() == '-';
    if (strip_tabs || peek() == '&' || peek() == '|')
        take();
    while (is_blank(peek()))
        take();
    if (at_end() || (ends_word(peek()) && peek() != '<' && peek() != '>'))
        return;
    if ((peek() == '<' || peek() == '>') && peek(1) != '(')
        return;
    const Word target = read_word();
    if (here)
        pending_.push_back({target.value, strip_tabs});
}

void ShellParser::add_word() {
    Word word = read_word();
    if (all_digits(word.raw) && (peek() == '<' || peek() == '>'))
        return;  // 2>file
    if (command_.words.empty() && command_.prefix.empty()) {
        command_.line = word.line;
        command_.guarded = in_condition_;
        if (reserved(word))
            return;
    }
    auto& words = command_.words;
    if (words.size() == 2 && words[0].value == "function" && word.raw == "{") {
        command_ = {};
        function_ahead_ = true;
        opens_block();
        return;
    }
    if (words.empty() && !assigned_name(word.raw).empty()) {
        command_.prefix.push_back(assignment_of(word));
        return;
    }
    words.push_back(std::move(word));
    if (words.size() == 3 && words[0].value == "case" && words[2].value == "in") {
        command_ = {};
        pattern_ahead_ = true;
        ++depth_;
    } else if (words.size() == 1 && words[0].raw == "[[") {
        skip_test();
    }
}

/// Words that only mean something where a command may begin. True: the word is no part of a
/// command.
bool ShellParser::reserved(const Word& word) {
    static const std::set<std::string> kOpening = {"if", "while", "until"};
    static const std::set<std::string> kClosing = {"fi", "done", "esac"};
    static const std::set<std::string> kPassed = {"!", "time", "coproc", "else"};
    const std::string& text = word.raw;
    if (kOpening.contains(text) || text == "elif") {
        depth_ += text == "elif" ? 0 : 1;
        in_condition_ = true;
    } else if (text == "then" || text == "do") {
        in_condition_ = false;
    } else if (kClosing.contains(text)) {
        depth_ = std::max(0, depth_ - 1);
        in_condition_ = false;
        pattern_ahead_ = false;
    } else if (text == "{") {
        opens_block();
    } else if (text == "}") {
        closes_block();
    } else if (!kPassed.contains(text)) {
        if (text == "for" || text == "select")
            ++depth_;
        return false;
    }
    return true;
}

void ShellParser::opens_block() {
    braces_.push_back(function_ahead_);
    functions_ += function_ahead_ ? 1 : 0;
    function_ahead_ = false;
    ++depth_;
}

void ShellParser::closes_block() {
    if (braces_.empty())
        return;
    functions_ -= braces_.back() ? 1 : 0;
    braces_.pop_back();
    depth_ = std::max(0, depth_ - 1);
}

void ShellParser::finish(End end) {
    ShellCommand command = std::exchange(command_, {});
    if (command.words.empty() && command.prefix.empty())
        return;
    if (pattern_ahead_ && end == End::pipe)
        return;  // a|b) of a case
    const bool loop = command.is("for") || command.is("select");
    command.depth = std::max(0, depth_ - (loop ? 1 : 0));
    command.in_function = functions_ > 0;
    command.in_substitution = substitutions_ > 0;
    command.background = end == End::background;
    command.piped = end == End::pipe;
    command.guarded = command.guarded || end == End::conditional;
    for (auto& assignment : command.prefix) {
        assignment.prefix = assignment.exported = !command.words.empty();
        assignment.conditional = command.depth > 0;
        script_.assignments.push_back(assignment);
    }
    if (!command.words.empty())
        script_.commands.push_back(std::move(command));
}

/// The newline, and the here-documents that were announced in front of it.
void ShellParser::end_of_line() {
    take();
    for (const auto& document : std::exchange(pending_, {})) {
        LineRange range{line_, line_};
        while (!at_end()) {
            const std::size_t end = std::min(text_.find('\n', pos_), text_.size());
            std::string_view text = text_.substr(pos_, end - pos_);
            range.last = line_;
            pos_ = end;
            take();
            if (text.ends_with('\r'))
                text.remove_suffix(1);
            while (document.strip_tabs && text.starts_with('\t'))
                text.remove_prefix(1);
            if (text == document.delimiter)
                break;
        }
        script_.here_documents.push_back(range);
    }
}

void ShellParser::skip_comment() {
    while (!at_end() && peek() != '\n')
        take();
}

/// ((…)), the first parenthesis already taken.
void ShellParser::skip_arithmetic_command() {
    int open = 1;
    while (!at_end() && open > 0) {
        const char c = take();
        open += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (command_.words.empty())
        command_ = {};
}

/// [[ … ]]: operators mean something else in there.
void ShellParser::skip_test() {
    while (!at_end()) {
        const char c = peek();
        if (c == '\n')
            return;
        if (ends_word(c)) {
            take();
            continue;
        }
        Word word = read_word();
        const bool last = word.raw == "]]";
        command_.words.push_back(std::move(word));
        if (last)
            return;
    }
}

ShellAssignment ShellParser::assignment_of(const Word& word) {
    ShellAssignment assignment;
    assignment.name = assigned_name(word.raw);
    assignment.append = word.raw[assignment.name.size()] == '+';
    assignment.value = word;
    const std::size_t skip = assignment.name.size() + (assignment.append ? 2 : 1);
    assignment.value.raw = word.raw.substr(skip);
    assignment.value.value = word.value.substr(std::min(skip, word.value.size()));
    return assignment;
}

}  // namespace autolaunch::launcher
