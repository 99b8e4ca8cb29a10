#include "staging/stream_view.hpp"

#include "base/file_io.hpp"
#include "base/stream_listing.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/tree_copy.hpp"
#include "stage_cache/tree_files.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kOwnersFolder = 0700, kReadable = 0444;

void make_own_folder(const fs::path& path) {
    if (::mkdir(path.c_str(), kOwnersFolder) != 0)
        throw SystemError(errno, "create the folder " + path.string());
}

StreamListing stream_listing_of(const Tree& tree) {
    StreamListing listing{.is_file = tree.is_file, .files = {}};
    for (const TreeEntry& entry : tree.entries)
        if (entry.kind == TreeEntry::Kind::file)
            listing.files.push_back({entry.path, static_cast<std::uint64_t>(entry.bytes)});
    return listing;
}

UniqueFd open_whole(int at, const std::string& path) {
    UniqueFd file(::openat(at, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file)
        throw SystemError(errno, "open " + path);
    return file;
}

}  // namespace

StreamView::StreamView(fs::path folder, const Tree& tree, const std::string& verify,
                       const std::string& shown)
    : folder_(std::move(folder)), tree_(tree), digests_(tree_, verify, shown) {
    make_own_folder(folder_);
    make_own_folder(tree_path());
    view_.reset(::open(tree_path().c_str(), kOpenFolder));
    if (!view_)
        throw SystemError(errno, "open " + tree_path().string());
    TreeFiles(view_.get(), tree_path()).make_folders_and_links(tree_);
    for (std::size_t at = 0; at < tree_.entries.size(); ++at)
        if (tree_.entries[at].kind == TreeEntry::Kind::file)
            places_[tree_.entries[at].path] = at;
    const fs::path listing = folder_ / kStreamListing;
    write_all(open_file(listing, O_WRONLY | O_CREAT | O_EXCL, kReadable).get(),
              as_text(stream_listing_of(tree_)), listing.string());
}

fs::path StreamView::path() const {
    return tree_.is_file ? tree_path() / tree_.entries.at(0).path : tree_path();
}

void StreamView::compare(const TreeEntry& entry, const Place& place) const {
    digests_.check(entry, open_whole(place.at, place.path).get());
}

// With the lock.
void StreamView::show_next() {
    for (; next_ < tree_.entries.size(); ++next_) {
        const TreeEntry& entry = tree_.entries[next_];
        if (entry.kind != TreeEntry::Kind::file)
            continue;
        const auto found = whole_.find(next_);
        if (found == whole_.end())
            return;
        if (::linkat(found->second.at, found->second.path.c_str(), view_.get(), entry.path.c_str(),
                     0) != 0)
            throw SystemError(errno, "link " + (tree_path() / entry.path).string());
        whole_.erase(found);
    }
}

// The list of digests first: the others are compared with it by whoever has them, side by side.
void StreamView::add(const TreeEntry& entry, int at, const std::string& path) {
    const std::size_t place = places_.at(entry.path);
    std::map<std::size_t, Place> judged{{place, {at, path}}};
    {
        const std::lock_guard lock(mutex_);
        if (place < next_ || whole_.contains(place) || unjudged_.contains(place))
            return;
        if (digests_.needs_list() && entry.path == digests_.list()) {
            digests_.load(tree_, open_whole(at, path).get());
            judged.merge(unjudged_);
            unjudged_.clear();
        } else if (digests_.needs_list()) {
            unjudged_.merge(judged);
            return;
        }
    }
    for (const auto& [number, its] : judged)
        compare(tree_.entries[number], its);
    const std::lock_guard lock(mutex_);
    whole_.merge(judged);
    show_next();
}

void StreamView::add_all(int at) {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, place] : places_)
        if (place >= next_)
            whole_[place] = {at, path};
    show_next();
}

void StreamView::finish() {
    const std::lock_guard lock(mutex_);
    show_next();  // there may be no file at all
    if (next_ != tree_.entries.size())
        throw Error(ErrorCode::corrupt,
                    (tree_path() / tree_.entries[next_].path).string() + " was not staged");
    finish_tree(view_.get(), tree_);
}

}  // namespace autolaunch::launcher
