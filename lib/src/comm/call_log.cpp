#include "comm/call_log.hpp"

#include "comm/work_state.hpp"

#include <autolaunch/error.hpp>

#include <exception>
#include <mutex>
#include <utility>

namespace autolaunch {
namespace {

// The recorder's numbers are a format (docs/flight-recorder.md); they are the library's own.
constexpr bool same(flight::Kind recorded, CollectiveKind kind) {
    return static_cast<int>(recorded) == static_cast<int>(kind);
}
static_assert(same(flight::Kind::all_reduce, CollectiveKind::all_reduce) &&
              same(flight::Kind::all_to_all, CollectiveKind::all_to_all) &&
              same(flight::Kind::send, CollectiveKind::send) &&
              same(flight::Kind::recv, CollectiveKind::recv));
static_assert(flight::kTypeNames.size() == kDataTypes);
static_assert(flight::kTypeNames[static_cast<std::size_t>(DataType::f16)] == "f16" &&
              flight::kTypeNames[static_cast<std::size_t>(DataType::u64)] == "u64");
static_assert(flight::kOpNames[static_cast<std::size_t>(ReduceOp::Kind::prod)] == "prod");

std::string with_calls(const Error& error, const FlightRing& ring) {
    const std::string calls = ring.describe_last();
    return calls.empty() ? error.what()
                         : std::string(error.what()) + "; this rank's last calls in " +
                               ring.name() + ", newest first: " + calls;
}

class RecordedWork final : public Work::State {
public:
    RecordedWork(Work work, std::shared_ptr<FlightRing> ring,
                 std::vector<FlightRing::Entry> entries)
        : work_(std::move(work)), ring_(std::move(ring)), entries_(std::move(entries)) {}

    bool is_completed() const override {
        if (!work_.is_completed())
            return false;
        try {
            Work(work_).wait();
            end(false);
        } catch (...) {
            end(true);
        }
        return true;
    }
    void wait() override {
        try {
            work_.wait();
        } catch (...) {
            fail();
        }
        end(false);
    }
    bool wait_for(std::chrono::nanoseconds timeout) override {
        try {
            if (!work_.wait_for(timeout))
                return false;
        } catch (...) {
            fail();
        }
        end(false);
        return true;
    }

private:
    [[noreturn]] void fail() {
        end(true);
        rethrow_with_calls(*ring_);
    }
    void end(bool failed) const {
        const std::scoped_lock lock(mutex_);
        for (auto& entry : entries_)
            ring_->end(entry, failed);
        entries_.clear();
    }

    Work work_;
    const std::shared_ptr<FlightRing> ring_;
    mutable std::mutex mutex_;
    mutable std::vector<FlightRing::Entry> entries_;
};

}  // namespace

FlightCall flight_call(const CollectiveCall& call, DeviceType device) noexcept {
    const auto kind = static_cast<flight::Kind>(call.kind);
    return {
        .kind = kind,
        .op = flight::reduces(kind) ? static_cast<std::uint8_t>(call.op.kind()) : std::uint8_t{0},
        .type = static_cast<std::uint8_t>(call.type),
        .flags = device == DeviceType::cpu ? std::uint8_t{0} : flight::kOnDevice,
        .root = call.root,
        .bytes = bytes_of(call)};
}

void rethrow_with_calls(const FlightRing& ring) {
    try {
        throw;
    } catch (const TimeoutError& error) {
        throw TimeoutError(with_calls(error, ring), error.hint());
    } catch (const Error& error) {
        if (error.code() != ErrorCode::mismatch)
            throw;
        throw Error(ErrorCode::mismatch, with_calls(error, ring), error.hint());
    }
}

Work record_end(Work work, std::shared_ptr<FlightRing> ring,
                std::vector<FlightRing::Entry> entries) {
    return Work(
        std::make_shared<RecordedWork>(std::move(work), std::move(ring), std::move(entries)));
}

}  // namespace autolaunch
