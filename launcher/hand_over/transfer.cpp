#include "hand_over/transfer.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool write_at(int fd, std::string_view bytes, off_t at) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), at);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
        at += count;
    }
    return true;
}

bool read_at(int fd, std::string& bytes, off_t at) {
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t count =
            ::pread(fd, bytes.data() + done, bytes.size() - done, at + static_cast<off_t>(done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        done += static_cast<std::size_t>(count);
    }
    return true;
}

}  // namespace

void Transfer::begin(std::vector<SharedFile> files) {
    std::vector<Item> items(files.size());
    std::int64_t missing = 0, found = 0;
    for (std::size_t at = 0; at < files.size(); ++at) {
        Item& item = items[at];
        item.left = chunks_of(files[at]);
        if (auto copy = cache_.find(files[at])) {
            item.state = State::whole;
            item.name = std::move(copy->name);
            item.digests = std::move(copy->digests);
            found += files[at].bytes;
        } else {
            item.digests.resize(item.left);
            item.has.resize(item.left);
            missing += files[at].bytes;
        }
    }
    if (missing > 0)
        cache_.make_room(missing);
    const std::lock_guard lock(mutex_);
    files_ = std::move(files);
    items_ = std::move(items);
    found_bytes_ = found;
    begun_ = true;
    moved_at_ = std::chrono::steady_clock::now();
    changed_.notify_all();
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
    for (std::size_t chunk = 0; chunk < items_[file].has.size(); ++chunk)
        if (!items_[file].has[chunk])
            missing.push_back(chunk);
    return missing;
}

bool Transfer::make_place(std::size_t file) {
    const std::lock_guard lock(mutex_);
    Item& item = items_[file];
    if (item.state != State::missing)
        return item.state == State::partial;
    try {
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

void Transfer::put(std::size_t file, std::size_t chunk, const Digest128& digest,
                   std::string_view bytes, const std::function<bool()>& is_unchanged) {
    std::shared_ptr<const NodeCache::Part> part;
    {
        const std::lock_guard lock(mutex_);
        Item& item = items_[file];
        if (item.state != State::partial || item.has[chunk])
            return;
        part = item.part;
    }
    if (!write_at(part->fd.get(), bytes, static_cast<off_t>(chunk * kChunkBytes)))
        return give_up(file, SystemError(errno, "write in " + cache_.path().string()).what());
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
    const std::lock_guard lock(mutex_);
    items_[file].has[chunk] = true;
    publish(file);
}

// With the lock.
void Transfer::publish(std::size_t file) {
    Item& item = items_[file];
    try {
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
        if (here.state == State::given_up)
            return Taken::never;
        item.state = here.state;
        item.part = here.part;
        item.name = here.name;
        into.digest = here.digests[chunk];
    }
    return read_chunk(file, chunk, item, into.bytes) ? Taken::here : Taken::never;
}

bool Transfer::read_chunk(std::size_t file, std::size_t chunk, const Item& item,
                          std::string& bytes) const {
    UniqueFd whole;
    if (!item.part)
        whole.reset(::openat(cache_.fd(), item.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    const int fd = item.part ? item.part->fd.get() : whole.get();
    bytes.resize(chunk_bytes(files_[file], chunk));
    return fd >= 0 && read_at(fd, bytes, static_cast<off_t>(chunk * kChunkBytes));
}

Transfer::Summary Transfer::summary() const {
    const std::lock_guard lock(mutex_);
    Summary summary;
    summary.found_bytes = found_bytes_;
    summary.why_left = why_left_;
    for (std::size_t at = 0; at < items_.size(); ++at) {
        if (items_[at].state == State::whole) {
            summary.copies.push_back({files_[at].path, cache_.path_of(items_[at].name)});
            summary.come_bytes += files_[at].bytes;
        } else {
            summary.left_bytes += files_[at].bytes;
        }
    }
    summary.come_bytes -= found_bytes_;
    return summary;
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
