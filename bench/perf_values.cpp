#include "perf_values.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace autolaunch::bench {
namespace {

using Kind = ReduceOp::Kind;

/// Which element of which rank's input, of how many ranks.
struct Place {
    int ranks;
    int rank;
    std::uint64_t index;
    std::uint64_t seed;
};

std::uint64_t mix(std::uint64_t word) {  // splitmix64's
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    return word ^ (word >> 31);
}

std::uint64_t of_all_ranks(const Place& at) {
    return mix(at.seed * 0x9e3779b97f4a7c15ull + at.index + 1);
}
std::uint64_t of_rank(const Place& at) {
    return mix(of_all_ranks(at) + 0xd1342543de82ef95ull * (at.rank + 1u));
}

template <class T>
inline constexpr bool kIsFloat = !std::is_integral_v<T>;

/// Whole numbers up to here are exact, and so are their sums as long as they stay below.
template <class T>
constexpr std::int64_t largest_exact() {
    if constexpr (std::is_same_v<T, bfloat16>)
        return 256;
    if constexpr (std::is_same_v<T, float16>)
        return 2048;
    if constexpr (std::is_same_v<T, std::int8_t>)
        return 127;
    if constexpr (std::is_same_v<T, std::uint8_t>)
        return 255;
    return 1 << 24;
}

template <class T>
T element(double value) {
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        return T(static_cast<float>(value));
    } else {
        return static_cast<T>(value);
    }
}

/// One of `ranks` / `most` ranks brings something to an element, another one to the next.
bool contributes(const Place& at, std::int64_t most) {
    const auto turns = static_cast<std::uint64_t>((at.ranks + most - 1) / most);
    return (static_cast<std::uint64_t>(at.rank) + at.index) % turns == 0;
}

std::int64_t signed_below(std::uint64_t random, std::int64_t largest) {
    return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(2 * largest + 1)) -
           largest;
}

template <class T>
double float_input(Kind op, const Place& at) {
    const std::uint64_t random = of_rank(at);
    constexpr std::int64_t kLargest = largest_exact<T>();
    switch (op) {
        case Kind::sum:
        case Kind::pre_multiplied_sum: {
            const std::int64_t most = op == Kind::sum ? kLargest : kLargest / 2;  // a factor of 2
            if (!contributes(at, most))
                return 0;
            return static_cast<double>(
                signed_below(random, std::clamp<std::int64_t>(most / at.ranks, 1, 64)));
        }
        case Kind::prod: {
            // Signs, and powers of two of so few ranks that f16 holds any partial product.
            const int exponent = contributes(at, 12) ? static_cast<int>(random % 3) - 1 : 0;
            return (random & 64 ? -1 : 1) * (exponent < 0 ? 0.5 : exponent + 1.0);
        }
        default:
            return static_cast<double>(random % 256) - 128;
    }
}

/// The average, and what is added to it and taken from it by turns; the last of an odd number
/// brings the average itself.
template <class T>
std::int64_t average(const Place& at) {
    const auto share =
        static_cast<std::uint64_t>(std::min<std::int64_t>(largest_exact<T>() / at.ranks, 1 << 16));
    const std::uint64_t random = of_all_ranks(at);
    const auto value = static_cast<std::int64_t>(random % (share + 1));
    return std::is_unsigned_v<T> || (random >> 60 & 1) == 0 ? value : -value;
}

template <class T>
std::int64_t average_input(const Place& at) {
    const std::int64_t value = average<T>(at);
    if (at.rank + 1 == at.ranks && at.ranks % 2 != 0)
        return value;
    Place pair = at;
    pair.rank = at.rank / 2;
    const std::int64_t magnitude = value < 0 ? -value : value;
    const auto shift =
        static_cast<std::int64_t>(of_rank(pair) % static_cast<std::uint64_t>(magnitude + 1));
    return at.rank % 2 == 0 ? value + shift : value - shift;
}

template <class T>
T input(Kind op, bool reduces, const Place& at) {
    if (reduces && op == Kind::avg)
        return element<T>(static_cast<double>(average_input<T>(at)));
    if constexpr (kIsFloat<T>) {
        return element<T>(float_input<T>(reduces ? op : Kind::max, at));
    } else {
        const std::uint64_t random = of_rank(at);
        return static_cast<T>(
            reduces && op == Kind::prod ? random | 1 : random);  // odd: products never become 0
    }
}

template <class T>
T whole_reduction(Kind op, Place at) {  // of integers
    std::uint64_t total = op == Kind::prod ? 1 : 0;
    T extreme = input<T>(op, true, at);
    for (at.rank = 0; at.rank < at.ranks; ++at.rank) {
        const T next = input<T>(op, true, at);
        const auto bits = static_cast<std::uint64_t>(next);
        if (op == Kind::prod)
            total *= bits;
        else
            total += op == Kind::pre_multiplied_sum && at.rank % 2 != 0 ? 2 * bits : bits;
        extreme = op == Kind::min ? std::min(extreme, next) : std::max(extreme, next);
    }
    return op == Kind::min || op == Kind::max ? extreme : static_cast<T>(total);
}

