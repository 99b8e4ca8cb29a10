#include "shapes.hpp"

#include <fmt/format.h>

#include <array>
#include <random>
#include <set>
#include <utility>

namespace autolaunch::conformance {
namespace {

using Kind = CollectiveKind;
using Row = std::vector<int>;  // a value, by its number, for every property

/// Grows a table of rows until every pair of values of two properties stands in one row.
class PairTable {
public:
    explicit PairTable(std::vector<int> levels) : levels_(std::move(levels)) {
        for (std::size_t a = 0; a < levels_.size(); ++a)
            for (std::size_t b = a + 1; b < levels_.size(); ++b)
                for (int x = 0; x < levels_[a]; ++x)
                    for (int y = 0; y < levels_[b]; ++y)
                        missing_.insert({a, x, b, y});
    }

    std::vector<Row> rows() {
        std::vector<Row> rows;
        while (!missing_.empty())
            rows.push_back(next_row());
        return rows;
    }

private:
    struct Pair {
        std::size_t a;
        int x;
        std::size_t b;
        int y;
        auto operator<=>(const Pair&) const = default;
    };

    // Starts from a missing pair, and gives each other property the value that completes most
    // missing pairs.
    Row next_row() {
        Row row(levels_.size(), -1);
        const Pair first = *missing_.begin();
        row[first.a] = first.x;
        row[first.b] = first.y;
        for (std::size_t property = 0; property < levels_.size(); ++property) {
            if (row[property] != -1)
                continue;
            // Where several are as good, chance spreads them; its seed is fixed.
            const int start =
                static_cast<int>(random_() % static_cast<unsigned>(levels_[property]));
            int best = start, best_gain = -1;
            for (int i = 0; i < levels_[property]; ++i) {
                const int value = (start + i) % levels_[property];
                const int gain = gained(row, property, value);
                if (gain > best_gain)
                    std::tie(best, best_gain) = std::pair(value, gain);
            }
            row[property] = best;
        }
        for (std::size_t a = 0; a < row.size(); ++a)
            for (std::size_t b = a + 1; b < row.size(); ++b)
                missing_.erase({a, row[a], b, row[b]});
        return row;
    }

    int gained(const Row& row, std::size_t property, int value) const {
        int gain = 0;
        for (std::size_t other = 0; other < row.size(); ++other) {
            if (row[other] == -1 || other == property)
                continue;
            gain += missing_.contains(other < property ? Pair{other, row[other], property, value}
                                                       : Pair{property, value, other, row[other]});
        }
        return gain;
    }

    std::vector<int> levels_;
    std::set<Pair> missing_;
    std::mt19937 random_{1};
};

constexpr std::array kReducing = {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter};
constexpr std::array kMoving = {Kind::broadcast, Kind::all_gather, Kind::all_to_all,
                                Kind::gather,    Kind::scatter,    Kind::send};
constexpr int kOps = 6;

// Nothing, one, odd, over a page; and over every backend's piece, where the group is small.
std::array<std::size_t, 5> counts_for(int ranks) {
    const std::size_t longest = ranks <= 3   ? 400'003
                                : ranks <= 5 ? 60'013
                                : ranks <= 8 ? 8'209
                                             : 2'053;
    return {0, 1, 7, ranks <= 8 ? std::size_t{4099} : std::size_t{517}, longest};
}

template <std::size_t kKinds>
void add_pairs(std::vector<Shape>& shapes, const std::array<Kind, kKinds>& kinds, int ops,
               int ranks) {
    const auto counts = counts_for(ranks);
    const std::vector<int> levels = {static_cast<int>(kKinds),
                                     2,
                                     kDataTypes,
                                     ops,
                                     static_cast<int>(counts.size()),
                                     3,
                                     2,
                                     2,
                                     2,
                                     3};
    for (const Row& row : PairTable(levels).rows()) {
        shapes.push_back({.kind = kinds[static_cast<std::size_t>(row[0])],
                          .ragged = row[1] == 1,
                          .type = static_cast<DataType>(row[2]),
                          .op = static_cast<ReduceOp::Kind>(row[3]),
                          .count = counts[static_cast<std::size_t>(row[4])],
                          .root = static_cast<RootChoice>(row[5]),
                          .in_place = row[6] == 1,
                          .shifted = row[7] == 1,
                          .allocated = row[8] == 1,
                          .way = static_cast<Way>(row[9])});
    }
}

}  // namespace

std::string describe(const Shape& shape) {
    constexpr std::array kWays = {"", ", on a queue", ", in a group"};
    constexpr std::array kRoots = {"first", "last", "middle"};
    return fmt::format("{}{} {} {}, {} elements, root {}{}{}{}{}", name_of(shape.kind),
                       shape.ragged ? "_v" : "", name_of(shape.type), name_of(ReduceOp(shape.op)),
                       shape.count, kRoots[static_cast<std::size_t>(shape.root)],
                       shape.in_place ? ", in place" : "", shape.shifted ? ", shifted" : "",
                       shape.allocated ? ", allocated" : "",
                       kWays[static_cast<std::size_t>(shape.way)]);
}

std::vector<Shape> paired_shapes(int ranks) {
    std::vector<Shape> shapes;
    add_pairs(shapes, kReducing, kOps, ranks);
    add_pairs(shapes, kMoving, 1, ranks);
    return shapes;
}

std::vector<Shape> reducing_shapes() {
    std::vector<Shape> shapes;
    for (const Kind kind : kReducing)
        for (int type = 0; type < kDataTypes; ++type)
            for (int op = 0; op < kOps; ++op)
                shapes.push_back({.kind = kind,
                                  .type = static_cast<DataType>(type),
                                  .op = static_cast<ReduceOp::Kind>(op),
                                  .count = 131});
    return shapes;
}

}  // namespace autolaunch::conformance
