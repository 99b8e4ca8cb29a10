#pragma once
#include "base/unique_fd.hpp"
#include "hand_over/piece_files.hpp"

#include <linux/fuse.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::launcher {

/// A folder of files in pieces, as a read-only file system of the kernel's protocol (FUSE), for who
/// has mounted the other end of `device`. The attributes are the originals'. What is here of a file
/// is put into the kernel's page cache as soon as somebody has looked the file up, in the order of
/// looking; opening costs no request.
///
/// A request that takes longer than `patience` (a shared file system that does not answer) ends
/// with EIO, and others go on meanwhile. When this ends, those who wait get ENOTCONN, and so does
/// whoever asks for more.
///
/// Owner: one. Threads: its own. Blocks: the destructor, until all requests are over.
class FuseServer {
public:
    using Files = PieceFiles::Files;
    FuseServer(UniqueFd device, const Files& files, std::chrono::milliseconds patience);
    FuseServer(const FuseServer&) = delete;
    FuseServer& operator=(const FuseServer&) = delete;
    ~FuseServer();

    /// Nobody has it mounted any more.
    bool is_over() const { return over_; }
    /// Requests to read, of the kernel.
    std::int64_t reads() const { return reads_; }

private:
    using Clock = std::chrono::steady_clock;
    /// Whether a piece is in the kernel's page cache, as far as we put it there.
    enum class Pushed : std::uint8_t { no, waits, soon, yes };
    struct Node {
        std::string name;
        std::shared_ptr<PieceFile> file;
        fuse_attr attributes{};  ///< of the first look
        std::vector<Pushed> pushed;
    };
    /// A request that is being answered.
    struct Busy {
        Clock::time_point since;
        std::uint32_t thread = 0;  ///< whose it is
        bool interrupted = false;
    };
    struct Push {
        std::size_t node = 0, first = 0, count = 0;
    };

    void stop(std::atomic<bool>& because);
    void serve();
    void handle(const std::string& request, std::size_t bytes, std::string& reply);
    int answer(const fuse_in_header& head, const char* body, std::string& reply);
    int introduce(const char* body, std::string& reply);
    int look_up(const char* name, std::string& reply);
    void queue_pushes(std::size_t at);
    int attributes(std::uint64_t id, std::string& reply);
    int read(std::uint64_t id, const char* body, std::string& reply);
    void interrupt(const char* body);
    void send(std::uint64_t unique, int error, const std::string& reply);
    bool take_back(std::uint64_t unique);
    void watch();
    void watch_once();
    void push();
    std::optional<Push> next_push();
    bool push_run(const Push& run);
    Node* node_of(std::uint64_t id);

    UniqueFd device_, wake_;
    const std::chrono::milliseconds patience_;
    std::vector<Node> nodes_;  ///< of ids from kFirstId on
    std::atomic<bool> over_{false}, ending_{false};
    std::atomic<std::int64_t> reads_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, Busy> busy_;  ///< by the kernel's number
    std::deque<Push> pushes_, urgent_;
    std::vector<std::thread> threads_, helpers_;
};

}  // namespace autolaunch::launcher
