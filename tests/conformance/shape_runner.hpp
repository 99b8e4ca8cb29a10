#pragma once
// Makes the calls that shapes describe, and checks every element and what lies beside it.
#include "shapes.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/comm/device.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace autolaunch::conformance {

/// Elements of one type between two guards; poisoned when made.
class Region {
public:
    /// In `memory`, which has at least bytes_for(count) bytes.
    Region(void* memory, std::size_t count, DataType type, bool shifted);
    static std::size_t bytes_for(std::size_t count, DataType type);

    std::byte* data() const noexcept { return data_; }
    std::byte* at(std::size_t index) const noexcept { return data_ + index * size_of(type_); }
    std::size_t count() const noexcept { return count_; }
    std::span<std::byte> with_guards() const noexcept { return {begin_, end_}; }
    /// Throws when something was written beside the elements.
    void check_guards() const;

private:
    std::byte* begin_;
    std::byte* data_;
    std::byte* end_;
    std::size_t count_;
    DataType type_;
};

/// Owner: a case. Threads: one. Blocks: as the communicator.
class ShapeRunner {
public:
    /// Collective: allocates buffers that fit every shape of `shapes`.
    ShapeRunner(Communicator& comm, const std::vector<Shape>& shapes);
    /// Throws std::runtime_error that says which shape gave what.
    void run(const Shape& shape);

private:
    struct Blocks;
    struct Buffers;

    std::byte* memory(std::vector<std::byte>& own, const CommunicatorBuffer& shared,
                      const Shape& shape) const;
    Buffers lay_out(const Shape& shape, const Blocks& blocks);
    bool is_on_gpu(const Shape& shape) const;
    Buffers upload(Buffers buffers);
    void download(const Buffers& buffers);
    void fill(const Shape& shape, const Blocks& blocks, const Buffers& buffers);
    Work start(const Shape& shape, const Blocks& blocks, const Buffers& buffers, Stream stream);
    void start_ring(const Shape& shape, const Buffers& buffers, Stream stream);
    void call(const Shape& shape, const Blocks& blocks, const Buffers& buffers);
    std::vector<double> wanted(const Shape& shape, const Blocks& blocks, std::size_t count) const;
    void check(const Shape& shape, const Blocks& blocks, const Buffers& buffers);

    Communicator& comm_;
    CpuQueue queue_;
    /// Of this rank alone, where allocate() gives a GPU's memory: copies to and from it.
    std::optional<Communicator> copier_;
    std::size_t longest_bytes_ = 0;
    std::vector<std::byte> own_send_, own_recv_;
    CommunicatorBuffer shared_send_, shared_recv_;
};

}  // namespace autolaunch::conformance
