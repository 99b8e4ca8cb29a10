#include "logs/line_splitter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

namespace line_splitter_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

const LineSplitter::Time kStart{};

struct Splitting {
    LineSplitter splitter;
    std::vector<LogLine> lines;

    void feed(std::string_view bytes, LineSplitter::Time at = kStart) {
        splitter.feed(bytes, at, lines);
    }
    void idle(LineSplitter::Time at) { splitter.idle(at, lines); }
    // What was given since the last call; a continuation begins with "+".
    std::vector<std::string> take() {
        std::vector<std::string> texts;
        for (const auto& line : lines)
            texts.push_back((line.continues ? "+" : "") + line.text);
        lines.clear();
        return texts;
    }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("lines are whole, however the bytes come") {
    Splitting splitting;
    for (const char byte : std::string("one\n\nthree\nfour"))
        splitting.feed({&byte, 1});
    CHECK(splitting.take() == Texts{"one", "", "three"});
    splitting.splitter.finish(splitting.lines);
    CHECK(splitting.take() == Texts{"four"});
}

TEST_CASE("a prompt appears after a silence, its rest as a continuation") {
    Splitting splitting;
    splitting.feed("continue? ");
    splitting.idle(kStart + 199ms);
    CHECK(splitting.take().empty());
    splitting.idle(kStart + 200ms);
    CHECK(splitting.take() == Texts{"continue? "});
    splitting.feed("yes\nnext\n", kStart + 1s);
    CHECK(splitting.take() == Texts{"+yes", "next"});
}

TEST_CASE("a prompt that is then ended gives no empty line") {
    Splitting splitting;
    splitting.feed("working...");
    splitting.idle(kStart + 1s);
    splitting.feed("\n", kStart + 2s);
    CHECK(splitting.take() == Texts{"working..."});
}

TEST_CASE("half a line at the end of a full stdio block is waited for") {
    Splitting splitting;
    splitting.feed(std::string(4090, 'x') + "\nhello");
    splitting.take();
    splitting.idle(kStart + 1s);
    CHECK(splitting.take().empty());
    splitting.feed(" world\n", kStart + 2s);
    CHECK(splitting.take() == Texts{"hello world"});
}

TEST_CASE("of a progress bar the last state is given, and a state every ten seconds") {
    Splitting splitting;
    for (int percent = 0; percent <= 99; ++percent)
        splitting.feed("\r" + std::to_string(percent) + "%", kStart + percent * 100ms);
    splitting.idle(kStart + 9'999ms);
    CHECK(splitting.take().empty());
    splitting.idle(kStart + 10s);
    CHECK(splitting.take() == Texts{"99%"});
    splitting.idle(kStart + 30s);
    CHECK(splitting.take().empty());  // nothing moved
    splitting.feed("\r100%\n", kStart + 31s);
    CHECK(splitting.take() == Texts{"100%"});
}

TEST_CASE("a state that was given is not given again at its newline") {
    Splitting splitting;
    splitting.feed("\r50%\r100%");
    splitting.idle(kStart + 10s);
    splitting.feed("\n", kStart + 11s);
    CHECK(splitting.take() == Texts{"100%"});
}

TEST_CASE("CR LF ends a line and overwrites nothing, also when it comes in two parts") {
    Splitting splitting;
    splitting.feed("dos\r\nsplit\r");
    splitting.feed("\nlast\r\r\n");
    CHECK(splitting.take() == Texts{"dos", "split", "last"});
}

TEST_CASE("a very long line comes in pieces that lose nothing and cut no character") {
    Splitting splitting;
    std::string line;
    while (line.size() < 3 * LineSplitter::kLongLineBytes)
        line += "€uro";
    splitting.feed(line + "\nnext\n");
    auto texts = splitting.take();
    REQUIRE(texts.size() == 5);
    std::string joined = texts[0];
    for (std::size_t i = 1; i < 4; ++i) {
        REQUIRE(texts[i].front() == '+');
        CHECK((static_cast<unsigned char>(texts[i][1]) & 0xC0) != 0x80);
        joined += texts[i].substr(1);
    }
    CHECK(joined == line);
    CHECK(texts[4] == "next");
}

TEST_CASE("bytes that are no text pass unchanged") {
    Splitting splitting;
    const std::string binary("\x00\xff\xfe\x80\xc3", 5);
    splitting.feed(binary + "\n");
    CHECK(splitting.take() == Texts{binary});
    splitting.feed("\xff\xff");
    splitting.idle(kStart + 1s);
    CHECK(splitting.take() == Texts{"\xff\xff"});
}

TEST_CASE("two bars, one below the other: their last states, when the lower one's line is left") {
    // As tqdm writes them: down, the inner bar, up again.
    Splitting splitting;
    splitting.feed("\router 0%");
    splitting.feed("\n\rinner 0%\x1b[A");
    CHECK(splitting.take() == Texts{"outer 0%"});
    for (int epoch = 1; epoch <= 2; ++epoch) {
        for (int step = 1; step <= 3; ++step)
            splitting.feed("\n\rinner " + std::to_string(step) + "0%\x1b[A");
        splitting.feed("\router " + std::to_string(epoch) + "%");
        CHECK(splitting.splitter.live() ==
              Texts{"outer " + std::to_string(epoch) + "%", "inner 30%"});
    }
    CHECK(splitting.take().empty());
    splitting.feed("\n\r         \r\x1b[A");  // the inner one is taken away
    CHECK(splitting.splitter.live() == Texts{"outer 2%"});
    splitting.feed("\n");
    splitting.feed("done\n");
    CHECK(splitting.take() == Texts{"outer 2%", "done"});
    CHECK(splitting.splitter.live().empty());
    splitting.feed("next\n");
    CHECK(splitting.take() == Texts{"next"});
}

TEST_CASE("a display of several lines that is drawn anew gives no lines, and at last its own") {
    // As rich draws it: erase and go up, then all lines again.
    Splitting splitting;
    splitting.feed("title\nload 10%\nsave  0%\n");
    CHECK(splitting.take() == Texts{"title", "load 10%", "save  0%"});
    for (int step = 2; step <= 9; ++step)
        splitting.feed("\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2Kload " + std::to_string(step) +
                       "0%\nsave  1%\n");
    CHECK(splitting.take().empty());
    CHECK(splitting.splitter.live() == Texts{"\x1b[2Kload 90%", "save  1%"});
    splitting.feed("after\n");
    CHECK(splitting.take() == Texts{"\x1b[2Kload 90%", "save  1%", "after"});
}

TEST_CASE("where the cursor goes up in pieces, too far or for ever, nothing is lost or kept") {
    Splitting splitting;
    for (const char byte : std::string("\rone\n\rtwo\x1b[1A\rone!\n\n"))
        splitting.feed({&byte, 1});
    CHECK(splitting.take() == Texts{"one", "one!", "two"});
    splitting.feed("\x1b[99999999999999999999A\rtop");
    splitting.splitter.finish(splitting.lines);
    CHECK(splitting.take() == Texts{"top"});
    splitting.feed("\x1b[" + std::string(100, '1'));  // no sequence, however it goes on
    splitting.feed("A\n");
    CHECK(splitting.take() == Texts{"\x1b[" + std::string(100, '1') + "A"});
    splitting.feed("cut \x1b[");
    splitting.feed("\n");
    CHECK(splitting.take() == Texts{"cut \x1b["});
}

TEST_CASE("states that are shown elsewhere are not given in between") {
    Splitting splitting;
    splitting.feed("\r10%");
    splitting.splitter.idle(kStart + 60s, splitting.lines, true);
    CHECK(splitting.take().empty());
    CHECK(splitting.splitter.live() == Texts{"10%"});
    splitting.feed("\r20%\r", kStart + 61s);
    splitting.splitter.idle(kStart + 61s, splitting.lines, false);
    CHECK(splitting.take() == Texts{"20%"});
}

TEST_CASE("lines and states are the same however the bytes come") {
    const Texts words = {"a",      "bc",      " ",       "\r",       "\r",   "\n",   "\n",
                         "\x1b[A", "\x1b[3A", "\x1b[2K", "\x1b[31m", "\x1b", "\x1b["};
    std::mt19937 random(20);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes;
        for (int i = 0; i < 30; ++i)
            bytes += words[random() % words.size()];
        Splitting whole, parts;
        whole.feed(bytes);
        for (std::string_view rest = bytes; !rest.empty();) {
            const std::size_t part = 1 + random() % 5;
            parts.feed(rest.substr(0, part));
            rest.remove_prefix(std::min(part, rest.size()));
        }
        REQUIRE(parts.splitter.live() == whole.splitter.live());
        whole.splitter.finish(whole.lines);
        parts.splitter.finish(parts.lines);
        REQUIRE(parts.take() == whole.take());
        CHECK(whole.splitter.live().empty());
    }
}

}  // namespace line_splitter_test
