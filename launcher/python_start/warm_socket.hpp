#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "plan/preload_choice.hpp"
#include "python_start/fork_order.hpp"
#include "python_start/shared_packages.hpp"
#include "spawn/spawn.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace autolaunch::launcher {

/// What came from a warm interpreter: a rank's answer, its words, or nothing (it is gone, or silent
/// until the deadline; `error_number` says which).
struct Silence {
    bool gone = false;
};
using WarmReply = std::variant<ForkAnswer, std::string, Silence>;

/// The agent's end of its way to a warm interpreter.
///
/// Owner: WarmParent. Threads: the agent's one. Blocks: receive(), until its deadline.
class WarmSocket {
public:
    /// `other` becomes the interpreter's end. Throws SystemError.
    explicit WarmSocket(UniqueFd& other);

    /// The first order: what to import, copies to see in the place of files, with where to hand in
    /// the mount of those in pieces, and the file to write down in what was found. Throws
    /// SystemError.
    void send_first(const ChildSpec& spec, const PreloadChoice& choice, const PackageCopies& copies,
                    int record);
    /// An order for a rank. Throws SystemError.
    void send(const ChildSpec& spec);
    WarmReply receive(Deadline deadline);
    /// Who answers from now on cannot; what has come already is still received.
    void take_no_more();
    int fd() const { return socket_.get(); }

private:
    void send_with(const std::string& order, std::vector<int> fds);

    UniqueFd socket_;
};

}  // namespace autolaunch::launcher
