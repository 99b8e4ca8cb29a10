#include "report/terminal_text.hpp"

#include <doctest/doctest.h>

#include <string>

namespace terminal_text_test {

using namespace autolaunch::launcher;

TEST_CASE("what could do something to a terminal becomes visible or is dropped") {
    const auto strip = [](std::string_view text) {
        return escape_for_terminal(text, Colours::strip);
    };
    CHECK(strip("tab\tand text") == "tab\tand text");
    CHECK(strip(std::string_view("a\0b\x07\x08\x7f", 6)) == "a\\x00b\\x07\\x08\\x7f");
    CHECK(strip("\x1b[2J\x1b[1;1Hgone\x1b[A") == "gone");           // clear, move
    CHECK(strip("\x1b]0;title\x07text\x1b]8;;x\x1b\\") == "text");  // title, link
    CHECK(strip("\x1b"
                "cfull reset") == "full reset");
    CHECK(strip("cut \x1b[3") == "cut \\x1b[3");
    CHECK(strip("c1 \xc2\x9b"
                "2J") == "c1 \\xc2\\x9b2J");  // CSI as one character
    CHECK(strip("\xe2\x80\xae"
                "abc") == "\\u{202e}abc");  // right-to-left override
}

TEST_CASE("lines stay lines, and JSON says the same with what a terminal would obey escaped") {
    CHECK(escape_lines("a\x1b[2Jb\nc\r\n", Colours::strip) == "ab\nc\\x0d\n");
    CHECK(escape_lines("no end", Colours::strip) == "no end");
    CHECK(escape_json("{\"a\": \"\xc2\x9b"
                      "2J\x7f\xe2\x80\xae €\"}\n") == "{\"a\": \"\\u009b2J\\u007f\\u202e €\"}\n");
}

TEST_CASE("bytes that are not UTF-8 are shown as what they are") {
    const auto strip = [](std::string_view text) {
        return escape_for_terminal(text, Colours::strip);
    };
    CHECK(strip("grün €uro 😀") == "grün €uro 😀");
    CHECK(strip("latin1 \xfc.") == "latin1 \\xfc.");
    CHECK(strip("overlong \xc0\xaf") == "overlong \\xc0\\xaf");
    CHECK(strip("surrogate \xed\xa0\x80") == "surrogate \\xed\\xa0\\x80");
    CHECK(strip("cut \xe2\x82") == "cut \\xe2\\x82");
    CHECK(strip("beyond \xf4\x90\x80\x80") == "beyond \\xf4\\x90\\x80\\x80");
}

TEST_CASE("colours are kept where they are wanted, and closed") {
    CHECK(escape_for_terminal("\x1b[1;31mred", Colours::keep) == "\x1b[1;31mred\x1b[0m");
    CHECK(escape_for_terminal("\x1b[1;31mred", Colours::strip) == "red");
    CHECK(escape_for_terminal("\x1b[>4;2mnot a colour", Colours::keep) == "not a colour");
}

TEST_CASE("width counts columns, not bytes") {
    CHECK(display_width("abc") == 3);
    CHECK(display_width("━━╸") == 3);
    CHECK(display_width("日本") == 4);
    CHECK(display_width("e\xcc\x81") == 1);  // e and a combining acute accent
    CHECK(display_width("\x1b[31mred\x1b[0m") == 3);
}

TEST_CASE("fit_width cuts to the width and closes colours") {
    CHECK(fit_width("abcdef", 6) == "abcdef");
    CHECK(fit_width("abcdef", 5) == "abcd…");
    CHECK(fit_width("日本語", 4) == "日…");
    CHECK(fit_width("\x1b[31mabcdef", 3) == "\x1b[31mab…\x1b[0m");
    CHECK(fit_width("abc", 0).empty());
}

TEST_CASE("the charset is the locale's, and UTF-8 where none is named") {
    CHECK(charset_of("C", "en_US.UTF-8", "en_US.UTF-8") == Charset::ascii);
    CHECK(charset_of("C.utf8", "C", "C") == Charset::utf8);
    CHECK(charset_of("", "POSIX", "de_DE.UTF-8") == Charset::ascii);
    CHECK(charset_of("", "", "de_DE@euro") == Charset::ascii);
    CHECK(charset_of("", "", "ja_JP.eucJP") == Charset::ascii);
    CHECK(charset_of("", "", "de_DE.UTF-8") == Charset::utf8);
    CHECK(charset_of("", "", "") == Charset::utf8);
}

TEST_CASE("in ASCII our signs become words, and everything else is named") {
    CHECK(in_charset("✗ rank 0 · ━━╸── ×8 …", Charset::utf8) == "✗ rank 0 · ━━╸── ×8 …");
    CHECK(in_charset("✗ rank 0 · ━━╸── ×8 …", Charset::ascii) == "x rank 0 - ==>-- x8 ...");
    CHECK(in_charset("\x1b[31mé 𝄞\x1b[0m", Charset::ascii) ==
          "\x1b[31m\\u{00e9} \\u{1d11e}\x1b[0m");
    CHECK(in_charset("a\xff", Charset::ascii) == "a\\xff");
    CHECK(fit_width("abcdef", 5, Charset::ascii) == "ab...");
    CHECK(fit_width("abcdef", 2, Charset::ascii).empty());
    CHECK(escape_json("\"é 𝄞\"", Charset::ascii) == "\"\\u00e9 \\ud834\\udd1e\"");
}

}  // namespace terminal_text_test
