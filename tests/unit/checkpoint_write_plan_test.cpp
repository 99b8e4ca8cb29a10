// What a rank writes: which boxes, in which files, and how the files say so.
#include "checkpoint/format/opaque_tensors.hpp"
#include "checkpoint/format/run_boxes.hpp"
#include "checkpoint/format/write_plan.hpp"
#include "safetensors_rules.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace checkpoint_write_plan_test {

using namespace autolaunch;

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t product(const Shape& shape) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape)
        elements *= extent;
    return elements;
}

// The flat indices of a box's elements, from its place alone.
std::vector<std::int64_t> elements_of(const RunBox& box, const Shape& shape) {
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < product(box.shape); ++i) {
        std::int64_t rest = i, flat = 0, row = 1;
        for (std::size_t d = shape.size(); d-- > 0;) {
            flat += (box.begin[d] + rest % box.shape[d]) * row;
            rest /= box.shape[d];
            row *= shape[d];
        }
        elements.push_back(flat);
    }
    return elements;
}

// The bytes of a planned file, as writing it would make them.
std::string content_of(const PlannedFile& file) {
    std::string content = file.header;
    for (const Segment& segment : file.segments) {
        REQUIRE(segment.file_offset == content.size());
        content.append(reinterpret_cast<const char*>(segment.memory), segment.bytes);
    }
    REQUIRE(content.size() == file.bytes);
    return content;
}

}  // namespace

TEST_CASE("a run is the end of a row, whole rows and the start of a row") {
    CHECK(boxes_of_run(Shape{4, 5}, 3, 12) ==
          std::vector<RunBox>{{{0, 3}, {1, 2}, 3, 2}, {{1, 0}, {2, 5}, 5, 10}});
    CHECK(boxes_of_run(Shape{4, 5}, 3, 14) == std::vector<RunBox>{{{0, 3}, {1, 2}, 3, 2},
                                                                  {{1, 0}, {2, 5}, 5, 10},
                                                                  {{3, 0}, {1, 2}, 15, 2}});
    CHECK(boxes_of_run(Shape{4, 5}, 6, 3) == std::vector<RunBox>{{{1, 1}, {1, 3}, 6, 3}});
    CHECK(boxes_of_run(Shape{4, 5}, 0, 20) == std::vector<RunBox>{{{0, 0}, {4, 5}, 0, 20}});
    CHECK(boxes_of_run(Shape{7}, 2, 3) == std::vector<RunBox>{{{2}, {3}, 2, 3}});
    CHECK(boxes_of_run(Shape{}, 0, 1) == std::vector<RunBox>{{{}, {}, 0, 1}});
}

TEST_CASE("the boxes of any run are its elements in order, and at most 2k - 1") {
    std::mt19937 random(3);
    for (int round = 0; round < 3000; ++round) {
        Shape shape(1 + random() % 4);
        for (auto& extent : shape)
            extent = 1 + static_cast<std::int64_t>(random() % 5);
        const std::int64_t elements = product(shape);
        const std::int64_t offset = static_cast<std::int64_t>(random()) % elements;
        const std::int64_t count = 1 + static_cast<std::int64_t>(random()) % (elements - offset);
        const auto boxes = boxes_of_run(shape, offset, count);
        REQUIRE(boxes.size() <= 2 * shape.size() - 1);
        std::int64_t next = offset;
        for (const RunBox& box : boxes) {
            REQUIRE(box.offset == next);
            REQUIRE(box.count == product(box.shape));
            for (const std::int64_t element : elements_of(box, shape))
                REQUIRE(element == next++);
        }
        REQUIRE(next == offset + count);
    }
}

