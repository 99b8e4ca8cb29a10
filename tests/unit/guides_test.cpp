// Code in the guides is code of the examples: each block names its place, and is that place's text.

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

namespace guides_test {

namespace fs = std::filesystem;
using autolaunch::read_file;
using autolaunch::split;

namespace {

const fs::path kRoot = AUTOLAUNCH_SOURCE_DIR;

// What is between the lines "// [name]" and "// [/name]" of a file, or what its language has for
// comments of a line.
std::string region(const std::string& file, const std::string& name) {
    std::string text;
    int marks = 0;
    for (const std::string& line : split(read_file(kRoot / file), '\n')) {
        const bool is_mark = [&] {
            for (const std::string& mark : {"[" + name + "]", "[/" + name + "]"})
                if (line == "// " + mark || line == "/* " + mark + " */" || line == "# " + mark)
                    return true;
            return false;
        }();
        marks += is_mark ? 1 : 0;
        if (marks == 1 && !is_mark)
            text += line + "\n";
    }
    return marks == 2 ? text : "no region " + name + " in " + file;
}

// Checks every block of one guide; returns how many there are.
int check_blocks(const fs::path& guide) {
    static const std::regex kPlace(R"(^<!-- (\S+) \[(\w+)\] -->$)");
    const auto lines = split(read_file(guide), '\n');
    int blocks = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (lines[i] != "```cpp" && lines[i] != "```c" && lines[i] != "```cmake")
            continue;
        ++blocks;
        INFO(guide.filename().string(), ":", i + 1);
        std::smatch place;
        const bool named = i > 0 && std::regex_match(lines[i - 1], place, kPlace);
        CHECK_MESSAGE(named, "a block without <!-- FILE [region] --> before it");
        std::string block;
        for (++i; i < lines.size() && lines[i] != "```"; ++i)
            block += lines[i] + "\n";
        if (named)
            CHECK(block == region(place[1], place[2]));
    }
    return blocks;
}

}  // namespace

TEST_CASE("code in the guides is the examples' code") {
    int blocks = 0;
    for (const auto& entry : fs::directory_iterator(kRoot / "docs/guides"))
        if (entry.path().extension() == ".md")
            blocks += check_blocks(entry.path());
    CHECK(blocks >= 12);
}

}  // namespace guides_test
