#pragma once
#include "thread_pool.hpp"

#include <cstdint>
#include <span>

namespace gpt {

/// A view of a matrix: element (i, j) is data[i * row_stride + j * column_stride].
template <class T>
struct Matrix {
    T* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 1;

    Matrix(T* first, std::int64_t row_count, std::int64_t column_count)
        : Matrix(first, row_count, column_count, column_count) {}
    Matrix(T* first, std::int64_t row_count, std::int64_t column_count, std::int64_t rows_apart,
           std::int64_t columns_apart = 1)
        : data(first),
          rows(row_count),
          columns(column_count),
          row_stride(rows_apart),
          column_stride(columns_apart) {}

    T& operator()(std::int64_t i, std::int64_t j) const {
        return data[i * row_stride + j * column_stride];
    }
    operator Matrix<const T>() const { return {data, rows, columns, row_stride, column_stride}; }
    Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
    Matrix block(std::int64_t i, std::int64_t j, std::int64_t row_count,
                 std::int64_t column_count) const {
        return {&(*this)(i, j), row_count, column_count, row_stride, column_stride};
    }
};

/// c += a b, in this thread. c's column stride must be 1; it may not overlap a or b.
///
/// The order in which a c(i, j) is summed depends on the depth alone (a.columns), not on the other
/// extents nor on the number of threads: the same rows give the same bits in any batch.
template <class T>
void multiply_add(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c);
/// c = a b, in this thread.
template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c);

// The same, shared out over the pool.
template <class T>
void multiply_add(ThreadPool& pool, const Matrix<const T>& a, const Matrix<const T>& b,
                  const Matrix<T>& c);
/// c = a b + bias in each row; an empty bias is none.
template <class T>
void multiply(ThreadPool& pool, const Matrix<const T>& a, const Matrix<const T>& b,
              std::span<const T> bias, const Matrix<T>& c);

}  // namespace gpt
