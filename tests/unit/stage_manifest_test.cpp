// Manifests of staged trees are read back as they were written, and anything else is refused.
#include "base/hash.hpp"
#include "stage_cache/tree.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>

namespace stage_manifest_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

Tree sample() {
    using Kind = TreeEntry::Kind;
    Tree tree;
    tree.entries = {{.path = "a folder", .kind = Kind::folder},
                    {.path = "a folder/new\nline%", .mode = 0555, .bytes = 7, .digest = {1, 2}},
                    {.path = "a-folder", .kind = Kind::link, .target = "a folder/new\nline%"},
                    {.path = "\xFF", .mode = 0444, .digest = {3, 4}}};
    return tree;
}

const std::string kText =
    "autolaunch tree 1 folder 2 7\n"
    "d a%20folder\n"
    "f 555 7 00000000000000010000000000000002 a%20folder/new%0Aline%25\n"
    "l a%20folder/new%0Aline%25 a-folder\n"
    "f 444 0 00000000000000030000000000000004 \xFF\n";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    const auto at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), by);
}

}  // namespace

TEST_CASE("a manifest is the text that is documented, and is read back") {
    CHECK(manifest_text(sample()) == kText);
    CHECK(manifest_text(parse_manifest_text(kText)) == kText);
    CHECK(address_of(kText) == hex128(hash128(kText.data(), kText.size())));
    CHECK(parse_manifest_head(kText).files == 2);
    CHECK(parse_manifest_head(kText).bytes == 7);
    Tree file;
    file.is_file = true;
    file.entries = {{.path = "w", .mode = 0444, .bytes = 1}};
    CHECK(parse_manifest_text(manifest_text(file)).is_file);
}

TEST_CASE("what no manifest is, is refused") {
    const auto is_refused = [](const std::string& text) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_manifest_text(text), Error);
    };
    for (std::size_t bytes = 0; bytes < kText.size(); ++bytes)
        is_refused(kText.substr(0, bytes));
    is_refused(replaced(kText, "tree 1", "tree 2"));
    is_refused(replaced(kText, "folder 2 7", "folder 3 7"));
    is_refused(replaced(kText, "folder 2 7", "folder 2 8"));
    is_refused(replaced(kText, "folder 2 7", "file 2 7"));
    is_refused(replaced(kText, "f 555 7", "f 755 7"));
    is_refused(replaced(kText, "f 555 7", "f 555 -7"));
    is_refused(replaced(kText, "f 555 7", "x 555 7"));
    is_refused(replaced(kText, "d a%20folder\n", ""));
    is_refused(replaced(kText, "d a%20folder\n", "d a%20folder\nd a%20folder\n"));
    is_refused(replaced(kText, "d a%20folder", "d ../a%20folder"));
    is_refused(replaced(kText, "d a%20folder", "d /a"));
    is_refused(replaced(kText, "%0Aline", "%00line"));
    is_refused(replaced(kText, "%0Aline", "%0gline"));
    is_refused(replaced(kText, "l a%20folder/new%0Aline%25", "l ../out"));
    is_refused(kText + "f 444 0 00000000000000030000000000000004 \xFE\n");
}

TEST_CASE("a link leads within the tree, or not, by its words") {
    CHECK(leads_within("a", "b"));
    CHECK(leads_within("a", "./b//c/"));
    CHECK(leads_within("x/y/a", "../../b"));
    CHECK(leads_within("x/a", ".."));
    CHECK_FALSE(leads_within("x/a", "../../b"));
    CHECK_FALSE(leads_within("a", ".."));
    CHECK_FALSE(leads_within("a", "/b"));
    CHECK_FALSE(leads_within("a", ""));
    // b may be a link itself, so that behind it is another folder than the words say.
    CHECK_FALSE(leads_within("x/a", "b/../c"));
}

TEST_CASE("a version of a source is told by all that the file system says, but no inode") {
    const auto key = [](const Tree& tree) { return source_key("/data", tree); };
    const std::string first = key(sample());
    CHECK(first.size() == 32);
    CHECK(source_key("/data2", sample()) != first);
    for (int what = 0; what < 5; ++what) {
        Tree other = sample();
        TreeEntry& file = other.entries[1];
        if (what == 0)
            file.mtime_ns = 1;
        if (what == 1)
            file.ctime_ns = 1;
        if (what == 2)
            file.bytes = 8;
        if (what == 3)
            file.mode = 0444;
        if (what == 4)
            other.entries.pop_back();
        CAPTURE(what);
        CHECK(key(other) != first);
    }
    Tree same = sample();
    same.entries[1].inode = 7;
    CHECK(key(same) == first);
}

TEST_CASE("a listing is read back, and nothing else is one") {
    Tree seen = sample();
    seen.entries[1].mtime_ns = -5;
    seen.entries[1].ctime_ns = 7;
    for (TreeEntry& entry : seen.entries)
        entry.digest = {};
    const std::string text = listing_text("/a b\nverified by x", seen);
    CHECK(text.starts_with(
        "autolaunch source 1 folder\n/a%20b%0Averified%20by%20x\nd 0 0 0 0  a%20folder\n"
        "f 555 7 -5 7  a%20folder/new%0Aline%25\n"));
    const Tree read = parse_listing_text(text);
    CHECK(listing_text("/a b\nverified by x", read) == text);
    CHECK(source_key("/a b\nverified by x", read) == address_of(text));
    for (std::size_t bytes = 0; bytes < text.find("\nd 0"); ++bytes)
        CHECK_THROWS_AS(parse_listing_text(text.substr(0, bytes)), Error);
    CHECK_THROWS_AS(parse_listing_text(replaced(text, "d 0 0", "d 0 1")), Error);
    CHECK_THROWS_AS(parse_listing_text(replaced(text, "f 555", "f 755")), Error);
    CHECK_THROWS_AS(parse_listing_text(replaced(text, " a%20folder\n", " ../a\n")), Error);
}

TEST_CASE("marks are read back") {
    const std::vector<Mark> marks = {{1, 2}, {UINT64_MAX, -5}};
    CHECK(parse_marks_text(marks_text(marks)) == marks);
    CHECK_THROWS_AS(parse_marks_text("autolaunch marks 1\n1 2"), Error);
    CHECK_THROWS_AS(parse_marks_text("autolaunch marks 1\n1\n"), Error);
    CHECK_THROWS_AS(parse_marks_text(""), Error);
}

}  // namespace stage_manifest_test
