#include "checkpoint/format/run_boxes.hpp"

namespace autolaunch {

namespace {

class Cutter {
public:
    explicit Cutter(std::span<const std::int64_t> shape)
        : shape_(shape), row_elements_(shape.size(), 1) {
        for (std::size_t d = shape.size(); d-- > 1;)
            row_elements_[d - 1] = row_elements_[d] * shape[d];
    }

    // The elements from `begin` to `end` of the subtensor that `prefix` selects; its first is
    // element `base`.
    void cut(std::vector<std::int64_t>& prefix, std::int64_t base, std::int64_t begin,
             std::int64_t end) {
        const std::int64_t row = row_elements_[prefix.size()];
        std::int64_t first = begin / row;
        const std::int64_t last = end / row, head = begin % row, tail = end % row;
        if (head != 0) {
            const bool one_row = first == last;
            cut_row(prefix, base, first, head, one_row ? tail : row);
            if (one_row)
                return;
            ++first;
        }
        if (first < last)
            emit(prefix, base, first, last);
        if (tail != 0)
            cut_row(prefix, base, last, 0, tail);
    }

    std::vector<RunBox> boxes;

private:
    void cut_row(std::vector<std::int64_t>& prefix, std::int64_t base, std::int64_t index,
                 std::int64_t begin, std::int64_t end) {
        const std::int64_t row_base = base + index * row_elements_[prefix.size()];
        prefix.push_back(index);
        cut(prefix, row_base, begin, end);
        prefix.pop_back();
    }

    void emit(const std::vector<std::int64_t>& prefix, std::int64_t base, std::int64_t first,
              std::int64_t last) {
        const std::size_t dimension = prefix.size();
        const std::int64_t row = row_elements_[dimension];
        RunBox box{prefix, std::vector<std::int64_t>(dimension, 1), base + first * row,
                   (last - first) * row};
        box.begin.push_back(first);
        box.shape.push_back(last - first);
        for (std::size_t d = dimension + 1; d < shape_.size(); ++d) {
            box.begin.push_back(0);
            box.shape.push_back(shape_[d]);
        }
        boxes.push_back(std::move(box));
    }

    std::span<const std::int64_t> shape_;
    std::vector<std::int64_t> row_elements_;  // elements of one index of each dimension
};

}  // namespace

std::vector<RunBox> boxes_of_run(std::span<const std::int64_t> shape, std::int64_t offset,
                                 std::int64_t count) {
    if (shape.empty())
        return {{{}, {}, 0, 1}};
    Cutter cutter(shape);
    std::vector<std::int64_t> prefix;
    cutter.cut(prefix, 0, offset, offset + count);
    return std::move(cutter.boxes);
}

}  // namespace autolaunch
