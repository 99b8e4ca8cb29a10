#pragma once
#include "base/unique_fd.hpp"
#include "hand_over/piece_store.hpp"
#include "hand_over/transfer.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

/// A whole file of which this node has pieces: what is missing comes, when somebody asks for it,
/// from another node or else from the shared file system, in whole pieces, and is kept.
///
/// Owner: one. Threads: any. Blocks: read(), as long as the disk or the shared file system does.
class PieceFile {
public:
    /// From another node, before the shared file system is asked; may be empty.
    using Elsewhere = std::function<bool(std::size_t piece, Transfer::Chunk& into)>;
    explicit PieceFile(std::shared_ptr<PieceStore> store, Elsewhere elsewhere = {})
        : store_(std::move(store)), elsewhere_(std::move(elsewhere)) {}
    virtual ~PieceFile() = default;

    const SharedFile& file() const { return store_->file(); }
    /// A piece. 0, or an errno: ESTALE where it is not here and the original is no longer the file
    /// that it was.
    virtual int read(std::size_t piece, std::string& bytes);
    bool has(std::size_t piece) const { return store_->digest_of(piece).has_value(); }
    /// Only what is here.
    bool read_here(std::size_t piece, std::string& bytes) { return store_->read(piece, bytes); }
    /// What came from the shared file system.
    std::int64_t fetched_bytes() const { return fetched_; }

private:
    bool ask_elsewhere(std::size_t piece, std::string& bytes);
    void keep(std::size_t piece, const Digest128& digest, std::string_view bytes);
    int open_original();
    int fetch(std::size_t piece, std::string& bytes);

    std::shared_ptr<PieceStore> store_;
    Elsewhere elsewhere_;
    std::mutex mutex_;  ///< of one reading at a time
    UniqueFd original_;
    std::size_t expected_ = 0, window_ = 1;  ///< who reads in turn gets larger requests
    bool keeps_ = true;
    std::atomic<std::int64_t> fetched_{0};
};

}  // namespace autolaunch::launcher
