#include "base/hash.hpp"
#include "data/choose_reading.hpp"
#include "data/convert.hpp"
#include "data/data_set.hpp"
#include "data/read_ahead.hpp"
#include "data/reader_state.hpp"
#include "data/row_list.hpp"
#include "data/token_header.hpp"

#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session/batch.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <utility>

namespace autolaunch::data {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kAheadBytes = 16 << 20;
constexpr std::int64_t kGroupBytes = 1 << 20;  // of batches that are read together

void require_between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
        throw Error(ErrorCode::invalid_argument,
                    "TokenReaderOptions::" + std::string(name) + " is " + std::to_string(value) +
                        ", and may be " + std::to_string(least) + " to " + std::to_string(most));
}

const TokenReaderOptions& checked(const TokenReaderOptions& options) {
    require_between("length", options.length, 1, kMost);
    require_between("global_batch", options.global_batch, 1, kMost);
    require_between("epochs", options.epochs, 0, kMost);
    require_between("vocabulary", options.vocabulary, 0, kMost);
    require_between("prefetch", options.prefetch, 0, 1024);
    return options;
}

ReadingFacts facts_of(const DataSet& set, Order order, std::int64_t length) {
    ReadingFacts facts = reading_facts(set.shards.front().path);
    for (const TokenShard& shard : set.shards) {
        facts.data_bytes += shard.bytes;
        facts.largest_shard = std::max(facts.largest_shard, shard.bytes);
    }
    if (order == Order::shuffled)
        facts.random_bytes =
            static_cast<std::uint64_t>(length) * static_cast<std::uint64_t>(set.type);
    return facts;
}

}  // namespace

const void* RawBatch::start_of(std::int64_t row, std::size_t token_bytes) const {
    if (token_bytes != static_cast<std::size_t>(type))
        throw Error(
            ErrorCode::mismatch,
            "the files' tokens have " + width_of(type) + ", not " + std::to_string(token_bytes),
            "take std::uint8_t, std::uint16_t or std::uint32_t by RawBatch::type");
    if (row < 0 || row >= rows)
        throw Error(ErrorCode::invalid_argument, "row " + std::to_string(row) + " of a batch of " +
                                                     std::to_string(rows) + " rows");
    return starts[static_cast<std::size_t>(row)];
}

