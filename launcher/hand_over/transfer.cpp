#include "hand_over/transfer.hpp"

#include "base/hash.hpp"
#include "hand_over/positioned_io.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

void Transfer::begin(std::vector<SharedFile> files) {
    std::vector<Item> items(files.size());
    std::int64_t missing = 0, found = 0;
    std::map<std::string, int> why_left;
    for (std::size_t at = 0; at < files.size(); ++at) {
        try {
            items[at] = files[at].is_in_pieces() ? item_in_pieces(files[at]) : item_of(files[at]);
        } catch (const Error& error) {
            items[at].state = State::given_up;
            items[at].has.resize(chunks_of(files[at]));
            ++why_left[error.what()];
        }
        found += items[at].found_bytes;
        missing += wanted_bytes(files[at]) - items[at].found_bytes;
    }
    if (missing > 0)
        cache_.make_room(missing);
    std::unique_lock lock(mutex_);
    files_ = std::move(files);
    items_ = std::move(items);
    found_bytes_ = found;
    why_left_ = std::move(why_left);
    begun_ = true;
    moved_at_ = std::chrono::steady_clock::now();
    changed_.notify_all();
    std::vector<std::size_t> found_whole;
    for (std::size_t at = 0; at < items_.size(); ++at)
        if (items_[at].state == State::whole && !items_[at].pieces)
            found_whole.push_back(at);
    lock.unlock();
    for (const std::size_t at : found_whole)
        tell_copy(at);
}

void Transfer::tell_copy(std::size_t file) {
    Copy copy;
    {
        const std::lock_guard lock(mutex_);
        if (items_[file].state != State::whole || items_[file].pieces)
            return;
        copy = {files_[file].path, cache_.path_of(items_[file].name)};
    }
    on_copy_(copy);
}

void Transfer::adopt(std::size_t file) {
    try {
        NodeCache::Copy copy = cache_.adopt(files_[file]);
        const std::lock_guard lock(mutex_);
        Item& item = items_[file];
        item.name = std::move(copy.name);
        item.digests = std::move(copy.digests);
        item.has.assign(item.digests.size(), true);
        item.left = 0;
        item.state = State::whole;
        moved_at_ = std::chrono::steady_clock::now();
        changed_.notify_all();
    } catch (const Error& error) {
        return give_up(file, error.what());
    }
    tell_copy(file);
}

void Transfer::is_awaited() {
    const std::lock_guard lock(mutex_);
    moved_at_ = std::chrono::steady_clock::now();
}

Transfer::Item Transfer::item_of(const SharedFile& file) {
    Item item;
    item.left = chunks_of(file);
    if (auto copy = cache_.find(file)) {
        item.state = State::whole;
        item.name = std::move(copy->name);
        item.digests = std::move(copy->digests);
        item.found_bytes = file.bytes;
        return item;
    }
    item.digests.resize(item.left);
    item.has.resize(item.left);
    return item;
}

Transfer::Item Transfer::item_in_pieces(const SharedFile& file) {
    Item item;
    item.pieces = cache_.open_pieces(file);
    item.digests.resize(chunks_of(file));
    item.has.resize(chunks_of(file));
    for (std::size_t piece = 0; piece < item.has.size(); ++piece)
        if (const auto digest = item.pieces->digest_of(piece)) {
            item.digests[piece] = *digest;
            item.has[piece] = true;
        }
    for (const std::size_t piece : wanted_chunks(file)) {
        item.left += item.has[piece] ? 0 : 1;
        item.found_bytes +=
            item.has[piece] ? static_cast<std::int64_t>(chunk_bytes(file, piece)) : 0;
    }
    if (item.left == 0)
        item.state = State::whole;
    return item;
}

const std::vector<SharedFile>* Transfer::files(Deadline deadline) const {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(), [&] { return begun_; });
    return begun_ ? &files_ : nullptr;
}

std::vector<std::size_t> Transfer::missing() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> missing;
    for (std::size_t at = 0; at < items_.size(); ++at)
        if (items_[at].state == State::missing || items_[at].state == State::partial)
            missing.push_back(at);
    return missing;
}

std::vector<std::size_t> Transfer::missing_chunks(std::size_t file) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> missing;
    for (const std::size_t chunk : wanted_chunks(files_[file]))
        if (!items_[file].has.empty() && !items_[file].has[chunk])
            missing.push_back(chunk);
    return missing;
}

bool Transfer::make_place(std::size_t file) {
    const std::lock_guard lock(mutex_);
    Item& item = items_[file];
    if (item.state != State::missing)
        return item.state == State::partial;
    try {
        if (!item.pieces)
            item.part = std::make_shared<const NodeCache::Part>(cache_.start(files_[file]));
        item.state = State::partial;
        return true;
    } catch (const Error& error) {
        drop(item, file, error.what());
        return false;
    }
}

// With the lock.
void Transfer::drop(Item& item, std::size_t file, const std::string& why) {
    if (item.state == State::whole || item.state == State::given_up)
        return;
    if (item.part)
        cache_.drop(*item.part, files_[file]);
    item.part.reset();
    item.state = State::given_up;
    ++why_left_[why];
    changed_.notify_all();
}

