#pragma once
#include "lint/shell_script.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One pass over a script's text, by recursive descent; the private part of parse_shell().
/// Recursion is bounded: what is nested deeper than kMaxNesting is read as plain text.
class ShellParser {
public:
    ShellParser(std::string_view text, int first_line, ShellScript& script, int nesting = 0)
        : text_(text), line_(first_line), nesting_(nesting), script_(script) {}

    void parse();

    static ShellAssignment assignment_of(const Word& word);

private:
    enum class End { plain, background, pipe, conditional };
    struct HereDocument {
        std::string delimiter;
        bool strip_tabs = false;
    };
    static constexpr int kMaxNesting = 60;

    char peek(std::size_t ahead = 0) const {
        return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
    }
    bool at_end() const { return pos_ >= text_.size(); }
    char take();
    static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
    static bool ends_word(char c);

    // Commands, in shell_parser.cpp.
    void parse_list(bool until_parenthesis);
    bool operator_ahead(bool until_parenthesis, bool& closed);
    void open_parenthesis();
    void redirection();
    void add_word();
    bool reserved(const Word& word);
    void opens_block();
    void closes_block();
    void finish(End end);
    void end_of_line();
    void skip_comment();
    void skip_arithmetic_command();
    void skip_test();

    // Words, in shell_words.cpp.
    Word read_word();
    void read_into(Word& word, char inside);
    void read_quoted(Word& word);
    void read_double_quoted(Word& word);
    void read_dollar(Word& word);
    void read_braces(Word& word);
    void read_arithmetic(Word& word);
    void read_substitution(Word& word);
    void read_backticks(Word& word);
    void read_array(Word& word);
    std::string_view read_name();

    std::string_view text_;
    std::size_t pos_ = 0;
    int line_;
    int nesting_;
    ShellScript& script_;

    ShellCommand command_;
    std::vector<HereDocument> pending_;
    int depth_ = 0;
    int substitutions_ = 0;
    std::vector<bool> braces_;  ///< of each open {: whether it is a function's body
    int functions_ = 0;
    bool function_ahead_ = false;
    bool in_condition_ = false;
    bool pattern_ahead_ = false;  ///< of case
};

}  // namespace autolaunch::launcher
