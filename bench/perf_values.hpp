#pragma once
// Inputs whose results are known exactly, in every type and operation, whatever the order in which
// ranks are reduced.
#include "perf_collectives.hpp"

#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace autolaunch::bench {

/// The inputs of all ranks for one check, and their reduction. Pseudo-random, repeating after
/// kPeriod elements, which is a prime so that no block boundary falls on a repetition. Integers use
/// all their bits, and wrap. Floating-point inputs are whole numbers or powers of two so small that
/// every partial result is exact in the type; from 256 ranks (bf16) on only some ranks bring other
/// values than the neutral one to an element. An average is a whole number, too: ranks bring it,
/// plus and minus the same. Above 127 ranks that leaves zero for an average of int8.
///
/// Pure; same arguments, same values, on every rank.
class PerfValues {
public:
    static constexpr std::size_t kPeriod = 1021;

    /// `reduces` is false where inputs are only moved.
    PerfValues(DataType type, ReduceOp op, bool reduces, int ranks, std::uint64_t seed);

    /// Elements first … first + count of the origin, to `out`.
    void write(std::byte* out, const Origin& origin) const;
    /// How many of `data`'s elements differ by a bit from the origin's.
    std::size_t count_wrong(const std::byte* data, const Origin& origin) const;

    /// What rank r passes as its operation: mulsum's factor is 1 for even ranks, 2 for odd ones.
    static ReduceOp op_of(ReduceOp op, int rank);

private:
    const std::vector<std::byte>& period_of(const Origin& origin) const;

    DataType type_;
    ReduceOp op_;
    bool reduces_;
    int ranks_;
    std::uint64_t seed_;
    // Two periods each, so that one can be read from any place on. Of the inputs, the last rank's
    // that was asked for.
    mutable std::vector<std::byte> input_;
    mutable int input_rank_ = -1;
    mutable std::vector<std::byte> reduction_;
};

}  // namespace autolaunch::bench
