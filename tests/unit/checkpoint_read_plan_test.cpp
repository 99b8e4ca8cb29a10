// What a rank reads: which parts of which files go where, cast or not, and which blocks a group
// shares.
#include "checkpoint/format/element_cast.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/format/write_plan.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace checkpoint_read_plan_test {

using namespace autolaunch;

namespace {

std::vector<std::byte> bytes_of(const PlannedFile& file) {
    const auto* header = reinterpret_cast<const std::byte*>(file.header.data());
    std::vector<std::byte> bytes(header, header + file.header.size());
    for (const Segment& segment : file.segments)
        bytes.insert(bytes.end(), segment.memory, segment.memory + segment.bytes);
    return bytes;
}

/// A checkpoint in memory: its manifest, and the content of its files.
struct Saved {
    Manifest manifest;
    std::vector<std::vector<std::byte>> files;
};

/// One tensor, cut anywhere between the ranks.
Saved save_cut(const std::string& name, DataType type, const std::vector<std::int64_t>& shape,
               std::byte* memory, const std::vector<std::int64_t>& ends) {
    Saved saved;
    std::vector<Manifest> fragments;
    std::int64_t begin = 0;
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
        fsdp::StateTensor tensor{name, type, shape, {}, false};
        if (ends[rank] > begin)
            tensor.pieces = {{begin, ends[rank] - begin,
                              memory + static_cast<std::size_t>(begin) * size_of(type)}};
        begin = ends[rank];
        const WritePlan plan =
            plan_shards({tensor}, 1, static_cast<int>(rank), static_cast<int>(ends.size()));
        for (const PlannedFile& file : plan.files)
            saved.files.push_back(bytes_of(file));
        fragments.push_back(plan.fragment);
    }
    saved.manifest = merge_fragments(fragments);
    return saved;
}

// Blocks of 4 MiB, as a reader gives them.
void load(const Saved& saved, const ReadPlan& plan) {
    for (const BlockNeed& need : blocks_needed(plan.parts)) {
        const std::span<const std::byte> file(saved.files.at(need.file_index));
        const std::uint64_t begin = need.block * Manifest::kBlockBytes;
        const auto block = file.subspan(
            begin, std::min<std::uint64_t>(Manifest::kBlockBytes, file.size() - begin));
        for (const std::size_t part : need.parts)
            copy_part(plan.parts[part], begin, block);
    }
}

std::string error_of(const Manifest& manifest, const fsdp::State& state,
                     const ReadRules& rules = {}) {
    try {
        plan_loading(manifest, state, rules);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::mismatch);
        return error.what() + std::string(" | ") + error.hint();
    }
    return "none";
}

}  // namespace

TEST_CASE("whatever the two cuts and the two types are, every element arrives") {
    std::mt19937 random(21);
    for (int round = 0; round < 200; ++round) {
        const std::vector<std::int64_t> shape = {1 + static_cast<std::int64_t>(random() % 9), 7, 5};
        const std::int64_t elements = shape[0] * 35;
        const auto cut = [&] {
            std::vector<std::int64_t> ends;
            for (std::int64_t at = 0; at < elements;)
                ends.push_back(at = std::min<std::int64_t>(
                                   elements, at + 1 + static_cast<std::int64_t>(random() % 200)));
            return ends;
        };
        std::vector<float> values(static_cast<std::size_t>(elements));
        for (auto& value : values)
            value = static_cast<float>(random() % 256);  // exact in all three types
        const DataType types[] = {f32, bf16, f16};
        const DataType stored = types[random() % 3], wanted = types[random() % 3];
        std::vector<std::byte> memory(values.size() * size_of(stored)),
            loaded(values.size() * size_of(wanted));
        cast_elements(f32, reinterpret_cast<std::byte*>(values.data()), stored, memory.data(),
                      values.size());
        const Saved saved = save_cut("t", stored, shape, memory.data(), cut());

        fsdp::StateTensor tensor{"t", wanted, shape, {}, false};
        std::int64_t begin = 0;
        for (const std::int64_t end : cut()) {
            tensor.pieces.push_back(
                {begin, end - begin,
                 loaded.data() + static_cast<std::size_t>(begin) * size_of(wanted)});
            begin = end;
        }
        load(saved, plan_loading(saved.manifest, {tensor}, {.cast = true}));
        std::vector<float> back(values.size());
        cast_elements(wanted, loaded.data(), f32, reinterpret_cast<std::byte*>(back.data()),
                      back.size());
        REQUIRE(back == values);
    }
}