// The disk begins with it beside the network, as all is to be durable; small files go together.
void Transfer::write_chunk(int fd, off_t at, std::string_view bytes) const {
    if (!write_at(fd, bytes, at))
        throw SystemError(errno, "write in " + cache_.path().string());
    if (bytes.size() == kChunkBytes)
        ::sync_file_range(fd, at, static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
}

void Transfer::put(std::size_t file, std::size_t chunk, const Digest128& digest,
                   std::string_view bytes, const std::function<bool()>& is_unchanged) {
    std::shared_ptr<const NodeCache::Part> part;
    std::shared_ptr<PieceStore> pieces;
    {
        const std::lock_guard lock(mutex_);
        Item& item = items_[file];
        if (item.state != State::partial || item.has[chunk])
            return;
        part = item.part;
        pieces = item.pieces;
    }
    try {
        if (pieces)
            pieces->put(chunk, digest, bytes);
        else
            write_chunk(part->fd.get(), chunk_offset(files_[file], chunk), bytes);
    } catch (const Error& error) {
        return give_up(file, error.what());
    }
    bool is_last = false;
    {
        const std::lock_guard lock(mutex_);
        Item& item = items_[file];
        if (item.state != State::partial)
            return;
        item.digests[chunk] = digest;
        moved_at_ = std::chrono::steady_clock::now();
        is_last = --item.left == 0;
        if (!is_last) {
            item.has[chunk] = true;
            changed_.notify_all();
        }
    }
    if (!is_last)
        return;
    // Nobody gets the last one of a file that changed while it was read.
    if (is_unchanged && !is_unchanged())
        return give_up(file, "it changed while it was read");
    {
        const std::lock_guard lock(mutex_);
        items_[file].has[chunk] = true;
        publish(file);
    }
    tell_copy(file);
}

// With the lock.
void Transfer::publish(std::size_t file) {
    Item& item = items_[file];
    try {
        if (!item.pieces)
            item.name = cache_.publish(*item.part, files_[file], item.digests);
        item.part.reset();
        item.state = State::whole;
        changed_.notify_all();
    } catch (const Error& error) {
        drop(item, file, error.what());
    }
}

void Transfer::give_up(std::size_t file, const std::string& why) {
    const std::lock_guard lock(mutex_);
    drop(items_[file], file, why);
}

void Transfer::finish(const std::string& why) {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < items_.size(); ++at)
        drop(items_[at], at, why);
    finished_ = true;
    changed_.notify_all();
}

Transfer::Taken Transfer::take(std::size_t file, std::size_t chunk, Chunk& into,
                               Deadline deadline) {
    Item item;
    {
        std::unique_lock lock(mutex_);
        if (file >= items_.size() || chunk >= chunks_of(files_[file]))
            return Taken::never;
        const Item& here = items_[file];
        const auto is_decided = [&] {
            return here.state == State::whole || here.state == State::given_up || here.has[chunk];
        };
        if (!changed_.wait_until(lock, deadline.at(), is_decided))
            return Taken::not_yet;
        if (here.pieces ? !here.has[chunk] : here.state == State::given_up)
            return Taken::never;
        item.part = here.part;
        item.pieces = here.pieces;
        item.name = here.name;
        into.digest = here.digests[chunk];
    }
    return read_chunk(file, chunk, item, into.bytes) ? Taken::here : Taken::never;
}

bool Transfer::read_chunk(std::size_t file, std::size_t chunk, const Item& item,
                          std::string& bytes) const {
    if (item.pieces)
        return item.pieces->read(chunk, bytes);
    UniqueFd whole;
    if (!item.part)
        whole.reset(::openat(cache_.fd(), item.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    const int fd = item.part ? item.part->fd.get() : whole.get();
    bytes.resize(chunk_bytes(files_[file], chunk));
    return fd >= 0 && read_at(fd, bytes, chunk_offset(files_[file], chunk));
}

Transfer::Summary Transfer::summary() const {
    const std::lock_guard lock(mutex_);
    Summary summary;
    summary.found_bytes = found_bytes_;
    summary.why_left = why_left_;
    for (std::size_t at = 0; at < items_.size(); ++at) {
        const Item& item = items_[at];
        std::int64_t missing = 0;
        if (item.state != State::whole)
            for (const std::size_t chunk : wanted_chunks(files_[at]))
                if (!item.pieces || !item.has[chunk])
                    missing += static_cast<std::int64_t>(chunk_bytes(files_[at], chunk));
        summary.left_bytes += missing;
        summary.come_bytes += wanted_bytes(files_[at]) - missing;
        if (item.pieces)
            summary.in_pieces.push_back({files_[at].path, std::to_string(at)});
        else if (item.state == State::whole)
            summary.copies.push_back({files_[at].path, cache_.path_of(item.name)});
    }
    summary.come_bytes -= found_bytes_;
    return summary;
}

std::map<std::string, std::shared_ptr<PieceStore>> Transfer::stores() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::shared_ptr<PieceStore>> stores;
    for (std::size_t at = 0; at < items_.size(); ++at)
        if (items_[at].pieces)
            stores[std::to_string(at)] = items_[at].pieces;
    return stores;
}

bool Transfer::is_over() const {
    const std::lock_guard lock(mutex_);
    return finished_;
}

std::chrono::steady_clock::time_point Transfer::moved_at() const {
    const std::lock_guard lock(mutex_);
    return moved_at_;
}

}  // namespace autolaunch::launcher
