#pragma once
#include "control/member.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/mover_process.hpp"
#include "hand_over/shared_file.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Files of a shared file system that this node is to have as copies on its own disk: one node
/// reads them, all others get the bytes from it and from each other. It never fails: what does not
/// come is to be read where it is.
///
/// Owner: the agent; outlives the generations. Threads: its one, the main one. Blocks: while a
/// mover is started and ended.
class HandOver {
public:
    struct Wanted {
        std::string why_not;          ///< this node takes no part; empty: it does
        std::string why_whole;        ///< it can see whole copies alone; empty: pieces as well
        std::vector<FileUse> files;   ///< of the node that reads them; others are told
        std::string cache;            ///< folder of the copies
        std::int64_t most_bytes = 0;  ///< in it
        std::vector<SharedFile> coming = {};  ///< in place of files: this node makes them meanwhile
    };
    struct Copy {
        std::string original, path;
    };
    struct Result {
        std::vector<Copy> copies;
        std::vector<Copy> in_pieces;  ///< by names that the mover's file system has, see door()
        std::int64_t found_bytes = 0, come_bytes = 0, left_bytes = 0;
    };

    /// Of several hand-overs in one job, each has a number, and whoever has them all hears what
    /// nodes say on their channel, and passes it to hear().
    struct Subject {
        control::RelayChannel channel = control::RelayChannel::hand_over;
        std::string label = "trainer.preload_from";
        std::string what = "what imports read comes";
        std::optional<int> number = {};
        bool are_programs = true;  ///< that are run: not from a file system that lets nobody
        std::function<void(std::int64_t bytes)> on_progress = {};
        /// Of files that are wanted one by one, each copy before the result.
        std::function<void(const Copy& copy)> on_copy = {};
        std::optional<std::chrono::milliseconds> patience = {};  ///< Transfer::patience()
    };

    /// `address` is where other nodes reach this one.
    HandOver(asio::io_context& io, Member& member, std::string address)
        : HandOver(io, member, std::move(address), Subject{}) {}
    HandOver(asio::io_context& io, Member& member, std::string address, Subject subject);
    HandOver(const HandOver&) = delete;
    HandOver& operator=(const HandOver&) = delete;
    ~HandOver();

    /// True once all has come that will. Begins in the first generation that asks; `then` is called
    /// when it is over.
    bool is_settled(int generation, const std::function<Wanted()>& wanted,
                    std::function<void()> then);
    /// With a number: what a node has said on the channel.
    void hear(int node, std::string_view text);
    const Result& result() const { return result_; }
    /// To whom a mount of the files in pieces is handed (MountDoor); -1: there is nobody.
    int door() const { return mover_ ? mover_->door() : -1; }
    /// Files in pieces were here, and whoever served them has ended: what has them mounted is not
    /// to be used any more.
    bool has_lost_pieces() const { return lost_pieces_; }
    /// Once: what went otherwise than wished, a sentence each.
    std::vector<std::string> take_notes();
    /// Its helper's process, to be left alone; -1: none.
    pid_t pid() const { return mover_ ? mover_->pid() : -1; }
    int started() const { return started_; }

private:
    enum class State { idle, waiting, settled };

    void begin(const Wanted& wanted);
    void hear_mover(const std::string& line);
    void hear_node(int node, std::string_view text);
    void tell(int node, const std::string& text);
    void arrive(int node, MoverAddress address);
    void place(int node);
    void take_place(std::string_view text);
    void take_result(std::string_view text);
    void give_up(const std::string& why);
    void lose_pieces(const std::string& why);
    void settle();

    asio::io_context& io_;
    Member& member_;
    const std::string address_;
    const Subject subject_;
    State state_ = State::idle;
    int generation_ = -1, started_ = 0;
    std::function<void()> then_;
    std::optional<MoverProcess> mover_;
    asio::steady_timer timer_;
    Result result_;
    std::string why_whole_;
    bool lost_pieces_ = false;
    std::vector<std::string> notes_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
    // On node 0.
    std::string key_;
    std::vector<MoverAddress> places_;                 ///< the first is this node's
    std::vector<std::pair<int, MoverAddress>> early_;  ///< before it
    std::string refusal_;
};

}  // namespace autolaunch::launcher