TEST_CASE("a tensor longer than a block arrives, also cast") {
    std::vector<float> values(3 * Manifest::kBlockBytes / 4 + 77);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i % 256);
    const auto elements = static_cast<std::int64_t>(values.size());
    const Saved saved = save_cut("t", f32, {elements}, reinterpret_cast<std::byte*>(values.data()),
                                 {elements / 3 + 1, elements});
    std::vector<bfloat16> loaded(values.size());
    const fsdp::StateTensor tensor{
        "t", bf16, {elements}, {{0, elements, reinterpret_cast<std::byte*>(loaded.data())}}, true};
    const ReadPlan plan = plan_loading(saved.manifest, {tensor}, {.cast = true});
    load(saved, plan);
    for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(static_cast<float>(loaded[i]) == values[i]);
    for (const BlockNeed& need : blocks_needed(plan.parts))
        CHECK(need.shared);
}

TEST_CASE("casts round to nearest, and keep infinity and NaN") {
    const auto through = [](float value, DataType type) {
        std::byte stored[4];
        float back = 0;
        cast_elements(f32, reinterpret_cast<std::byte*>(&value), type, stored, 1);
        cast_elements(type, stored, f32, reinterpret_cast<std::byte*>(&back), 1);
        return back;
    };
    CHECK(through(1.00390625f, bf16) == 1.0f);       // a tie goes to even
    CHECK(through(1.01171875f, bf16) == 1.015625f);  // and here up
    CHECK(through(70000.0f, f16) == std::numeric_limits<float>::infinity());
    CHECK(through(70000.0f, bf16) == 70144.0f);
    CHECK(std::isnan(through(std::nanf(""), f16)));
    CHECK(can_cast(bf16, f16));
    CHECK(can_cast(i64, i64));
    CHECK_FALSE(can_cast(f32, i32));
    CHECK_FALSE(can_cast(f64, f32));
}

TEST_CASE(
    "a tensor that is missing, or is another, is named with both; rules allow one and the other") {
    std::vector<float> values(20);
    const Saved saved =
        save_cut("h.0.w", f32, {4, 5}, reinterpret_cast<std::byte*>(values.data()), {20});
    CHECK(error_of(saved.manifest, {{"h.1.w", f32, {4, 5}, {}, false}}) ==
          "the checkpoint has no tensor named h.1.w | it has h.0.w");
    CHECK(error_of(saved.manifest, {{"h.0.w", f32, {5, 4}, {}, false}}) ==
          "tensor h.0.w is [4, 5] f32 in the checkpoint, [5, 4] f32 in the model | ");
    CHECK(error_of(saved.manifest, {{"h.0.w", bf16, {4, 5}, {}, false}}) ==
          "tensor h.0.w is [4, 5] f32 in the checkpoint, [4, 5] bf16 in the model | "
          "LoadOptions::cast converts it");
    CHECK(error_of(saved.manifest, {{"h.0.w", bf16, {4, 5}, {}, false}}, {.cast = true}) == "none");
    CHECK(error_of(saved.manifest, {{"h.0.w", i32, {4, 5}, {}, false}}, {.cast = true}) ==
          "tensor h.0.w is [4, 5] f32 in the checkpoint, [4, 5] i32 in the model | ");
    const ReadPlan plan = plan_loading(
        saved.manifest, {{"h.0.w", f32, {4, 5}, {}, false}, {"new", f32, {1}, {}, false}},
        {.allow_missing = true});
    CHECK(plan.missing == std::vector<std::string>{"new"});
}

TEST_CASE("a group's shares are every shared block once, in runs") {
    for (std::size_t count = 0; count < 40; ++count) {
        for (int members = 1; members < 9; ++members) {
            std::size_t next = 0;
            for (int member = 0; member < members; ++member) {
                const ShareOfBlocks share = share_of_blocks(count, member, members);
                REQUIRE(share.first == next);
                REQUIRE(share.last - share.first <= share.rounds);
                next = share.last;
            }
            REQUIRE(next == count);
        }
    }
}

TEST_CASE("an error names what lies in the damaged bytes") {
    std::vector<float> values(20);
    const Saved saved =
        save_cut("h.0.w", f32, {4, 5}, reinterpret_cast<std::byte*>(values.data()), {20});
    CHECK(content_at(saved.manifest, 0, 4096 + 8, 4096 + 12) == "tensor h.0.w from element 2");
    CHECK(content_at(saved.manifest, 0, 0, 4096) == "the header");
    CHECK(content_at(saved.manifest, 0, 0, 5000) == "the header, tensor h.0.w from element 0");
}

}  // namespace checkpoint_read_plan_test
