#include "logs/line_splitter.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

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
