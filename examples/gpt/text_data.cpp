#include "text_data.hpp"

#include "random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <system_error>

namespace gpt {
namespace {

namespace fs = std::filesystem;

void check(const std::error_code& error, const fs::path& path) {
    if (error)
        throw std::runtime_error("cannot read " + path.string() + ": " + error.message());
}

std::set<fs::path> files_of(const fs::path& path) {
    std::set<fs::path> files;  // sorted, each once
    std::error_code error;
    const auto add = [&](const fs::path& file) {
        files.insert(fs::canonical(file, error));
        check(error, file);
    };
    const bool is_folder = fs::is_directory(path, error);
    check(error, path);
    if (!is_folder) {
        add(path);
        return files;
    }
    for (fs::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code dangling;
        if (fs::is_regular_file(entry->path(), dangling))
            add(entry->path());
    }
    check(error, path);
    return files;
}

std::vector<std::uint8_t> bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(in),
                                    std::istreambuf_iterator<char>()};
    if (in.bad() || !in.is_open())
        throw std::runtime_error("cannot read " + path.string());
    return bytes;
}

void append_window(std::span<const std::uint8_t> text, std::int64_t start, Batch& batch) {
    const auto tokens = text.subspan(static_cast<std::size_t>(start),
                                     static_cast<std::size_t>(batch.shape.length) + 1);
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end() - 1);
    batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
    ++batch.shape.sequences;
}

}  // namespace

TextData load_text(const fs::path& path, std::int64_t context) {
    std::error_code unknown;
    if (!fs::exists(path, unknown) && !unknown)
        throw std::runtime_error("there is no text at " + path.string());
    TextData text;
    for (const auto& file : files_of(path)) {
        const auto bytes = bytes_of(file);
        const auto cut = bytes.end() - static_cast<std::ptrdiff_t>(bytes.size() / 10);
        text.train.insert(text.train.end(), bytes.begin(), cut);
        text.validation.insert(text.validation.end(), cut, bytes.end());
        ++text.file_count;
    }
    const auto least = static_cast<std::size_t>(context) + 1;
    if (text.validation.size() < least || text.train.size() < least) {
        throw std::runtime_error(
            "the text at " + path.string() + " is too short: " + std::to_string(text.train.size()) +
            " bytes to train on and " + std::to_string(text.validation.size()) +
            " held out, where a window takes " + std::to_string(least));
    }
    return text;
}

SampleRange samples_of_rank(std::int64_t global_batch, int rank, int world_size) {
    const std::int64_t share = global_batch / world_size;
    const std::int64_t larger = global_batch % world_size;
    return {rank * share + std::min<std::int64_t>(rank, larger), share + (rank < larger ? 1 : 0)};
}

std::int64_t sample_start(std::uint64_t seed, std::int64_t step, std::int64_t sample,
                          std::int64_t start_count) {
    const auto bits =
        random_bits({seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(sample)});
    return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(start_count));
}

Batch training_batch(std::span<const std::uint8_t> text, std::uint64_t seed, std::int64_t step,
                     const SampleRange& samples, std::int64_t length) {
    Batch batch{{0, length}, {}, {}};
    const std::int64_t start_count = static_cast<std::int64_t>(text.size()) - length;
    for (std::int64_t sample = samples.first; sample < samples.first + samples.count; ++sample) {
        append_window(text, sample_start(seed, step, sample, start_count), batch);
    }
    return batch;
}

Batch window_batch(std::span<const std::uint8_t> text, std::int64_t first, std::int64_t count,
                   std::int64_t length) {
    Batch batch{{0, length}, {}, {}};
    for (std::int64_t window = first; window < first + count; ++window)
        append_window(text, window * length, batch);
    return batch;
}

std::int64_t window_count(std::span<const std::uint8_t> text, std::int64_t length) {
    return (static_cast<std::int64_t>(text.size()) - 1) / length;
}

double unigram_entropy(std::span<const std::uint8_t> text) {
    std::array<double, 256> counts{};
    for (const std::uint8_t byte : text)
        ++counts[byte];
    double entropy = 0;
    for (const double count : counts) {
        const double share = count / static_cast<double>(text.size());
        if (count > 0)
            entropy -= share * std::log(share);
    }
    return entropy;
}

std::string printable(std::span<const std::uint8_t> bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
        if ((byte >= 0x20 && byte < 0x7f && byte != '\\') || byte == '\n') {
            text += static_cast<char>(byte);
        } else if (byte == '\\') {
            text += "\\\\";
        } else {
            text += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
        }
    }
    return text;
}

}  // namespace gpt