TEST_CASE(
    "a rank's files: one box of a tensor in each, the largest in the first, DCP's offsets in the "
    "header") {
    std::vector<float> weights(20);
    std::vector<std::int64_t> counter = {7};
    for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = static_cast<float>(i);
    const fsdp::State state = {
        {"w", f32, {4, 5}, {{3, 14, reinterpret_cast<std::byte*>(weights.data() + 3)}}, false},
        {"n", i64, {}, {{0, 1, reinterpret_cast<std::byte*>(counter.data())}}, false},
        {"elsewhere", f32, {3}, {}, false}};
    const WritePlan plan = plan_shards(state, 12, 1, 4);
    REQUIRE(plan.files.size() == 3);
    CHECK(plan.files[0].name == "shard-00002-model-00001-of-00003.safetensors");
    CHECK(plan.files[2].name == "shard-00002-model-00003-of-00003.safetensors");
    for (const PlannedFile& file : plan.files)
        CHECK(testing::broken_safetensors_rule(content_of(file)) == "");

    const std::string first = content_of(plan.files[0]);
    const auto header = safetensors::parse_header(first, first.size());
    REQUIRE(header.entries.size() == 2);
    CHECK(header.entries[0].name == "n");  // the wider type
    CHECK(header.entries[1].name == "w");
    CHECK(header.entries[1].shape == Shape{2, 5});
    const auto sharding = nlohmann::json::parse(header.metadata.at("DCP_SHARDING_INFO"));
    CHECK(
        sharding ==
        nlohmann::json::parse(
            R"({"n":{"saved_offsets":[],"shape":[]},"w":{"saved_offsets":[1,0],"shape":[4,5]}})"));
    CHECK(header.metadata.at("format") == "pt");
    CHECK(header.metadata.at("autolaunch_step") == "12");

    CHECK(plan.fragment.step == 12);
    CHECK(plan.fragment.world_size == 4);
    CHECK_FALSE(plan.fragment.library.empty());
    REQUIRE(plan.fragment.tensors.size() == 2);  // rank 0's names them all
    CHECK(plan_shards(state, 12, 0, 4).fragment.tensors.size() == 3);
    CHECK(plan.fragment.tensors[0].pieces ==
          std::vector<Manifest::Piece>{{0, 4096 + 8, 5, 10}, {1, 4096, 3, 2}, {2, 4096, 15, 2}});
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(plan.fragment.files[i].name == plan.files[i].name);
        CHECK(plan.fragment.files[i].bytes == plan.files[i].bytes);
        CHECK(plan.fragment.files[i].rank == 1);
    }
}

TEST_CASE("replicated tensors are written once, by the rank that has the least to write") {
    std::vector<float> memory(100);
    auto* data = reinterpret_cast<std::byte*>(memory.data());
    fsdp::State state;
    for (const std::int64_t count : {100, 60, 30, 10})
        state.push_back({"t" + std::to_string(count), f32, {count}, {{0, count, data}}, true});
    const auto tensors_of = [&](int rank) {
        std::set<std::string> names;
        for (const auto& tensor : plan_shards(state, 0, rank, 2).fragment.tensors)
            if (!tensor.pieces.empty())
                names.insert(tensor.name);
        return names;
    };
    CHECK(tensors_of(0) == std::set<std::string>{"t100"});
    CHECK(tensors_of(1) == std::set<std::string>{"t60", "t30", "t10"});
}

TEST_CASE(
    "frozen tensors have files of their own, the same at every step, and are shared out apart") {
    std::vector<float> memory(100);
    auto* data = reinterpret_cast<std::byte*>(memory.data());
    fsdp::State state = {{"moves", f32, {4, 5}, {{3, 14, data}}, false},
                         {"stays", f32, {5, 4}, {{2, 9, data}}, false, 0, true},
                         {"n", i64, {1}, {{0, 1, data}}, false, 0, true}};
    const WritePlan plan = plan_shards(state, 12, 0, 1), later = plan_shards(state, 13, 0, 1);
    REQUIRE(plan.files.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) {
        CHECK(plan.files[i].frozen == (i >= 3));
        CHECK(plan.files[i].name ==
              "shard-00001-model-0000" + std::to_string(i + 1) + "-of-00006.safetensors");
        CHECK((content_of(plan.files[i]) == content_of(later.files[i])) == (i >= 3));
        CHECK(testing::broken_safetensors_rule(content_of(plan.files[i])) == "");
        const std::string content = content_of(plan.files[i]);
        const auto header = safetensors::parse_header(content, content.size());
        CHECK(header.metadata.contains("autolaunch_step") == (i < 3));
        for (const auto& entry : header.entries)
            CHECK((entry.name == "moves") == (i < 3));
    }

    state.clear();
    for (const std::int64_t count : {100, 60, 30, 10})
        for (const bool frozen : {false, true})
            state.push_back({(frozen ? "f" : "t") + std::to_string(count),
                             f32,
                             {count},
                             {{0, count, data}},
                             true,
                             0,
                             frozen});
    for (const int rank : {0, 1}) {
        std::set<std::string> names;
        for (const auto& tensor : plan_shards(state, 0, rank, 2).fragment.tensors)
            if (!tensor.pieces.empty())
                names.insert(tensor.name);
        CHECK(names == (rank == 0
                            ? std::set<std::string>{"t100", "f100"}
                            : std::set<std::string>{"t60", "t30", "t10", "f60", "f30", "f10"}));
    }
}

