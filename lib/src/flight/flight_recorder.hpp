#pragma once
#include "base/unique_fd.hpp"
#include "flight/flight_clock.hpp"
#include "flight/flight_ring.hpp"

#include <autolaunch/export.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace autolaunch {

/// What a call is, for the recorder.
struct FlightCall {
    flight::Kind kind = flight::Kind::barrier;
    std::uint8_t op = 0, type = 0;  ///< as the library numbers them; 0 where the kind has none
    std::uint8_t flags = 0;
    std::int32_t root = -1;
    std::uint64_t bytes = 0;
};

/// The memory of one rank's flight recorder (docs/flight-recorder.md): a ring of calls for each of
/// its groups. It is a memory file of fixed size, so that the agent, which is given its descriptor,
/// can read it after the rank's death.
///
/// Owner: Session and the groups' FlightRings. Threads: any. Blocks: never.
class AUTOLAUNCH_API FlightRecorder {
public:
    /// In a sealed memory file; in private memory where the system has none. Throws SystemError
    /// without memory.
    static std::shared_ptr<FlightRecorder> create(int rank, int generation);
    FlightRecorder(const FlightRecorder&) = delete;
    FlightRecorder& operator=(const FlightRecorder&) = delete;
    ~FlightRecorder();

    /// "world" for the first communicator of all ranks, then "world#2", …: all ranks make them in
    /// the same order.
    std::string name_world();
    /// The memory file; empty where there is none.
    const UniqueFd& file() const noexcept { return file_; }
    const flight::Word* memory() const noexcept { return memory_; }
    flight::Clock clock() const noexcept { return clock_; }

private:
    friend class FlightRing;
    FlightRecorder(UniqueFd file, void* memory, int rank, int generation);
    flight::Word* take_ring();  // null: all are in use
    void give_back(flight::Word* ring);

    UniqueFd file_;
    flight::Word* memory_;
    flight::Clock clock_;
    std::mutex mutex_;
    int worlds_ = 0;
};

/// One group's ring, and the only writer of it: a few plain stores a call, no locks, no allocation.
/// Whoever finishes a call writes after whoever started it; a call that is not over keeps its place
/// when the ring comes round.
///
/// Owner: the group's CallLog. Threads: enqueue() and set_label() one at a time; start() and end()
/// of an entry one at a time, after its enqueue(). Blocks: never.
class AUTOLAUNCH_API FlightRing {
public:
    /// An entry and the version it had; null: the call is not recorded.
    struct Entry {
        flight::Word* words = nullptr;
        flight::Word version = 0;
        bool on_device = false;
    };

    FlightRing() = default;  ///< records nothing
    /// `name` is the same on all ranks of the group, and so is what identifies it: all of the name,
    /// not only what is kept of it.
    FlightRing(std::shared_ptr<FlightRecorder> recorder, std::string_view name, int rank, int size,
               std::string_view backend);
    FlightRing(FlightRing&& other) noexcept;
    FlightRing& operator=(FlightRing&& other) noexcept;
    ~FlightRing();

    /// Of the calls from here on; cut at kTextBytes.
    void set_label(std::string_view label) noexcept;
    std::string_view label() const noexcept {
        return {reinterpret_cast<const char*>(label_), label_bytes_};
    }

    /// `started`: the backend begins at once.
    Entry enqueue(const FlightCall& call, bool started) noexcept;
    void start(Entry& entry) noexcept;
    void end(Entry& entry, bool failed) noexcept;

    bool records() const noexcept { return ring_ != nullptr; }
    const std::shared_ptr<FlightRecorder>& recorder() const noexcept { return recorder_; }
    const std::string& name() const noexcept { return name_; }
    /// The newest calls in a sentence, for error messages; "" where nothing was recorded.
    std::string describe_last() const;

private:
    bool claim(flight::Word* entry, flight::Word writing) noexcept;

    std::shared_ptr<FlightRecorder> recorder_;
    std::string name_;
    flight::Word* ring_ = nullptr;
    flight::Clock clock_ = flight::Clock::monotonic_ns;
    flight::Word next_ = 1, collectives_ = 0, messages_ = 0, lost_ = 0;
    std::size_t slot_ = 0;
    alignas(8) flight::Word label_[flight::kTextWords] = {};
    std::size_t label_bytes_ = 0;
};

}  // namespace autolaunch
