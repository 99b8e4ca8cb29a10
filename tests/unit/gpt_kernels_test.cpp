// The inner loops of examples/gpt on every instruction set this machine can run, and the matrix
// product and thread pool built on them.
#include "gpt/matmul.hpp"
#include "gpt/random.hpp"
#include "gpt/thread_pool.hpp"
#include "gpt/vector_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace gpt_kernels_test {

using namespace gpt;

namespace {

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed, double deviation = 1) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(deviation * normal(random_bits({seed, i})));
    return values;
}

template <class T>
constexpr double kRelative = sizeof(T) == 4 ? 1e-6 : 1e-14;

double true_gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TEST_CASE_TEMPLATE("tile product on every instruction set", T, float, double) {
    for (auto table = usable_vector_kernels<T>(); *table != nullptr; ++table) {
        const auto& kernels = **table;
        INFO(kernels.instruction_set);
        const std::int64_t rows = kernels.tile_rows;
        const std::int64_t columns = kernels.tile_columns;
        const std::int64_t depth = 37;
        const std::int64_t stride = columns + 3;
        const auto a = random_values<T>(depth * rows, 1);
        const auto b = random_values<T>(depth * columns, 2);
        const auto start = random_values<T>(rows * stride, 3);
        auto c = start;
        kernels.multiply_tile(depth, a.data(), b.data(), nullptr, c.data(), stride);
        double worst = 0;
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < stride; ++j) {
                double expected = start[static_cast<std::size_t>(i * stride + j)];
                for (std::int64_t k = 0; k < depth && j < columns; ++k) {
                    expected += static_cast<double>(a[static_cast<std::size_t>(k * rows + i)]) *
                                static_cast<double>(b[static_cast<std::size_t>(k * columns + j)]);
                }
                worst = std::max(
                    worst, std::abs(expected - static_cast<double>(
                                                   c[static_cast<std::size_t>(i * stride + j)])));
            }
        }
        CHECK(worst < 30 * kRelative<T>);

        // From a row of start values instead of what c holds; beyond the tile c stays.
        auto fresh = start;
        kernels.multiply_tile(depth, a.data(), b.data(), start.data(), fresh.data(), stride);
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < stride; ++j) {
                const auto at = static_cast<std::size_t>(i * stride + j);
                const T replaced =
                    j < columns ? start[static_cast<std::size_t>(j)] - start[at] : T(0);
                CHECK(std::abs(double{fresh[at]} - double{c[at]} - double{replaced}) <
                      30 * kRelative<T>);
            }
        }
    }
}

TEST_CASE_TEMPLATE(
    "packing on every instruction set: both directions, a ragged depth, nothing beyond", T, float,
    double) {
    constexpr std::int64_t kStrips = 3, kDepth = 37;
    for (auto table = usable_vector_kernels<T>(); *table != nullptr; ++table) {
        const auto& kernels = **table;
        for (const std::int64_t width :
             {std::int64_t{kernels.tile_rows}, std::int64_t{kernels.tile_columns}}) {
            for (const bool in_runs : {true, false}) {
                INFO(kernels.instruction_set << " width " << width
                                             << (in_runs ? " rows side by side" : " rows apart"));
                const std::int64_t rows = kStrips * width;
                const std::int64_t row_stride = in_runs ? 1 : kDepth + 2,
                                   depth_stride = in_runs ? rows + 5 : 1;
                const auto source = random_values<T>((kDepth + 2) * (rows + 5), 1);
                std::vector<T> packed(static_cast<std::size_t>(rows * kDepth + kPackSlack + 1),
                                      T(-7));
                const auto pack =
                    width == kernels.tile_rows ? kernels.pack_left : kernels.pack_right;
                pack(kStrips, kDepth, source.data(), row_stride, depth_stride, packed.data());
                bool same = true;
                for (std::int64_t strip = 0; strip < kStrips; ++strip)
                    for (std::int64_t k = 0; k < kDepth; ++k)
                        for (std::int64_t i = 0; i < width; ++i)
                            same = same &&
                                   packed[static_cast<std::size_t>((strip * kDepth + k) * width +
                                                                   i)] ==
                                       source[static_cast<std::size_t>(
                                           (strip * width + i) * row_stride + k * depth_stride)];
                CHECK(same);
                CHECK(packed.back() == T(-7));
            }
        }
    }
}

