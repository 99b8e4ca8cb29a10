#pragma once
#include "base/deadline.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/piece_file.hpp"
#include "hand_over/transfer.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The nodes above, asked for single pieces after the hand-over, one after the other until one
/// has it or reads it.
///
/// Owner: PieceFiles. Threads: any, one at a time gets on. Blocks: ask(), some seconds at most.
class NodesAbove {
public:
    NodesAbove(LinkKey& key, std::vector<MoverAddress> nodes)
        : key_(key), nodes_(std::move(nodes)) {}
    /// False: nobody has it.
    bool ask(std::size_t file, std::size_t piece, Transfer::Chunk& into, std::size_t bytes);

private:
    bool ask_linked(std::size_t file, std::size_t piece, Transfer::Chunk& into, std::size_t bytes);

    LinkKey& key_;
    std::mutex mutex_;
    std::vector<MoverAddress> nodes_;  ///< those that failed are left out
    std::optional<DataLink> link_;     ///< to the first
};

/// The files of a hand-over of which this node has pieces. A piece that nobody has used before is
/// asked for at the node above, which asks that one's: so the shared file system is asked once for
/// all nodes.
///
/// Owner: the mover. Threads: any, once the transfer is over. Blocks: fetch(), as PieceFile does.
class PieceFiles {
public:
    PieceFiles(const Transfer& transfer, LinkKey& key, std::vector<MoverAddress> above)
        : transfer_(transfer), above_(key, std::move(above)) {}

    using Files = std::map<std::string, std::shared_ptr<PieceFile>>;
    /// By their places in the list of files.
    const Files& all();
    /// For a node below. False: it is not to be had here.
    bool fetch(std::size_t file, std::size_t piece, Transfer::Chunk& into);

private:
    const Transfer& transfer_;
    NodesAbove above_;
    std::once_flag made_;
    Files files_;
};

}  // namespace autolaunch::launcher
