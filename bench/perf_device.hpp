#pragma once
// Where the buffers of a bench are and what its calls are put on: the host, or a GPU and its
// stream.
#include <autolaunch/comm/device.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace autolaunch::bench {

/// Owner: the group that works on it. Threads: one. Blocks: wait(), and whatever it says of itself.
class PerfDevice {
public:
    virtual ~PerfDevice() = default;

    /// As it stands after "device" in the list of ranks: "0 [cpus 0-3]".
    virtual std::string description() const = 0;
    /// Blocks of ranks begin at multiples of so many bytes: nccl-tests' 16 on a GPU.
    virtual std::size_t block_alignment() const = 0;
    virtual Stream stream() const = 0;

    /// Zeroed and present, so that no page is faulted in while time is taken. Throws std::bad_alloc
    /// or Error.
    virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
    virtual void write(void* to, const void* from_host, std::size_t bytes) = 0;
    virtual void read(void* to_host, const void* from, std::size_t bytes) = 0;
    virtual void set(void* to, unsigned char value, std::size_t bytes) = 0;
    /// In order with the calls on the stream.
    virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
    virtual void wait() = 0;

    /// -G: what is put on the stream between begin and end makes a graph, which is launched later.
    /// Only for devices with a stream.
    virtual void begin_graph() {}
    virtual void end_graph() {}
    virtual void launch_graph() {}
};

class HostDevice final : public PerfDevice {
public:
    explicit HostDevice(int local_rank) : local_rank_(local_rank) {}

    std::string description() const override;
    std::size_t block_alignment() const override { return 1; }
    Stream stream() const override { return {}; }
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    void write(void* to, const void* from_host, std::size_t bytes) override;
    void read(void* to_host, const void* from, std::size_t bytes) override;
    void set(void* to, unsigned char value, std::size_t bytes) override;
    void copy(void* to, const void* from, std::size_t bytes) override;
    void wait() override {}

private:
    int local_rank_;
};

}  // namespace autolaunch::bench