TEST_CASE_TEMPLATE("gelu and softmax on every instruction set", T, float, double) {
    for (auto table = usable_vector_kernels<T>(); *table != nullptr; ++table) {
        const auto& kernels = **table;
        INFO(kernels.instruction_set);
        auto x = random_values<T>(1003, 1, 4);
        x[0] = T(-100);  // exp() overflows there if it is not held back
        x[1] = T(100);
        std::vector<T> y(x.size());
        kernels.gelu(static_cast<std::int64_t>(x.size()), x.data(), y.data());
        double worst = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double expected = true_gelu(static_cast<double>(x[i]));
            worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) /
                                        std::max(1.0, std::abs(expected)));
        }
        CHECK(worst < 2 * kRelative<T>);

        const T scale = T(0.5);
        auto row = x;
        const T log_sum = kernels.softmax(static_cast<std::int64_t>(row.size()), scale, row.data());
        double sum = 0;
        for (const T value : x)
            sum += std::exp(0.5 * (static_cast<double>(value) - 100));
        CHECK(static_cast<double>(log_sum) ==
              doctest::Approx(50 + std::log(sum)).epsilon(kRelative<T>));
        double total = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            total += static_cast<double>(row[i]);
            CHECK(static_cast<double>(row[i]) ==
                  doctest::Approx(std::exp(0.5 * (static_cast<double>(x[i]) - 100)) / sum)
                      .epsilon(4 * kRelative<T>));
        }
        CHECK(total == doctest::Approx(1).epsilon(10 * kRelative<T>));
    }
}

TEST_CASE_TEMPLATE("matrix product: all transpositions, ragged extents, one thread and three", T,
                   float, double) {
    struct Extents {
        std::int64_t rows, columns, depth;
    };
    ThreadPool pool(3);
    // Around the block sizes (168 rows, 512 columns, depth 256), one element, and thin ones.
    for (const Extents e :
         {Extents{1, 1, 1}, {169, 33, 257}, {5, 513, 3}, {64, 64, 64}, {2, 3, 600}}) {
        for (const bool transpose_a : {false, true}) {
            for (const bool transpose_b : {false, true}) {
                const auto a = random_values<T>(e.rows * e.depth, 1);
                const auto b = random_values<T>(e.depth * e.columns, 2);
                const Matrix<const T> left =
                    transpose_a ? Matrix<const T>(a.data(), e.depth, e.rows).transposed()
                                : Matrix<const T>(a.data(), e.rows, e.depth);
                const Matrix<const T> right =
                    transpose_b ? Matrix<const T>(b.data(), e.columns, e.depth).transposed()
                                : Matrix<const T>(b.data(), e.depth, e.columns);
                std::vector<T> c(static_cast<std::size_t>(e.rows * e.columns), T(1));
                auto threaded = c;
                multiply_add<T>(left, right, {c.data(), e.rows, e.columns});
                multiply_add<T>(pool, left, right, {threaded.data(), e.rows, e.columns});
                CHECK(threaded == c);
                // A product is the same as a sum that starts from the bias: here from ones, and
                // from zeros.
                std::vector<T> product(c.size(), T(9));
                const std::vector<T> ones(static_cast<std::size_t>(e.columns), T(1));
                multiply<T>(pool, left, right, ones, {product.data(), e.rows, e.columns});
                CHECK(product == c);
                std::vector<T> alone(c.size(), T(9)), zeros(c.size(), T(0));
                multiply<T>(left, right, {alone.data(), e.rows, e.columns});
                multiply_add<T>(left, right, {zeros.data(), e.rows, e.columns});
                CHECK(alone == zeros);
                double worst = 0;
                for (std::int64_t i = 0; i < e.rows; ++i) {
                    for (std::int64_t j = 0; j < e.columns; ++j) {
                        double expected = 1;
                        for (std::int64_t k = 0; k < e.depth; ++k)
                            expected += double{left(i, k)} * double{right(k, j)};
                        worst = std::max(
                            worst,
                            std::abs(expected -
                                     double{c[static_cast<std::size_t>(i * e.columns + j)]}));
                    }
                }
                INFO(e.rows << "x" << e.columns << "x" << e.depth << " " << transpose_a
                            << transpose_b);
                CHECK(worst < 50 * kRelative<T>);
            }
        }
    }
}

TEST_CASE("the pool covers each element once and hands on an exception") {
    ThreadPool pool(4);
    for (const std::int64_t count : {0, 1, 7, 1000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        pool.parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
            CHECK(begin % 16 == 0);
            for (std::int64_t i = begin; i < end; ++i)
                ++visits[static_cast<std::size_t>(i)];
        });
        CHECK(std::all_of(visits.begin(), visits.end(),
                          [](const auto& visit) { return visit == 1; }));
    }
    const auto failing = [](std::int64_t, std::int64_t end) {
        if (end == 100)
            throw std::runtime_error("last range");
    };
    CHECK_THROWS_WITH(pool.parallel_for(100, 1, failing), "last range");
    std::atomic<int> sum = 0;
    pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
        sum += static_cast<int>(end - begin);
    });
    CHECK(sum == 100);
}

TEST_CASE("threads per rank: OMP_NUM_THREADS, else a fair part of the node") {
    CHECK(choose_thread_count("3", 64, 64, 8) == 3);
    CHECK(choose_thread_count("4,2", 64, 64, 8) == 4);
    CHECK(choose_thread_count("", 64, 64, 8) == 8);
    CHECK(choose_thread_count("", 8, 64, 8) == 8);  // bound already
    CHECK(choose_thread_count("", 2, 2, 8) == 1);
    CHECK(choose_thread_count("none", 1, 64, 0) == 1);
}

}  // namespace gpt_kernels_test
