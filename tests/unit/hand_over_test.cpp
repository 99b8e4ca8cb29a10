// What is decided of a hand-over before a byte moves.

#include "base/hash.hpp"
#include "hand_over/link_message.hpp"
#include "hand_over/node_cache.hpp"
#include "hand_over/shared_file.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace hand_over_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

TEST_CASE("a file is cut into chunks, and the last one is what is left") {
    const SharedFile file{"/x", 2 * static_cast<std::int64_t>(kChunkBytes) + 5, 1, 0644};
    CHECK(chunks_of(file) == 3);
    CHECK(chunk_bytes(file, 0) == kChunkBytes);
    CHECK(chunk_bytes(file, 2) == 5);
    CHECK(chunks_of({"/x", static_cast<std::int64_t>(kChunkBytes), 1, 0644}) == 1);
}

TEST_CASE("a large file of which some is used is cut into the pieces that hold it") {
    constexpr auto kPiece = static_cast<std::int64_t>(kPieceBytes);
    constexpr std::int64_t kBytes = 100 * kPiece + 5;
    using Runs = std::vector<PieceRun>;
    CHECK(pieces_of({{kPiece + 1, 1}}, kBytes) == Runs{{1, 1}});
    CHECK(pieces_of({{kPiece - 1, 2}}, kBytes) == Runs{{0, 2}});
    CHECK(pieces_of({{100 * kPiece, 5}}, kBytes) == Runs{{100, 1}});
    CHECK(pieces_of({{50 * kPiece, 1}, {3 * kPiece, 1}}, kBytes) == Runs{{3, 1}, {50, 1}});
    CHECK(pieces_of({{3 * kPiece, 1}, {5 * kPiece, 1}}, kBytes) == Runs{{3, 3}});  // read through
    CHECK(pieces_of({{3 * kPiece, 1}, {6 * kPiece, 1}}, kBytes) == Runs{{3, 1}, {6, 1}});
    CHECK(pieces_of({{-5, 6}, {99 * kPiece, 1LL << 50}}, kBytes) == Runs{{0, 1}, {99, 2}});
    CHECK(pieces_of({{0, 89 * kPiece}}, kBytes).empty());  // most of it: whole
    CHECK(pieces_of({{0, 1}}, 1 << 20).empty());           // small: whole
    CHECK(used_bytes({{10, 5}, {0, 4}, {12, 8}}) == 14);

    const SharedFile file{"/x", kBytes, 1, 0644, {{3, 2}, {100, 1}}};
    CHECK(chunks_of(file) == 101);
    CHECK(chunk_bytes(file, 100) == 5);
    CHECK(chunk_offset(file, 100) == 100 * kPiece);
    CHECK(wanted_chunks(file) == std::vector<std::size_t>{3, 4, 100});
    CHECK(wanted_bytes(file) == 2 * kPiece + 5);
    CHECK(wanted_bytes({"/x", kBytes, 1, 0644}) == kBytes);
}

TEST_CASE("a file is handed over where all nodes together would read twice as much") {
    constexpr std::int64_t kMega = 1'000'000;
    CHECK(is_worth_it(1000, 1, 2));                   // small
    CHECK(is_worth_it(400 * kMega, 200 * kMega, 2));  // and for the next job
    CHECK(is_worth_it(400 * kMega, 100 * kMega, 8));
    CHECK_FALSE(is_worth_it(400 * kMega, 60 * kMega, 8));
    CHECK(is_worth_it(400 * kMega, 60 * kMega, 16));
    CHECK_FALSE(is_worth_it(0, 0, 8));  // there is nothing to hand over
}

TEST_CASE("each place has its parent above it, and then those that stand in for it") {
    CHECK(places_above(0).empty());
    CHECK(places_above(1) == std::vector{0});
    CHECK(places_above(2) == std::vector{0});
    CHECK(places_above(6) == std::vector{2, 0});
    CHECK(places_above(9) == std::vector{4, 1, 0});
    std::vector<int> children(1000);  // nobody gives to more than two
    for (int place = 1; place < 1000; ++place)
        ++children[static_cast<std::size_t>(places_above(place).front())];
    for (const int count : children)
        CHECK(count <= 2);
}

TEST_CASE("a list of files is the same behind the wire, and what is none is refused") {
    const std::vector<SharedFile> files{{"/a b", 1, -5, 0644},
                                        {"/\"q\"\n", 1LL << 40, 7, 0755, {{0, 2}, {9, 1}}}};
    CHECK(parse_manifest(as_manifest(files)) == files);
    for (const char* text :
         {"", "{}x", "[[1]]", "[[\"rel\",1,1,1]]", "[[\"/a\",0,1,1]]", "[[[[[1]]]]]",
          "[[\"/a\",99,1,1,[[1,1]]]]", "[[\"/a\",99,1,1,[[0,0]]]]",
          "[[\"/a\",999999,1,1,[[2,1],[1,1]]]]", "[[\"/a\",99,1,1,[[0,4294967295]]]]"})
        CHECK_THROWS_AS(parse_manifest(text), Error);
}

TEST_CASE("what is asked and answered has fixed bytes") {
    CHECK(view_of(ask_text(LinkAsk::chunk, 258, 3)) ==
          std::string_view("\1\2\1\0\0\3\0\0\0", kAskBytes));
    const Digest128 digest{0x1122334455667788, 0x99aabbccddeeff00};
    const AnswerHead head = answer_head(LinkAnswer::never, 7, digest);
    CHECK(head[0] == 1);
    CHECK(get_u32(head.data() + 1) == 7);
    CHECK(digest_in(head) == digest);
}

TEST_CASE("a copy's name tells files apart by all that can be seen of them") {
    const SharedFile file{"/x", 5, 1, 0644};
    CHECK(copy_key(file) == copy_key({"/x", 5, 1, 0644, {{0, 1}}}));  // of a store: pieces come
    for (const SharedFile& other : std::vector<SharedFile>{
             {"/y", 5, 1, 0644}, {"/x", 6, 1, 0644}, {"/x", 5, 2, 0644}, {"/x", 5, 1, 0755}})
        CHECK(copy_key(file) != copy_key(other));
    CHECK(copy_key(file) == copy_key(SharedFile(file)));
}

}  // namespace hand_over_test
