#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/data/staged_files.hpp>
#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Tokens for a language model, from files to the rank that trains on them.
///
/// A data set is a list of files, its shards, sorted by name. Two kinds are read:
/// - llm.c's `.bin`: 256 int32, of which the first three are magic, version and the number of
///   tokens; then the tokens. 20240520, 1: uint16 (GPT-2). 20240801, 7: uint32 (Llama 3).
/// - text: each byte is a token, 0 to 255.
/// All shards of a data set are of one kind. Every header is checked when the reader is made, or,
/// of data that still comes (staged_files.hpp), when its file is there.
namespace autolaunch::data {

/// automatic: `.bin` for files that begin as one, whatever their name; text for others. A file that
/// is named so and does not begin so is an error.
enum class Format { automatic, bin, text };

enum class TokenType : std::uint8_t { u8 = 1, u16 = 2, u32 = 4 };  ///< bytes of a token in its file

/// In which order the windows of an epoch come (the formulas are at TokenReader).
enum class Order {
    sequential,
    shuffled,  ///< the shards in random order, and the windows of each; another one every epoch
};

/// What a window is that would go beyond its shard's end.
enum class Boundary {
    /// The shards are one long text, and a window may lie in two of them or more. Nothing is lost:
    /// the last window begins where it ends with the last token, and repeats what of it the one
    /// before has had.
    join,
    /// No window lies in two shards; the last one of each ends with its last token, as above.
    separate,
    /// As llm.c's loader: no batch lies in two shards, and what of a shard does not fill a global
    /// batch is left out.
    drop_tail,
};

/// How files are read; TokenReader::reading_by() says how they are, and why.
enum class ReadBy {
    /// 1. On a network's file system: page_cache, for what is mapped is SIGBUS when another machine
    ///    cuts the file. 2. In memory already (tmpfs): mapping. 3. The data set takes at most half
    ///    of the memory that is available to this process's cgroup: mapping, for all ranks of the
    ///    node and all epochs but the first then read memory. 4. Shuffled windows of less than
    ///    256 KiB, which a disk cannot read one by one, and no shard takes more than a quarter of
    ///    that memory: mapping, which reads 2 MiB around each once. 5. Else: direct.
    automatic,
    mapping,     ///< mmap(2): the page cache's own pages, without a copy
    direct,      ///< past the page cache (O_DIRECT), many reads at once by io_uring
    page_cache,  ///< the same with a copy out of the page cache
};

struct TokenReaderOptions {
    /// A file; a folder, of which all `.bin` are taken where it has some, else all its files, but
    /// for names with a dot at their begin; or a pattern as a shell has it: `/data/train_*.bin`.
    /// Files in folders below a folder are not taken. Sorted by name, byte by byte. Of files that
    /// still come those count that lie behind links which are no part of a pattern's wildcards.
    std::string data = {};
    Format format = Format::automatic;
    std::int64_t length = 0;        ///< T: tokens of a row's input; its targets are as many
    std::int64_t global_batch = 0;  ///< B: rows of a step, of all ranks together
    int rank = 0;
    int world_size = 1;  ///< at most `global_batch`
    Order order = Order::sequential;
    std::uint64_t seed = 0;  ///< of Order::shuffled
    Boundary boundary = Boundary::join;
    std::int64_t epochs = 0;      ///< after which next() has nothing more; 0: no end
    std::int64_t vocabulary = 0;  ///< a larger token is an error, not another model; 0: not checked
    ReadBy read_by = ReadBy::automatic;
    /// Batches that are read ahead; 0: as many as make 16 MiB, 2 to 1024. Small ones are read
    /// together, up to a quarter of these and up to 1 MiB.
    int prefetch = 0;
    /// How long one waits for a file of data that still comes.
    std::chrono::milliseconds patience = std::chrono::hours(24);
};

/// This rank's rows of one global batch: its rows [first_row, first_row + rows) of the endless
/// list, row by row. Where they lie is good until the reader's next call of a next…() or restore().
struct TokenBatch {
    std::int64_t first_row = 0;    ///< the seed of what is random about a row, such as a masking
    std::int64_t rows = 0;         ///< of this rank; share_batch()'s count
    std::int64_t global_rows = 0;  ///< of all ranks: B, or fewer at the end of the last epoch
    std::int64_t length = 0;
    std::int64_t epoch = 0;                      ///< of the global batch's first row, from 0
    std::span<const std::int32_t> inputs = {};   ///< rows x length
    std::span<const std::int32_t> targets = {};  ///< rows x length; of each input the next token
    double waited_seconds = 0;  ///< for StepReport::input_seconds; also for files that come
};

/// The same as it is in the files: no copy where they are mapped and a row lies in one shard.
/// TokenReaderOptions::vocabulary is not checked.
struct RawBatch {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int64_t global_rows = 0;
    std::int64_t length = 0;
    std::int64_t epoch = 0;
    TokenType type = TokenType::u8;
    std::span<const std::byte* const> starts = {};  ///< of each row
    double waited_seconds = 0;