class TokenReader::Impl {
public:
    explicit Impl(const TokenReaderOptions& options)
        : options_(checked(options)),
          share_(share_batch(options.global_batch, 0, options.rank, options.world_size)),
          set_(open_data_set(options.data, options.format, options.patience)),
          rows_(Windows(set_.shards, options.length, options.global_batch, options.boundary),
                options.order, options.seed),
          reading_(choose_reading(options.read_by, facts_of(set_, options.order, options.length))) {
        (void)state();  // that there can be one is found out now
        begin_at(0);
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    const BatchPlace* advance(double& waited) {
        if (failure_)
            std::rethrow_exception(failure_);
        if (!group_ || ++place_ == group_->batches.size()) {
            const auto begin = std::chrono::steady_clock::now();
            group_ = nullptr;
            place_ = 0;
            group_ = ahead_->next();
            waited =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        }
        if (!group_)
            return nullptr;
        check_files();
        const BatchPlace& batch = group_->batches[place_];
        next_row_ = batch.global_first + batch.global_rows;
        return &batch;
    }

    std::optional<TokenBatch> next() {
        const auto room = static_cast<std::size_t>(share_.count * options_.length);
        inputs_.resize(room);
        targets_.resize(room);
        return next_into(inputs_, targets_);
    }

    std::optional<TokenBatch> next_into(std::span<std::int32_t> inputs,
                                        std::span<std::int32_t> targets) {
        const auto room = static_cast<std::size_t>(share_.count * options_.length);
        if (inputs.size() < room || targets.size() < room)
            throw Error(ErrorCode::invalid_argument,
                        "room for " + std::to_string(inputs.size()) + " inputs and " +
                            std::to_string(targets.size()) + " targets, and a batch has " +
                            std::to_string(share_.count) + " rows of " +
                            std::to_string(options_.length));
        double waited = 0;
        const BatchPlace* batch = advance(waited);
        if (!batch)
            return std::nullopt;
        try {
            for (std::int64_t row = 0; row < batch->rows; ++row)
                convert_row(*batch, row, inputs.data() + row * options_.length,
                            targets.data() + row * options_.length);
        } catch (...) {
            failure_ = std::current_exception();
            throw;
        }
        const auto tokens = static_cast<std::size_t>(batch->rows * options_.length);
        return TokenBatch{batch->first_row,      batch->rows,  batch->global_rows,
                          options_.length,       batch->epoch, inputs.first(tokens),
                          targets.first(tokens), waited};
    }

    std::optional<RawBatch> next_raw() {
        double waited = 0;
        const BatchPlace* batch = advance(waited);
        if (!batch)
            return std::nullopt;
        RawBatch raw;
        raw.first_row = batch->first_row;
        raw.rows = batch->rows;
        raw.global_rows = batch->global_rows;
        raw.length = options_.length;
        raw.epoch = batch->epoch;
        raw.type = set_.type;
        raw.starts = std::span(group_->memory.starts)
                         .subspan(batch->first, static_cast<std::size_t>(batch->rows));
        raw.waited_seconds = waited;
        return raw;
    }

    std::string state() const { return to_text(current_state()); }

    void restore(const std::string& text) {
        const ReaderState then = reader_state_from(text);
        check_goes_on(then, current_state());
        const std::int64_t rows = rows_.rows_per_epoch();
        if (then.row >= rows || then.epoch > (std::numeric_limits<std::int64_t>::max() / 2) / rows)
            throw Error(ErrorCode::corrupt, "this is no state of a reader of tokens: row " +
                                                std::to_string(then.row) + " of epoch " +
                                                std::to_string(then.epoch) + ", and an epoch has " +
                                                std::to_string(rows));
        for (std::size_t shard = 0; shard < then.beginnings.size(); ++shard)
            if (then.beginnings[shard])
                set_.arrivals->expect(shard, *then.beginnings[shard]);
        begin_at(then.epoch * rows + then.row);
    }

    const TokenReaderOptions& options() const { return options_; }
    const BatchShare& share() const { return share_; }
    const DataSet& set() const { return set_; }
    std::int64_t rows_per_epoch() const { return rows_.rows_per_epoch(); }
    std::int64_t next_row() const { return next_row_; }
    std::string reading_by() const {
        const std::size_t left = set_.arrivals->still_to_come();
        return ahead_->words() + ": " + reading_.why +
               (left == 0 ? ""
                          : "; " + std::to_string(left) + " of " +
                                std::to_string(set_.shards.size()) + " files are still to come");
    }

private:
    ReaderState current_state() const {
        ReaderState state;
        state.epoch = next_row_ / rows_.rows_per_epoch();
        state.row = next_row_ % rows_.rows_per_epoch();
        state.length = options_.length;
        state.global_batch = options_.global_batch;
        state.order = options_.order;
        state.seed = options_.seed;
        state.boundary = options_.boundary;
        state.shards = set_.shards;
        state.beginnings = set_.beginnings();
        state.digest = digest_of(set_.shards, state.beginnings);
        return state;
    }

    // It may be long since they were read ahead.
    void check_files() {
        try {
            for (const auto& shard : group_->memory.held)
                shard->check();
        } catch (...) {
            failure_ = std::current_exception();
            throw;
        }
    }

    void begin_at(std::int64_t row);
    std::int64_t bytes_of_batch() const {
        return share_.count * (options_.length + 1) * static_cast<std::int64_t>(set_.type);
    }
    std::int64_t batches_ahead() const;
    std::int64_t batches_together() const;
    std::function<bool(BatchGroup&)> plan_from(std::int64_t row) const;
    void convert_row(const BatchPlace& batch, std::int64_t row, std::int32_t* inputs,
                     std::int32_t* targets) const;
    [[noreturn]] void refuse_token(std::int64_t row, const std::int32_t* inputs,
                                   const std::int32_t* targets) const;

    TokenReaderOptions options_;
    BatchShare share_;
    DataSet set_;
    RowList rows_;  // nobody's state: the thread has one of its own
    Reading reading_;
    std::int64_t next_row_ = 0;
    std::vector<std::int32_t> inputs_, targets_;
    std::exception_ptr failure_;        // of a batch that was read and is none
    std::unique_ptr<ReadAhead> ahead_;  // last but for what it owns: it uses the set
    const BatchGroup* group_ = nullptr;
    std::size_t place_ = 0;  // in the group, of the batch that was given out last
};

std::int64_t TokenReader::Impl::batches_ahead() const {
    if (options_.prefetch > 0)
        return options_.prefetch;
    return std::clamp<std::int64_t>(kAheadBytes / bytes_of_batch(), 2, 1024);
}

std::int64_t TokenReader::Impl::batches_together() const {
    return std::clamp<std::int64_t>(kGroupBytes / bytes_of_batch(), 1,
                                    std::max<std::int64_t>(1, batches_ahead() / 4));
}

std::function<bool(BatchGroup&)> TokenReader::Impl::plan_from(std::int64_t row) const {
    const std::int64_t end = options_.epochs > 0 ? options_.epochs * rows_.rows_per_epoch()
                                                 : std::numeric_limits<std::int64_t>::max() - kMost;
    return [this, row, end, rows = rows_](BatchGroup& group) mutable {
        // Of files that still come one batch alone: none waits for another one's.
        const std::int64_t most = set_.arrivals->is_complete() ? batches_together() : 1;
        for (std::int64_t i = 0; i < most && row < end; ++i) {
            BatchPlace batch;
            batch.global_first = row;
            batch.global_rows = std::min(options_.global_batch, end - row);
            batch.epoch = row / rows.rows_per_epoch();
            batch.first_row = row + share_.first;
            batch.rows =
                std::clamp<std::int64_t>(batch.global_rows - share_.first, 0, share_.count);
            batch.first = group.memory.plan.rows();
            plan_reads(group.memory.plan, rows, batch.first_row, batch.rows, set_.header_bytes,
                       static_cast<std::uint64_t>(set_.type));
            group.batches.push_back(batch);
            row += batch.global_rows;
        }
        return !group.batches.empty();
    };
}

void TokenReader::Impl::begin_at(std::int64_t row) {
    ahead_.reset();
    group_ = nullptr;
    failure_ = nullptr;
    next_row_ = row;
    auto source = reading_.by == ReadBy::mapping
                      ? make_mapped_source(set_)
                      : make_queued_source(set_, reading_.by == ReadBy::direct);
    const std::int64_t depth = (batches_ahead() + batches_together() - 1) / batches_together();
    ahead_ =
        std::make_unique<ReadAhead>(std::move(source), plan_from(row), static_cast<int>(depth));
}

void TokenReader::Impl::convert_row(const BatchPlace& batch, std::int64_t row, std::int32_t* inputs,
                                    std::int32_t* targets) const {
    // What an int32 cannot hold is no token, whatever the vocabulary.
    std::uint64_t limit = set_.type == TokenType::u32 ? std::uint64_t{1} << 31 : kNoLimit;
    if (options_.vocabulary > 0)
        limit = static_cast<std::uint64_t>(options_.vocabulary);
    if (!convert(group_->memory.starts[batch.first + static_cast<std::size_t>(row)], set_.type,
                 options_.length, inputs, targets, limit))
        refuse_token(batch.first_row + row, inputs, targets);
}

void TokenReader::Impl::refuse_token(std::int64_t row, const std::int32_t* inputs,
                                     const std::int32_t* targets) const {
    const std::int64_t most = options_.vocabulary > 0 ? options_.vocabulary : kMost;
    const auto is_wrong = [&](std::int32_t token) { return token < 0 || token >= most; };
    std::int64_t at = 0;
    while (at < options_.length && !is_wrong(at == 0 ? inputs[0] : targets[at - 1]))
        ++at;
    const auto token = static_cast<std::uint32_t>(at == 0 ? inputs[0] : targets[at - 1]);
    RowList rows = rows_;
    std::vector<Piece> pieces;
    rows.find(row, pieces);
    std::size_t piece = 0;
    for (; piece + 1 < pieces.size() && at >= pieces[piece].count; ++piece)
        at -= pieces[piece].count;
    throw Error(ErrorCode::corrupt,
                set_.shards[pieces[piece].shard].path.string() + ": token " +
                    std::to_string(pieces[piece].first + at) + " is " + std::to_string(token) +
                    ", and the vocabulary has " + std::to_string(most),
                "the file is of another tokenizer, or damaged");
}

TokenReader::TokenReader(const TokenReaderOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
TokenReader::TokenReader(TokenReader&&) noexcept = default;
TokenReader& TokenReader::operator=(TokenReader&&) noexcept = default;
TokenReader::~TokenReader() = default;

std::optional<TokenBatch> TokenReader::next() & { return impl_->next(); }
std::optional<TokenBatch> TokenReader::next_into(std::span<std::int32_t> inputs,
                                                 std::span<std::int32_t> targets) & {
    return impl_->next_into(inputs, targets);
}
std::optional<RawBatch> TokenReader::next_raw() & { return impl_->next_raw(); }
std::string TokenReader::state() const { return impl_->state(); }
void TokenReader::restore(const std::string& state) { impl_->restore(state); }
std::int64_t TokenReader::rows_of_rank() const { return impl_->share().count; }
std::int64_t TokenReader::rows_per_epoch() const { return impl_->rows_per_epoch(); }
std::int64_t TokenReader::next_row() const { return impl_->next_row(); }
std::int64_t TokenReader::token_count() const {
    std::int64_t tokens = 0;
    for (const TokenShard& shard : impl_->set().shards)
        tokens += shard.tokens;
    return tokens;
}
TokenType TokenReader::token_type() const { return impl_->set().type; }
std::vector<TokenShard> TokenReader::shards() const { return impl_->set().shards; }
std::vector<std::string> TokenReader::passed_over() const { return impl_->set().passed_over; }
std::string TokenReader::digest() const { return hex128(impl_->set().digest()); }
std::string TokenReader::reading_by() const { return impl_->reading_by(); }

}  // namespace autolaunch::data