template <class T>
double float_reduction(Kind op, Place at) {
    double total = op == Kind::prod ? 1 : 0;
    double least = float_input<T>(op, at);
    double largest = least;
    for (at.rank = 0; at.rank < at.ranks; ++at.rank) {
        const double next = float_input<T>(op, at);
        if (op == Kind::prod)
            total *= next;
        else
            total += op == Kind::pre_multiplied_sum && at.rank % 2 != 0 ? 2 * next : next;
        least = std::min(least, next);
        largest = std::max(largest, next);
    }
    return op == Kind::min ? least : op == Kind::max ? largest : total;
}

template <class T>
T reduction(Kind op, const Place& at) {
    if (op == Kind::avg)
        return element<T>(static_cast<double>(average<T>(at)));
    if constexpr (kIsFloat<T>) {
        return element<T>(float_reduction<T>(op, at));
    } else {
        return whole_reduction<T>(op, at);
    }
}

/// Calls call.template operator()<T>() for the C++ type of `type`.
template <class Call>
void with_type(DataType type, const Call& call) {
    switch (type) {
        case DataType::f32:
            return call.template operator()<float>();
        case DataType::f64:
            return call.template operator()<double>();
        case DataType::bf16:
            return call.template operator()<bfloat16>();
        case DataType::f16:
            return call.template operator()<float16>();
        case DataType::i8:
            return call.template operator()<std::int8_t>();
        case DataType::u8:
            return call.template operator()<std::uint8_t>();
        case DataType::i32:
            return call.template operator()<std::int32_t>();
        case DataType::u32:
            return call.template operator()<std::uint32_t>();
        case DataType::i64:
            return call.template operator()<std::int64_t>();
        case DataType::u64:
            return call.template operator()<std::uint64_t>();
    }
}

/// Two periods of make(index).
template <class T, class Make>
std::vector<std::byte> table(const Make& make) {
    std::vector<std::byte> bytes(2 * PerfValues::kPeriod * sizeof(T));
    for (std::size_t i = 0; i < 2 * PerfValues::kPeriod; ++i) {
        const T value = make(static_cast<std::uint64_t>(i % PerfValues::kPeriod));
        std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
}

}  // namespace

PerfValues::PerfValues(DataType type, ReduceOp op, bool reduces, int ranks, std::uint64_t seed)
    : type_(type), op_(op), reduces_(reduces), ranks_(ranks), seed_(seed) {}

ReduceOp PerfValues::op_of(ReduceOp op, int rank) {
    if (op.kind() != Kind::pre_multiplied_sum)
        return op;
    return ReduceOp::pre_multiplied_sum(rank % 2 != 0 ? 2 : 1);
}

const std::vector<std::byte>& PerfValues::period_of(const Origin& origin) const {
    const bool wants_reduction = origin.from == Origin::From::reduction;
    if (wants_reduction ? !reduction_.empty() : input_rank_ == origin.rank)
        return wants_reduction ? reduction_ : input_;
    with_type(type_, [&]<class T>() {
        if (wants_reduction) {
            reduction_ = table<T>([&](std::uint64_t i) {
                return reduction<T>(op_.kind(), {ranks_, 0, i, seed_});
            });
        } else {
            input_ = table<T>([&](std::uint64_t i) {
                return input<T>(op_.kind(), reduces_, {ranks_, origin.rank, i, seed_});
            });
            input_rank_ = origin.rank;
        }
    });
    return wants_reduction ? reduction_ : input_;
}

void PerfValues::write(std::byte* out, const Origin& origin) const {
    const auto& table = period_of(origin);
    const std::size_t width = size_of(type_);
    for (std::size_t done = 0; done < origin.count; done += kPeriod) {
        const std::size_t count = std::min(kPeriod, origin.count - done);
        std::memcpy(out + done * width, table.data() + (origin.first + done) % kPeriod * width,
                    count * width);
    }
}

std::size_t PerfValues::count_wrong(const std::byte* data, const Origin& origin) const {
    const auto& table = period_of(origin);
    const std::size_t width = size_of(type_);
    std::size_t wrong = 0;
    for (std::size_t done = 0; done < origin.count; done += kPeriod) {
        const std::size_t count = std::min(kPeriod, origin.count - done);
        const std::byte* right = table.data() + (origin.first + done) % kPeriod * width;
        const std::byte* found = data + done * width;
        if (std::memcmp(found, right, count * width) == 0)
            continue;
        for (std::size_t i = 0; i < count; ++i)
            wrong += std::memcmp(found + i * width, right + i * width, width) != 0;
    }
    return wrong;
}

}  // namespace autolaunch::bench
