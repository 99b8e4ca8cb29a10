// The text of examples/gpt, the choice of samples, and the random numbers behind them.
#include "gpt/parameters.hpp"
#include "gpt/random.hpp"
#include "gpt/sampling.hpp"
#include "gpt/text_data.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace gpt_data_test {

using namespace gpt;

namespace {

namespace fs = std::filesystem;

/// A directory of its own for each test, removed at its end.
class TemporaryDirectory {
public:
    TemporaryDirectory() {
        std::string name = (fs::temp_directory_path() / "gpt-data-XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() { fs::remove_all(path_); }
    const fs::path& path() const { return path_; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name) << text;
    }

private:
    fs::path path_;
};

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE(
    "a directory is read in the order of real paths, each file once, the last tenth held out") {
    const TemporaryDirectory dir;
    dir.write("b", std::string(18, 'b') + "BB");
    dir.write("c", std::string(9, 'c') + "C");
    fs::create_symlink("b", dir.path() / "a");        // leads to b, which is read once
    fs::create_symlink("nowhere", dir.path() / "d");  // dangling
    fs::create_directory(dir.path() / "e");
    const TextData text = load_text(dir.path(), 2);
    CHECK(text.file_count == 2);
    CHECK(text_of(text.train) == std::string(18, 'b') + std::string(9, 'c'));
    CHECK(text_of(text.validation) == "BBC");
    CHECK(text_of(load_text(dir.path() / "a", 1).train) == std::string(18, 'b'));
}

TEST_CASE("a missing or short text is refused, naming it") {
    const TemporaryDirectory dir;
    dir.write("short", std::string(40, 'x'));
    CHECK_THROWS_WITH_AS(load_text(dir.path() / "gone", 1), doctest::Contains("gone"),
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(load_text(dir.path(), 4), doctest::Contains("4 held out"),
                         std::runtime_error);
    CHECK(load_text(dir.path(), 3).validation.size() == 4);
}

TEST_CASE("ranks share a global batch without gap or overlap") {
    for (const std::int64_t global_batch : {1, 7, 16}) {
        for (const int world_size : {1, 2, 3, 7}) {
            std::int64_t next = 0;
            for (int rank = 0; rank < world_size; ++rank) {
                const auto range = samples_of_rank(global_batch, rank, world_size);
                CHECK(range.first == next);
                CHECK(range.count >= global_batch / world_size);
                CHECK(range.count <= global_batch / world_size + 1);
                next += range.count;
            }
            CHECK(next == global_batch);
        }
    }
}

TEST_CASE(
    "a step's samples are the same however ranks share them, and differ between steps and seeds") {
    std::vector<std::uint8_t> text(5000);
    for (std::size_t i = 0; i < text.size(); ++i)
        text[i] = static_cast<std::uint8_t>(mixed(i));
    const Batch whole = training_batch(text, 3, 17, {0, 8}, 16);
    CHECK(whole.shape.sequences == 8);
    std::vector<std::uint8_t> parts;
    for (int rank = 0; rank < 3; ++rank) {
        const Batch part = training_batch(text, 3, 17, samples_of_rank(8, rank, 3), 16);
        parts.insert(parts.end(), part.tokens.begin(), part.tokens.end());
    }
    CHECK(parts == whole.tokens);
    CHECK(training_batch(text, 3, 18, {0, 8}, 16).tokens != whole.tokens);
    CHECK(training_batch(text, 4, 17, {0, 8}, 16).tokens != whole.tokens);
    for (std::size_t i = 0; i + 1 < 16; ++i)
        CHECK(whole.targets[i] == whole.tokens[i + 1]);
}

TEST_CASE("sample starts cover the text evenly, both ends included") {
    std::vector<int> hits(10);
    for (std::int64_t sample = 0; sample < 10'000; ++sample)
        ++hits[static_cast<std::size_t>(sample_start(1, 1, sample, 10))];
    // Each is binomial with mean 1000 and deviation 30: five deviations are never seen by chance,
    // and the draw is fixed.
    for (const int count : hits)
        CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("windows lie side by side and end before the last byte") {
    const auto text = bytes_of("abcdefghij");
    CHECK(window_count(text, 3) == 3);
    const Batch batch = window_batch(text, 1, 2, 3);
    CHECK(text_of(batch.tokens) == "defghi");
    CHECK(text_of(batch.targets) == "efghij");
    CHECK(window_count(bytes_of("abc"), 3) == 0);
}

TEST_CASE("unigram entropy: a fair coin, four equal bytes, one byte") {
    CHECK(unigram_entropy(bytes_of("abab")) == doctest::Approx(std::log(2.0)));
    CHECK(unigram_entropy(bytes_of("abcd")) == doctest::Approx(std::log(4.0)));
    CHECK(unigram_entropy(bytes_of("aaaa")) == 0);
    CHECK(unigram_entropy(bytes_of("aab")) ==
          doctest::Approx(std::log(3.0) - 2.0 / 3 * std::log(2.0)));
}

TEST_CASE("printable keeps text and line feeds, and escapes the rest") {
    CHECK(printable(bytes_of("a b\n\\\x1b\xff")) == "a b\n\\\\\\x1b\\xff");
}

TEST_CASE(
    "initial values: any cut gives the same tensor; norms are one, biases zero, deviations as "
    "promised") {
    const ModelConfig config;
    std::vector<float> whole(128 * 512);
    initial_values(config, 7, "h.0.mlp.weight", 0, whole);
    std::vector<float> part(100);
    initial_values(config, 7, "h.0.mlp.weight", 1000, part);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + 1000));
    const auto deviation = [&](const std::string& name) {
        std::vector<float> values(128 * 512);
        initial_values(config, 7, name, 0, values);
        double squares = 0;
        double sum = 0;
        for (const float value : values) {
            squares += double{value} * value;
            sum += value;
        }
        CHECK(std::abs(sum / 65536) < 5 * 0.02 / 256);
        return std::sqrt(squares / 65536);
    };
    CHECK(deviation("h.0.mlp.weight") == doctest::Approx(0.02).epsilon(0.02));
    CHECK(deviation("h.0.mlp.out.weight") == doctest::Approx(0.02 / std::sqrt(8.0)).epsilon(0.02));
    std::vector<float> other(whole.size());
    initial_values(config, 7, "h.1.mlp.weight", 0, other);
    CHECK(other != whole);
    initial_values(config, 7, "head.norm.weight", 0, part);
    CHECK(part == std::vector<float>(100, 1.0f));
    initial_values(config, 7, "h.3.norm2.bias", 0, part);
    CHECK(part == std::vector<float>(100, 0.0f));
}

TEST_CASE("every tensor name in the model is unique") {
    std::set<std::string> names;
    std::size_t count = 0;
    for (const auto& unit : unit_shapes({.layers = 3, .heads = 1, .width = 4, .context = 2})) {
        for (const auto& tensor : unit.tensors) {
            names.insert(unit.name + "." + tensor.name);
            ++count;
        }
    }
    CHECK(names.size() == count);
}

TEST_CASE(
    "continue_text follows the distribution: temperature 0 takes the likeliest byte, else chances "
    "count") {
    std::vector<float> logits(
        300, -100.0f);             // a vocabulary beyond the bytes, whose likeliest class is none
    logits['x'] = std::log(3.0f);  // three times as likely as 'y'
    logits['y'] = 0;
    logits[280] = 50;
    std::size_t longest = 0;
    const NextLogits next = [&](std::span<const std::uint8_t> text) {
        longest = std::max(longest, text.size());
        return logits;
    };
    const std::vector<std::uint8_t> prompt = {'p'};
    CHECK(text_of(continue_text(next, 4, prompt, 6, 0, 1)) == "xxxxxx");
    CHECK(longest == 4);
    const auto drawn = text_of(continue_text(next, 4, prompt, 2000, 1, 1));
    const auto xs = static_cast<int>(std::count(drawn.begin(), drawn.end(), 'x'));
    CHECK(xs + std::count(drawn.begin(), drawn.end(), 'y') == 2000);
    CHECK(std::abs(xs - 1500) < 100);  // five deviations
    CHECK(text_of(continue_text(next, 4, prompt, 2000, 1, 1)) == drawn);
    CHECK(text_of(continue_text(next, 4, prompt, 2000, 1, 2)) != drawn);
}

}  // namespace gpt_data_test
