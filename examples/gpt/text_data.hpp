#pragma once
#include "layers.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace gpt {

/// A text to learn, as bytes: the last tenth of each file is held out for validation.
struct TextData {
    std::vector<std::uint8_t> train;
    std::vector<std::uint8_t> validation;
    int file_count = 0;
};

/// Reads a file, or all regular files of a directory. Links are followed, and a file that several
/// names lead to is read once; files come in the order of their real paths. Throws
/// std::runtime_error when there is nothing to read or when either part is shorter than one window
/// of `context` bytes and the byte after it.
TextData load_text(const std::filesystem::path& path, std::int64_t context);

/// Tokens and, for each, the byte that follows.
struct Batch {
    BatchShape shape;
    std::vector<std::uint8_t> tokens;
    std::vector<std::uint8_t> targets;
};

/// A run of samples of a global batch.
struct SampleRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

/// Which samples of the global batch a rank takes: equal parts in rank order, the first ranks one
/// more if they must.
SampleRange samples_of_rank(std::int64_t global_batch, int rank, int world_size);

/// Where a training sample starts, in [0, start_count): a function of its arguments alone. So a
/// global batch is the same on any number of ranks, and a restarted job sees what it would have
/// seen.
std::int64_t sample_start(std::uint64_t seed, std::int64_t step, std::int64_t sample,
                          std::int64_t start_count);

/// The given samples of a step's global batch, each `length` bytes long.
Batch training_batch(std::span<const std::uint8_t> text, std::uint64_t seed, std::int64_t step,
                     const SampleRange& samples, std::int64_t length);
/// Windows `first` … `first + count - 1` of the text cut into windows of `length`, side by side.
Batch window_batch(std::span<const std::uint8_t> text, std::int64_t first, std::int64_t count,
                   std::int64_t length);
std::int64_t window_count(std::span<const std::uint8_t> text, std::int64_t length);

/// Entropy of the distribution of single bytes, in nats: the loss of the best model that sees no
/// context.
double unigram_entropy(std::span<const std::uint8_t> text);

/// The bytes with what a terminal should not get as \xNN; line feeds stay.
std::string printable(std::span<const std::uint8_t> bytes);

}  // namespace gpt