TEST_CASE("a rank that holds nothing, or a later replica's copy, writes no file") {
    std::vector<float> memory(4);
    fsdp::StateTensor tensor{"t",   f32, {4}, {{0, 4, reinterpret_cast<std::byte*>(memory.data())}},
                             false, 1};
    CHECK(plan_shards({tensor}, 0, 1, 2).files.empty());
    tensor.replica = 0;
    CHECK(plan_shards({tensor}, 0, 1, 2).files.size() == 1);
}

TEST_CASE("opaque state is U8 tensors: one for all ranks, or one of each, also of no bytes") {
    std::vector<Manifest> fragments;
    for (int rank = 0; rank < 3; ++rank) {
        const std::vector<OpaqueState> opaque = {
            {"rng", std::string(static_cast<std::size_t>(rank) * 10, 'x'), true},
            {"loader", "at " + std::to_string(rank), false}};
        const WritePlan plan = plan_shards({}, 5, rank, 3, opaque);
        for (const PlannedFile& file : plan.files)
            CHECK(testing::broken_safetensors_rule(content_of(file)) == "");
        CHECK(plan.files.size() == 1);
        fragments.push_back(plan.fragment);
    }
    const Manifest manifest = merge_fragments(fragments);
    manifest.require_complete();
    CHECK(manifest.find("opaque.loader")->shape == Shape{4});
    CHECK(manifest.find("opaque.rng.rank-00000")->shape == Shape{0});
    CHECK(manifest.find("opaque.rng.rank-00002")->shape == Shape{20});
    CHECK(find_opaque(manifest, "rng").size() == 3);
    CHECK(find_opaque(manifest, "loader").size() == 1);
    CHECK(find_opaque(manifest, "other").empty());
}

TEST_CASE("fragments merge into one complete manifest, however ragged the cut") {
    std::mt19937 random(8);
    for (int round = 0; round < 100; ++round) {
        std::vector<float> memory(6 * 7 * 3);
        const auto elements = static_cast<std::int64_t>(memory.size());
        const int ranks = 1 + static_cast<int>(random() % 5);
        std::vector<Manifest> fragments;
        std::int64_t at = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            const std::int64_t left = elements - at;
            const std::int64_t count =
                rank == ranks - 1 ? left : static_cast<std::int64_t>(random()) % (left + 1);
            fsdp::StateTensor tensor{"t", f32, {6, 7, 3}, {}, false};
            if (count > 0)
                tensor.pieces = {{at, count, reinterpret_cast<std::byte*>(memory.data() + at)}};
            at += count;
            const WritePlan plan = plan_shards({tensor}, 5, rank, ranks);
            std::vector<BlockDigests> digests(plan.files.size(), {{{1, 2}}});
            fragments.push_back(Manifest::parse(described(plan, digests).to_text()));
        }
        const Manifest manifest = merge_fragments(fragments);
        manifest.require_complete();
        REQUIRE(manifest.world_size == ranks);
        REQUIRE(Manifest::parse(manifest.to_text()) == manifest);
    }
    Manifest one, other;
    one.tensors = {{"a", f32, {1}, {}}};
    other.tensors = {{"a", f32, {2}, {}}};
    CHECK_THROWS_AS(merge_fragments({one, other}), Error);
}

}  // namespace checkpoint_write_plan_test
