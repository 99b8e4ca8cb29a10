#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// "verifying ━━━━━╸────  52% of 12.3 GB · 1.9 GB/s · 3 s left", at most `columns` wide. Pure.
std::string byte_progress_line(const std::string& doing, std::uint64_t done, std::uint64_t total,
                               std::chrono::milliseconds elapsed, int columns);

/// Shows how far a long read or write is: one line on stderr, drawn anew a few times a second and
/// gone at the end. Nothing where stderr is no terminal. Threads: one.
class ByteProgress {
public:
    ByteProgress(std::string doing, std::uint64_t total);
    ~ByteProgress();
    ByteProgress(const ByteProgress&) = delete;

    void add(std::uint64_t bytes);
    std::chrono::milliseconds elapsed() const;

private:
    using Clock = std::chrono::steady_clock;
    std::string doing_;
    std::uint64_t total_;
    std::uint64_t done_ = 0;
    bool terminal_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point drawn_ = start_;
};

}  // namespace autolaunch::launcher
