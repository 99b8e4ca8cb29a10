#include "allocation/hostlist.hpp"
#include "sanitized.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace hostlist_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using Names = std::vector<std::string>;

namespace {

std::string fault_of(std::string_view text) {
    try {
        expand_hostlist(text);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        return error.what();
    }
    return "no error";
}

// A name as sites have them: words, digits with and without leading zeros, separators, in any
// order.
std::string random_name(std::mt19937& random) {
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const Names words = {"n", "node", "gpu-", "r", ".cluster", "-ib", "x1y", ":", "1-3", "é"};
    std::string name;
    for (unsigned parts = 1 + below(4); parts > 0; --parts) {
        if (below(2) == 0) {
            name += words[below(static_cast<unsigned>(words.size()))];
        } else {
            std::string digits = std::to_string(below(3) == 0 ? below(1'000'000) : below(120));
            if (below(3) == 0)
                digits.insert(0, below(3), '0');
            if (below(200) == 0)
                digits.insert(0, 20, '7');
            name += digits;
        }
    }
    return name;
}

// Runs of names that follow each other, as rosters have them, with strangers between.
Names random_roster(std::mt19937& random) {
    Names names;
    for (unsigned runs = static_cast<unsigned>(random() % 6) + 1; runs > 0; --runs) {
        const std::string head = random_name(random),
                          tail = random() % 3 == 0 ? random_name(random) : "";
        const unsigned low = static_cast<unsigned>(random() % 1200),
                       length = static_cast<unsigned>(random() % 40);
        const std::size_t width = random() % 3 == 0 ? 1 + random() % 5 : 1;
        for (unsigned i = 0; i < length; ++i) {
            std::string digits = std::to_string(low + i);
            if (digits.size() < width)
                digits.insert(0, width - digits.size(), '0');
            names.push_back(head + digits + tail);
            if (random() % 9 == 0)
                names.push_back(random() % 2 == 0 ? names.back() : random_name(random));
        }
    }
    if (names.empty())
        names.push_back(random_name(random));
    return names;
}

}  // namespace

TEST_CASE("a host list expands in the order written") {
    CHECK(expand_hostlist("node1") == Names{"node1"});
    CHECK(expand_hostlist("node[1-3]") == Names{"node1", "node2", "node3"});
    CHECK(expand_hostlist("b,a[2,1],c") == Names{"b", "a2", "a1", "c"});
    CHECK(expand_hostlist("gpu[1-2,7,9-10]") == Names{"gpu1", "gpu2", "gpu7", "gpu9", "gpu10"});
}

TEST_CASE("numbers keep the width of the range's first") {
    CHECK(expand_hostlist("n[008-011]") == Names{"n008", "n009", "n010", "n011"});
    CHECK(expand_hostlist("n[8-11]") == Names{"n8", "n9", "n10", "n11"});
    CHECK(expand_hostlist("n[098-101,5]") == Names{"n098", "n099", "n100", "n101", "n5"});
}

TEST_CASE("steps") {
    CHECK(expand_hostlist("n[1-9:2]") == Names{"n1", "n3", "n5", "n7", "n9"});
    CHECK(expand_hostlist("n[08-11:3,20]") == Names{"n08", "n11", "n20"});
    CHECK(expand_hostlist("n[1-3:5]") == Names{"n1"});
    CHECK(expand_hostlist("n[0-999999999999:999999999999]") == Names{"n0", "n999999999999"});
    CHECK(expand_hostlist("n1-9:2") == Names{"n1-9:2"});  // outside brackets: a name
}

TEST_CASE("blanks and line ends may stand around a comma or for it") {
    CHECK(expand_hostlist("a b") == Names{"a", "b"});
    CHECK(expand_hostlist(" n[1-2] ,\tm\n") == Names{"n1", "n2", "m"});
    CHECK(fault_of("n[1 ,2]") == "host list 'n[1 ,2]': a blank inside brackets at character 4");
    CHECK(fault_of("n[1, 2]") == "host list 'n[1, 2]': a blank inside brackets at character 5");
    CHECK(fault_of("a, ,b") == "host list 'a, ,b': an empty name at character 4");
}

