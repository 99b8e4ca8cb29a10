#pragma once
#include "python_start/import_watch.hpp"
#include "python_start/preload_record.hpp"
#include "python_start/warm_socket.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The interpreter of this node from which ranks are forked, with what they import imported. It
/// lives as long as the job and over its restarts; what it cannot do costs a rank nothing but the
/// time of its own imports.
///
/// Owner: the agent, which must be a subreaper; outlives the generations. Threads: the main one.
/// Blocks: start(), until the rank runs; the destructor, until the interpreter is gone, some
/// seconds at most.
class WarmParent {
public:
    struct Times {
        ImportWatch::Limits imports;              ///< then every rank starts by itself
        std::chrono::milliseconds answer{2'500};  ///< of one fork
    };
    struct Ready {
        int modules = 0;
        std::chrono::milliseconds took{0};
        std::string late;  ///< a module that its ranks will import at some first use; empty: none
        int copies = 0;    ///< that are mounted in the place of files
    };

    WarmParent(asio::io_context& io, const PreloadChoice& choice, Times times);
    WarmParent(const WarmParent&) = delete;
    WarmParent& operator=(const WarmParent&) = delete;
    ~WarmParent();

    /// What interpreters from now on see in the place of files. One that has files in pieces which
    /// are lost is ended.
    void use_copies(PackageCopies copies);
    /// True once ranks can be started: by a warm interpreter, or because there will be none. Until
    /// then it imports, with the environment of `rank`, and `then` is called when that is over.
    bool is_settled(const std::function<ChildSpec()>& rank, std::function<void()> then);
    /// Forks the rank, or starts it as spawn_child() does, whose errors it throws.
    Child start(const ChildSpec& rank);
    /// Not a rank's process, and to be left alone; -1: there is none.
    pid_t pid() const { return pid_; }
    /// Interpreters until now.
    int made() const { return made_; }

    /// Once: it has imported.
    std::optional<Ready> take_ready();
    /// Once, of an automatic choice: what the interpreter has found to import.
    std::optional<PreloadWalk> take_walk();
    /// Since the last call: why ranks were started by themselves, or copies not mounted, a sentence
    /// each.
    std::vector<std::string> take_notes();

private:
    enum class State { idle, importing, ready, off };

    void begin(const ChildSpec& rank);
    void await_imports();
    void watch_imports();
    void imports_are_over();
    void give_up_imports(std::string why);
    void settle(State state);
    void note(const std::string& why);
    std::string why_not_forked(const ChildSpec& rank) const;
    bool has_lost_pieces() const { return copies_.has_lost_pieces && copies_.has_lost_pieces(); }
    std::optional<Child> fork(const ChildSpec& rank);
    std::optional<Child> adopted(const ForkAnswer& answer);
    void lose(const std::string& why);
    void end_process();
    void end_late_ranks();
    std::string last_words() const;

    const PreloadChoice& choice_;
    const Times times_;
    State state_ = State::idle;
    int lost_ = 0, made_ = 0;
    pid_t pid_ = -1;
    UniqueFd process_, printed_, complained_, record_;
    std::optional<WarmSocket> socket_;
    asio::posix::stream_descriptor readable_;  ///< the socket's, while it imports
    asio::steady_timer timer_;
    std::function<void()> then_;
    PackageCopies copies_;
    std::string copies_missing_;  ///< why not all of them are mounted
    ChildSpec first_;             ///< whose environment, place and command it has
    std::chrono::steady_clock::time_point begun_at_;
    std::optional<ImportWatch> watch_;
    std::optional<Ready> ready_;
    std::optional<PreloadWalk> walk_;
    std::map<std::string, int> notes_;  ///< with how many ranks
};

}  // namespace autolaunch::launcher
