#pragma once
#include "base/unique_fd.hpp"
#include "logs/rank_files.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <list>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// Terminals that are ranks' stdout and stderr (logging.stdio: pty): programs show bars and colours
/// there, and stdio writes whole lines. What ranks write is copied to their log files as it is, and
/// shown from there as ever. They wait for this copy, as for any terminal.
///
/// A terminal for each stream, so that they stay apart. It is nobody's controlling terminal: no key
/// and no hang-up sends a signal. Owner: Generation. Threads: the agent's one. Blocks: on the file
/// system.
class RankTerminals {
public:
    /// A rank's ends; close them once it has them.
    struct Ends {
        UniqueFd out, err;
    };

    explicit RankTerminals(asio::io_context& io) : io_(io) {}

    /// Opens two, and copies to the rank's files from now on. Throws SystemError.
    Ends add_rank(const RankFiles& files);
    /// What is there now: when a rank has ended, all it wrote.
    void copy_all();
    /// At the end: what could not be written to the files, as a sentence; empty: nothing.
    std::string lost() const;

private:
    struct Terminal {
        asio::posix::stream_descriptor screen;
        UniqueFd log;
        std::string path;
        std::uint64_t lost = 0;
        int error = 0;
    };

    UniqueFd open(const UniqueFd& log, const std::string& path);
    void copy_later(Terminal& terminal);
    bool copy(Terminal& terminal);

    asio::io_context& io_;
    std::list<Terminal> terminals_;                          // handlers hold addresses
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // one that is due already checks it
};

}  // namespace autolaunch::launcher
