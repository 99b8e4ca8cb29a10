#pragma once
// What a bench measures: ranks that can do a CollectiveCall, however they are joined.
#include "comm/call.hpp"
#include "perf_device.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::bench {

/// Owner: the bench's main(). Threads: one. Blocks: everything that is collective. Errors: Error.
class PerfGroup {
public:
    virtual ~PerfGroup() = default;

    virtual std::string name() const = 0;  ///< the backend's
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual PerfDevice& device() = 0;

    /// Why it cannot do this; empty when it can.
    virtual std::string refusal(DataType, std::optional<ReduceOp>) const { return {}; }
    /// Whether calls return when they are done, so that -z 2 and -C 1 change nothing.
    virtual bool is_synchronous() const = 0;
    /// Memory that is moved best, for -R.
    virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
    virtual std::string allocation_name() const = 0;

    /// Starts them as one operation.
    virtual void start(const std::vector<CollectiveCall>& calls) = 0;
    /// Until finish_batch() all calls are one operation.
    virtual void begin_batch() = 0;
    virtual void finish_batch() = 0;
    virtual void wait() = 0;
    virtual void barrier() = 0;

    virtual double reduce(double value, ReduceOp op) = 0;
    /// Every rank's text, up to 255 bytes of each, in rank order.
    virtual std::vector<std::string> gather(const std::string& text) = 0;
};

}  // namespace autolaunch::bench
