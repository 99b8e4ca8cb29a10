#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "hand_over/node_cache.hpp"
#include "hand_over/shared_file.hpp"

#include <autolaunch/digest.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What this node has of the files that are handed over: which chunks, and where. Chunks come from
/// the shared file system or from another node, and are given to others while the rest still comes.
///
/// Owner: a mover. Threads: any. Blocks: take(), until its deadline; else while a disk is written
/// or read. Memory: a digest for each chunk; the bytes are in the cache's files alone.
class Transfer {
public:
    /// With a node that gives signs of life, and nothing else.
    static constexpr std::chrono::seconds kPatience{60};
    struct Chunk {
        Digest128 digest;  ///< as whoever read the file found it
        std::string bytes;
    };
    struct Copy {
        std::string original, path;
    };
    /// What has become of all of them.
    struct Summary {
        std::vector<Copy> copies;
        std::vector<Copy> in_pieces;          ///< under their names in stores()
        std::int64_t found_bytes = 0;         ///< in the cache, from an earlier job
        std::int64_t come_bytes = 0;          ///< now
        std::int64_t left_bytes = 0;          ///< to be read where they are
        std::map<std::string, int> why_left;  ///< with how many files
    };

    explicit Transfer(NodeCache& cache) : cache_(cache) {}
    /// Before begin(): who is told of each whole copy, by any thread.
    void set_on_copy(std::function<void(const Copy&)> on_copy) { on_copy_ = std::move(on_copy); }

    /// How long others wait for a chunk, where files are still being made; see kPatience.
    void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }
    std::chrono::milliseconds patience() const { return patience_; }
    /// Which files these are, once: those that the cache has are whole from then on.
    void begin(std::vector<SharedFile> files);
    /// Waits for begin(). Null: not by then. It stays as it is from then on.
    const std::vector<SharedFile>* files(Deadline deadline) const;

    /// What is still to come, in the order of use; no file that was given up.
    std::vector<std::size_t> missing() const;
    std::vector<std::size_t> missing_chunks(std::size_t file) const;
    /// A place on the disk for it. False: there is none, and the file is given up.
    bool make_place(std::size_t file);
    /// A chunk whose digest was compared. With the last one of a file, `is_unchanged` is asked
    /// whether the whole may be used; if so, it is published.
    void put(std::size_t file, std::size_t chunk, const Digest128& digest, std::string_view bytes,
             const std::function<bool()>& is_unchanged = {});
    void give_up(std::size_t file, const std::string& why);
    /// A whole file of this disk, which is linked.
    void adopt(std::size_t file);
    /// Nothing came, and something will.
    void is_awaited();
    /// Nothing more comes: what is missing is given up.
    void finish(const std::string& why);

    enum class Taken { here, never, not_yet };
    Taken take(std::size_t file, std::size_t chunk, Chunk& into, Deadline deadline);

    Summary summary() const;
    /// Of the files in pieces, also of those of which not all has come.
    std::map<std::string, std::shared_ptr<PieceStore>> stores() const;
    bool is_over() const;
    /// When the last chunk came.
    std::chrono::steady_clock::time_point moved_at() const;

private:
    enum class State { missing, partial, whole, given_up };
    struct Item {
        State state = State::missing;
        std::vector<Digest128> digests;
        std::vector<bool> has;
        std::size_t left = 0;  ///< chunks
        std::int64_t found_bytes = 0;
        std::shared_ptr<PieceStore> pieces;  ///< of a file in pieces; it has no part and no name
        std::shared_ptr<const NodeCache::Part> part;
        std::string name;  ///< of the whole copy
    };
    Item item_of(const SharedFile& file);
    Item item_in_pieces(const SharedFile& file);
    void drop(Item& item, std::size_t file, const std::string& why);
    void publish(std::size_t file);
    void tell_copy(std::size_t file);
    void write_chunk(int fd, off_t at, std::string_view bytes) const;
    bool read_chunk(std::size_t file, std::size_t chunk, const Item& item,
                    std::string& bytes) const;

    NodeCache& cache_;
    std::function<void(const Copy&)> on_copy_ = [](const Copy&) {};
    std::chrono::milliseconds patience_ = kPatience;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool begun_ = false, finished_ = false;
    std::vector<SharedFile> files_;
    std::vector<Item> items_;
    std::int64_t found_bytes_ = 0;
    std::map<std::string, int> why_left_;
    std::chrono::steady_clock::time_point moved_at_ = std::chrono::steady_clock::now();
};

/// As place 0 of files that this node still makes: takes each, in its order, once it is there as it
/// was listed. Blocks: until all are, or for the transfer's patience without one.
void await_files(Transfer& transfer);

/// As place 0: reads from the shared file system what is missing, every byte once, in its order and
/// in large requests. Blocks: until all of it was tried.
void read_source(Transfer& transfer);

class DataLink;
class LinkKey;
struct MoverAddress;

/// From the nodes in `above`, one after the other: the list of files, and what is missing of them.
/// Returns why it ended early; empty: all was tried. Blocks: while anything comes.
std::string pull_all(Transfer& transfer, LinkKey& key, const std::vector<MoverAddress>& above);

/// Answers one connection until it hangs up or says nothing for `idle`. `fetch` gets pieces that
/// are not handed over; without it there are none.
using FetchPiece = std::function<bool(std::size_t file, std::size_t piece, Transfer::Chunk& into)>;
void serve_link(Transfer& transfer, DataLink& link, std::chrono::milliseconds idle,
                const FetchPiece& fetch = {});

}  // namespace autolaunch::launcher
