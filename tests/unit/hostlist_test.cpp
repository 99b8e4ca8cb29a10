#include "allocation/hostlist.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::launcher;
using Names = std::vector<std::string>;

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

TEST_CASE("brackets multiply, the leftmost slowest, and text may follow") {
    CHECK(expand_hostlist("r[0-1]n[1-2]") == Names{"r0n1", "r0n2", "r1n1", "r1n2"});
    CHECK(expand_hostlist("n[1-2]-ib.cluster") == Names{"n1-ib.cluster", "n2-ib.cluster"});
    CHECK(expand_hostlist("n[1-2][a,b]") == Names{"n1a", "n1b", "n2a", "n2b"});
}

TEST_CASE("brackets nest") {
    CHECK(expand_hostlist("[a[1-2],b]x") == Names{"a1x", "a2x", "bx"});
    CHECK(expand_hostlist("[a-b]") == Names{"a-b"});  // not numbers: a name
    CHECK_THROWS_AS(expand_hostlist("[[[[[[[[[[1]]]]]]]]]]"), Error);
}

TEST_CASE("malformed lists are refused, with the place") {
    for (const char* text : {"", "a,", ",a", "n[", "n[1-2", "n]", "n[]", "n[3-1]", "n[1-2]]", "n[1,]"}) {
        INFO(text);
        CHECK_THROWS_AS(expand_hostlist(text), Error);
    }
    CHECK_THROWS_WITH(expand_hostlist("n[3-1]"), "host list 'n[3-1]': the range 3-1 counts down at character 3");
}

TEST_CASE("a list is bounded before it is built") {
    CHECK(expand_hostlist("n[1-65536]").size() == kMaxHosts);
    CHECK_THROWS_AS(expand_hostlist("n[1-65537]"), Error);
    CHECK_THROWS_AS(expand_hostlist("n[0-999999999999999999]"), Error);
    CHECK_THROWS_AS(expand_hostlist("n[0-9999999999999999999999]"), Error);
    CHECK_THROWS_AS(expand_hostlist("a[1-999]b[1-999]c[1-999]"), Error);
    CHECK_THROWS_AS(expand_hostlist("a[1-40000],b[1-40000]"), Error);
}

TEST_CASE("counts repeat") {
    CHECK(expand_counts("8(x4)") == std::vector<int>{8, 8, 8, 8});
    CHECK(expand_counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
    CHECK(expand_counts("4") == std::vector<int>{4});
    for (const char* text : {"", "x", "2(x", "2(x0)", "2(x3", "-1", "1(x70000)", "1(x99999999999999999999)"}) {
        INFO(text);
        CHECK_THROWS_AS(expand_counts(text), Error);
    }
}