TEST_CASE("brackets multiply in Slurm's order, and text may follow") {
    CHECK(expand_hostlist("r[0-1]c[0-1]n[0-1]") ==
          Names{"r0c0n0", "r0c0n1", "r1c0n0", "r1c0n1", "r0c1n0", "r0c1n1", "r1c1n0", "r1c1n1"});
    CHECK(expand_hostlist("r[0-1]n[1-2]") == Names{"r0n1", "r0n2", "r1n1", "r1n2"});
    CHECK(expand_hostlist("n[1-2]-ib.cluster") == Names{"n1-ib.cluster", "n2-ib.cluster"});
    CHECK(expand_hostlist("n[1-2][a,b]") == Names{"n1a", "n1b", "n2a", "n2b"});
}

TEST_CASE("brackets nest") {
    CHECK(expand_hostlist("[a[1-2],b]x") == Names{"a1x", "a2x", "bx"});
    CHECK(expand_hostlist("[a-b]") == Names{"a-b"});  // not numbers: a name
    CHECK(expand_hostlist("a[b[1-2],c]") == Names{"ab1", "ab2", "ac"});
    CHECK(expand_hostlist("n[[1-2],3]") == Names{"n1", "n2", "n3"});
    CHECK_THROWS_AS(expand_hostlist("[[[[[[[[[[1]]]]]]]]]]"), Error);
}

TEST_CASE("malformed lists are refused, with the place") {
    for (const char* text :
         {"",      "a,",     ",a",      "a,,b",     "n[",      "n[1-2",    "n]",
          "n[]",   "n[3-1]", "n[1-2]]", "n[1,]",    "n[1-2:]", "n[1-2:0]", "n[1-2::]",
          "n[1-]", "n[-1]",  "n[1--2]", "n[1-2-3]", "n[1:2]",  "n[:]"}) {
        INFO(text);
        CHECK_THROWS_AS(expand_hostlist(text), Error);
    }
    CHECK(fault_of("n[3-1]") == "host list 'n[3-1]': the range 3-1 counts down at character 3");
    CHECK(fault_of("a,n[1-2") == "host list 'a,n[1-2': a '[' without its ']' at character 4");
    CHECK(fault_of("n[1-2]]") == "host list 'n[1-2]]': a ']' without its '[' at character 7");
    CHECK(fault_of("n[1-2,]") == "host list 'n[1-2,]': an empty name at character 7");
    CHECK(fault_of(std::string(1000, 'a') + ",n[2-1]").size() < 200);
}

TEST_CASE("a list is bounded before it is built") {
    CHECK(expand_hostlist("n[1-65536]").size() == kMaxHosts);
    CHECK(fault_of("n[0-999999999999]") ==
          "host list 'n[0-999999999999]': more than 65536 hosts at character 3");
    for (const char* text :
         {"n[1-65537]", "n[0-999999999999999999]", "n[0-9999999999999999999999]",
          "a[1-999]b[1-999]c[1-999]", "a[1-40000],b[1-40000]", "n[[1-60000],[1-60000]]",
          "[1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-"
          "2]"
          "[1-2][1-2][1-2]"}) {
        INFO(text);
        CHECK_THROWS_AS(expand_hostlist(text), Error);
    }
    CHECK(fault_of(std::string(256, 'n')).find("a name longer than 255 bytes") !=
          std::string::npos);
    CHECK(expand_hostlist(std::string(255, 'n')).size() == 1);
    CHECK_THROWS_AS(expand_hostlist(std::string(200, 'n') + "[1-1000000]"), Error);  // 200 MB
    std::string greedy = "1";
    for (int i = 0; i < 7; ++i)
        greedy = "x[1-1000000," + greedy + "]";
    CHECK_THROWS_AS(expand_hostlist(greedy), Error);
    CHECK_THROWS_AS(expand_hostlist(std::string(1'000'000, '[')), Error);
    std::string ones;
    for (int i = 0; i < 300; ++i)
        ones += "[1]";
    CHECK_THROWS_AS(expand_hostlist(ones + "[1-1000000]"), Error);
}

