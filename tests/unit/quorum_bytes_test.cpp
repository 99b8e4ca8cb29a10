#include "quorum/quorum_bytes.hpp"
#include "quorum/witness.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace quorum_bytes_test {

using namespace autolaunch::launcher;
using namespace autolaunch::launcher::succession;

namespace {

RecordPointer sample_record() {
    auto record = std::make_shared<GenerationRecord>();
    record->generation = 4;
    record->last = {{{0, 7}, {1, 8}, {2, 9}}, 0, false, -1};
    record->now = {{{1, 8}, {2, 9}}, 1, true, 4};
    record->nodes = {{"node0", 2, ""}, {"node1", 2, "10.0.0.2:40123"}, {"node2", 2, "fe80::2:9"}};
    record->ranks_per_node = {0, 2, 2};
    record->order = {2, 1};
    record->history.run_id = "4711";
    record->history.ends.push_back({.generation = 3, .at = {}, .signature = "lost", .step = 12});
    record->gone = {0};
    record->kept = {1};
    record->unfit = {{"node0", "2 generations ended there"}};
    record->checkpoint_step = 10;
    record->input_spent = true;
    record->restarts = 2;
    record->began_ms = 1'700'000'000'000;
    record->exit_code = 75;
    return record;
}

std::vector<Message> sample_words() {
    const Voter from{1, 8}, to{2, 0};
    const Term term{3, 1};
    return {{from, to, Ask{term}},
            {from, to, Vote{term, true, {4, 2}, {{2, 0}, sample_record()}, 3, Moment(99)}},
            {from, to, Vote{term, false, {4, 2}, {}, -1, Moment(1)}},
            {from, to, Propose{term, sample_record()}},
            {from, to, Answer{term, 4, true, term, Moment(100)}},
            {from, to, Begin{term, sample_record()}},
            {from, to, Beat{term, 4, Moment(1'000'000), Moment(77), Duration(5)}},
            {from, to, Heard{term, term, 4, Moment(7), Moment(8)}}};
}

}  // namespace

TEST_CASE("every word on succession comes back as it was") {
    for (const Message& word : sample_words()) {
        const std::string bytes = encode_succession(word);
        const Message back = decode_succession(bytes);
        CHECK(back.from == word.from);
        CHECK(back.to == word.to);
        CHECK(back.what.index() == word.what.index());
        CHECK(encode_succession(back) == bytes);
    }
    const Message begin = decode_succession(encode_succession(sample_words()[5]));
    CHECK(*std::get<Begin>(begin.what).record == *sample_record());
}

TEST_CASE("bytes that are missing or too many, and records that do not fit together, are refused") {
    for (const Message& word : sample_words()) {
        const std::string bytes = encode_succession(word);
        for (std::size_t length = 0; length < bytes.size(); ++length)
            CHECK_THROWS_AS(decode_succession(bytes.substr(0, length)), autolaunch::Error);
        CHECK_THROWS_AS(decode_succession(bytes + "x"), autolaunch::Error);
    }
    const auto refused = [](const GenerationRecord& record) {
        const auto shared = std::make_shared<const GenerationRecord>(record);
        CHECK_THROWS_AS(
            decode_succession(encode_succession({{0, 7}, {1, 8}, Propose{{1, 0}, shared}})),
            autolaunch::Error);
    };
    GenerationRecord unordered = *sample_record(), unknown = unordered, many = unordered;
    std::swap(unordered.now.voters[0], unordered.now.voters[1]);
    refused(unordered);
    unknown.gone = {3};
    refused(unknown);
    many.ranks_per_node = {2, 2, 2, 2};
    refused(many);
    const std::string without = encode_succession({{0, 7}, {1, 8}, Propose{{1, 0}, nullptr}});
    CHECK_THROWS_AS(decode_succession(without), autolaunch::Error);
}

TEST_CASE("of two nodes with one folder one alone has the witness, and keeps it") {
    namespace fs = std::filesystem;
    const fs::path folder =
        fs::temp_directory_path() / ("autolaunch-witness-" + std::to_string(::getpid()));
    fs::create_directories(folder);
    {
        Witness one(folder, 7), other(folder, 8);
        one.enter();
        CHECK_FALSE(one.shares_folder_with(8));
        other.enter();
        CHECK(one.shares_folder_with(8));
        CHECK_FALSE(one.shares_folder_with(9));
        CHECK(one.claim(99, 3));
        CHECK_FALSE(other.claim(99, 3));
        CHECK(one.claim(99, 3));
        CHECK(other.claim(99, 4));  // of other voters
        CHECK_FALSE(one.claim(99, 4));
    }
    fs::remove_all(folder);
}

}  // namespace quorum_bytes_test