    /// length + 1 tokens: inputs are all but the last, targets all but the first. Throws
    /// Error{mismatch} where Token is not as wide as the file's.
    template <class Token>
    std::span<const Token> row(std::int64_t i) const {
        return {static_cast<const Token*>(start_of(i, sizeof(Token))),
                static_cast<std::size_t>(length) + 1};
    }

private:
    AUTOLAUNCH_API const void* start_of(std::int64_t row, std::size_t token_bytes) const;
};

/// One file of a data set.
struct TokenShard {
    std::string name;  ///< relative to what the data's path or pattern begins with
    std::filesystem::path path;
    std::uint64_t bytes = 0;
    std::int64_t tokens = 0;
};

/// Which rank reads which tokens at which step.
///
/// Windows. The shards have n_0, n_1, … tokens, N in all, and S_i = n_0 + … + n_(i-1). A window is
/// T + 1 tokens that follow each other. With Boundary::join an epoch has W = ceil((N - 1) / T) of
/// them, and number j begins at token min(j T, N - 1 - T) of all shards joined; it is shard i's
/// where S_i <= j T < S_(i+1). With Boundary::separate shard i has ceil((n_i - 1) / T), which begin
/// at its tokens min(j T, n_i - 1 - T); with Boundary::drop_tail it has B floor((n_i - 1) / (B T)),
/// at j T; W is the sum.
///
/// Rows. Row r of the endless list is window number r mod W of epoch e = floor(r / W), in its
/// order: that of files and tokens, or with Order::shuffled shards p(0), p(1), … where p permutes
/// them by key(seed, e, 0), and of each of them its windows q(0), q(1), … where q permutes them by
/// key(seed, e, 1 + its number). A permutation of n things is a Feistel network over the least
/// 2 h bits that hold n, applied again while the result is >= n: six rounds
/// (left, right) -> (right, left ^ (mix(right ^ k_i) mod 2^h)), where mix is splitmix64's output
/// function and k_i = mix(key + (i + 1) g), g = 0x9e3779b97f4a7c15; and key(a, b, c) =
/// mix(mix(mix(a + g) ^ (b + g)) ^ (c + g)). It needs no list in memory, and no past.
///
/// Steps. Step s (from 0) takes rows [s B, s B + B), also over the end of an epoch; rank r of them
/// what share_batch(B, 0, r, world_size) says. So the global batches are the same on any number of
/// ranks, which may change between any two steps.
///
/// Going on. state() is where the next batch begins, the same on every rank; save it with the
/// checkpoint of the step whose batch was the last (SaveOptions::opaque), and after load_latest()
/// give it to restore(): the next batch is then the one that would have followed.
///
/// Data that still comes (storage.stage_in with `start: streaming`). What will be there is known
/// from the launcher's listing, and rows are the same as if all of it were there. The constructor
/// waits for the first file alone, next…() for what its batch lies in; what is there is given out
/// before. Where a file does not come, Error{closed} says why, and TimeoutError after
/// TokenReaderOptions::patience. state() has no beginning of a file that is not there yet on this
/// rank's node: restore() compares it in those that are known to both, and those that come later
/// when they are there. digest() waits for all of them.
///
/// Files must stay as they are while they are read. That they have their sizes is looked at anew
/// for each batch, and what is short is Error{corrupt} that names the file. Between that look and
/// the use of a mapped batch a file that is cut ends the process by SIGBUS: where that can happen,
/// read by page_cache.
///
/// Owner: one. Threads: one, and one of its own that reads ahead from the first next…() on. Blocks:
/// the constructor while it opens every shard and reads its first 4 KiB, and digest() and the
/// constructor for data that comes; next…() while the kernel
/// reads from the disk, which has no deadline, and for data that comes; the destructor and
/// restore() until reads that were begun are over. Not collective. Throws Error{invalid_argument,
/// corrupt, mismatch} and SystemError, each naming the file; after one of next…() only restore() or
/// another reader goes on.
class AUTOLAUNCH_API TokenReader {
public:
    explicit TokenReader(const TokenReaderOptions& options);
    TokenReader(TokenReader&&) noexcept;
    TokenReader& operator=(TokenReader&&) noexcept;
    ~TokenReader();

    /// This rank's part of the next global batch, in memory of the reader; nothing after `epochs`.
    std::optional<TokenBatch> next() &;
    /// The same in the caller's memory, of which the first rows x length are written; both need
    /// room for rows_of_rank() x length.
    std::optional<TokenBatch> next_into(std::span<std::int32_t> inputs,
                                        std::span<std::int32_t> targets) &;
    /// The same without a conversion.
    std::optional<RawBatch> next_raw() &;

    /// JSON text: format, version, epoch, row (of the epoch), length, order, seed, boundary,
    /// global_batch, digest, and of each file name, bytes and begin (XXH3-64 of its first 4 KiB,
    /// empty of one that is not there yet: version 2 then, else 1): a kilobyte, and 70 bytes a
    /// file.
    std::string state() const;
    /// Goes on from there. Throws Error{corrupt} for a text that is no state, and Error{mismatch}
    /// where the data set has other files, sizes, order or beginnings than it had, naming the first
    /// that differs, or where length, order, seed or boundary are other ones, with which rows would
    /// have other tokens. `global_batch` may be another one but with Boundary::drop_tail, world
    /// size, rank and path always.
    void restore(const std::string& state);

    std::int64_t rows_of_rank() const;    ///< in a whole global batch
    std::int64_t rows_per_epoch() const;  ///< W
    std::int64_t next_row() const;        ///< the global batch's that comes next
    std::int64_t token_count() const;     ///< N
    TokenType token_type() const;
    std::vector<TokenShard> shards() const;
    /// Names in the folder, or that match the pattern, which are not read.
    std::vector<std::string> passed_over() const;
    /// 32 hexadecimal digits, XXH3-128 of names, sizes and beginnings: ranks of one job have the
    /// same.
    std::string digest() const;
    /// For people, how files are read and why: "mapping: …", "O_DIRECT by io_uring: …". It may
    /// change with the first batch, where the file system refuses O_DIRECT only then. Of data that
    /// comes it ends with how many files are still to come.
    std::string reading_by() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::data