TEST_CASE("as many hosts as there may be") {
    const Names names = expand_hostlist("n[0000000-0065535]");
    REQUIRE(names.size() == kMaxHosts);
    CHECK(names.back() == "n0065535");
    CHECK(compress_hostlist(names) == "n[0000000-0065535]");
    std::string flat;
    for (const auto& name : names)
        flat += (flat.empty() ? "" : ",") + name;
    CHECK(expand_hostlist(flat) == names);
}

TEST_CASE("names are compressed to one bracket a term, in their order") {
    const auto compressed = [](const Names& names) { return compress_hostlist(names); };
    CHECK(compressed({"node1"}) == "node1");
    CHECK(compressed({"node3", "node4", "node5", "node6", "node7"}) == "node[3-7]");
    CHECK(compressed({"n1", "n2", "n4", "n8", "n9"}) == "n[1-2,4,8-9]");
    CHECK(compressed({"n2", "n1"}) == "n[2,1]");
    CHECK(compressed({"n08", "n09", "n10"}) == "n[08-10]");
    CHECK(compressed({"n9", "n10", "n011"}) == "n[9-10,011]");
    CHECK(compressed({"r1n1", "r1n2", "r2n1", "r2n2"}) == "r1n[1-2],r2n[1-2]");
    CHECK(compressed({"n1-ib.x", "n2-ib.x"}) == "n[1-2]-ib.x");
    CHECK(compressed({"a", "b", "b", "b1", "b2"}) == "a,b,b,b[1-2]");
    CHECK(compressed({}) == "");
    for (const char* name : {"", "a,b", "a[1]", "a]", "a b", "a\n"}) {
        INFO(name);
        CHECK_THROWS_AS(compressed({"n1", name}), Error);
    }
    CHECK_THROWS_AS(compressed({std::string(256, 'a')}), Error);
}

TEST_CASE("expanding what was compressed gives the same names in the same order") {
    std::mt19937 random(20'26);
    std::size_t shorter = 0;
    for (int round = 0; round < trials(5000); ++round) {
        const Names names = random_roster(random);
        const std::string text = compress_hostlist(names);
        REQUIRE_MESSAGE(expand_hostlist(text) == names, text);
        std::size_t bytes = names.size() - 1;
        for (const auto& name : names)
            bytes += name.size();
        REQUIRE(text.size() <= bytes + names.size());
        if (text.size() < bytes)
            ++shorter;
    }
    CHECK(shorter > static_cast<std::size_t>(trials(4000)));
}

TEST_CASE("any text is expanded or refused, and never crashes") {
    std::mt19937 random(7);
    const std::string alphabet = "[[]],,--::n1290 a";
    std::size_t accepted = 0;
    for (int round = 0; round < trials(200'000); ++round) {
        std::string text;
        for (auto length = random() % 24; length > 0; --length)
            text += alphabet[random() % alphabet.size()];
        try {
            const Names names = expand_hostlist(text);
            ++accepted;
            REQUIRE(expand_hostlist(compress_hostlist(names)) == names);
        } catch (const Error& error) {
            REQUIRE(std::string(error.what()).find(" at character ") != std::string::npos);
        }
    }
    CHECK(accepted > static_cast<std::size_t>(trials(1000)));
}

TEST_CASE("counts repeat") {
    CHECK(expand_counts("8(x4)") == std::vector<int>{8, 8, 8, 8});
    CHECK(expand_counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
    CHECK(expand_counts("4") == std::vector<int>{4});
    for (const char* text : {"", "x", "2(x", "2(x0)", "2(x3", "-1", "1(x2000000)",
                             "1(x99999999999999999999)", "1,", "+1", "2()", "2(x+3)", "2(x3)4"}) {
        INFO(text);
        CHECK_THROWS_AS(expand_counts(text), Error);
    }
    CHECK_THROWS_WITH(expand_counts("2(x3),x"),
                      "'2(x3),x' is not a list like 8(x4),2 at character 7");
    CHECK(expand_counts("8(x65000),4").size() == 65'001);
}

}  // namespace hostlist_test
