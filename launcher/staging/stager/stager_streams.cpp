// What ranks use while it comes: they start with a listing of it, and find each file once it is
// whole.
#include "base/file_io.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_part.hpp"
#include "stage_cache/stage_text.hpp"
#include "staging/stager/stager.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

// All of them before the first is read: ranks can start then.
void Stager::begin_streams() {
    for (std::size_t item = 0; item < order_.items.size(); ++item)
        if (order_.items[item].streams)
            begin_stream(static_cast<int>(item));
    for (std::size_t at = 0; at < order_.items.size(); ++at)
        if (const int item = static_cast<int>(at);
            order_.items[at].streams && !kept_.contains(item))
            stage(item);
}

void Stager::begin_stream(int item) {
    watch(item, nullptr, 0);
    if (order_.role == StagerRole::alone ||
        (order_.role == StagerRole::node && !have_listing(item)))
        look_alone(item);
    if (held_.contains(item))
        return stage(item);
    if (!views_.contains(item))
        show_stream(item);
    const Tree& tree = trees_.at(item).tree;
    say({.streams = {{.name = item_of(item).name,
                      .path = views_.at(item)->path(),
                      .bytes = tree.bytes(),
                      .files = tree.file_count()}}});
}

/// What this node reads by itself.
void Stager::look_alone(int item) {
    trees_[item] = source_of(item).look();
    seen_[item] = {.item = item,
                   .key = source_key(source_of(item).words(), trees_[item].tree),
                   .address = {},
                   .listing = {},
                   .folder = {},
                   .only = {},
                   .bytes = trees_[item].tree.bytes()};
    if (auto held = find(seen_[item].key)) {
        remember(item, seen_[item].key, *held);
        held_[item] = std::move(*held);
    }
}

/// On another node than the head: of the one that the head has seen, from there. False: there is no
/// head any more.
bool Stager::have_listing(int item) {
    watch_.is_elsewhere = true;
    if (!await_source(item))
        return watch_.is_elsewhere = false;
    const SeenSource seen = seen_.at(item);
    if (auto held = find(seen.key)) {
        remember(item, seen.key, *held);
        held_[item] = std::move(*held);
        watch_.is_elsewhere = false;
        return true;
    }
    own_cache().make_room(seen.bytes);
    StagerWord word;
    word.wanted.push_back({.item = item, .copies = place_for(item), .paths = {}, .sizes = {}});
    say(word);
    const auto has_listing = [&] {
        const auto& came = came_[item].copies;
        return std::any_of(came.begin(), came.end(),
                           [&](const auto& copy) { return copy.first == seen.listing; });
    };
    while (!has_listing() && !handed_.contains(item))
        hear_agent();
    watch_.is_elsewhere = false;
    const std::map<std::string, std::string> copies{came_[item].copies.begin(),
                                                    came_[item].copies.end()};
    if (auto tree = listed_tree(item, seen, copies))
        trees_[item].tree = std::move(*tree);
    else
        trees_[item] = look_as_seen(item, seen);
    return true;
}

void Stager::show_stream(int item) {
    if (order_.streams.empty())
        cannot_keep(
            own_cache().path().string() + " takes no folder for what ranks see while it comes",
            "see what stands in its way there, or name another folder in storage.scratch");
    views_[item] = std::make_unique<StreamView>(
        std::filesystem::path(order_.streams) / item_of(item).name, trees_.at(item).tree,
        item_of(item).verify, source_of(item).shown());
}

StagedTree Stager::stream(int item, CopyProgress& progress) {
    const SeenSource seen = seen_.at(item);
    Came came;
    if (order_.role == StagerRole::node && !seen.listing.empty()) {
        show_what_comes(item, seen);
        came = tree_that_came(item, seen, await_handed(item));
    } else {
        came.source = std::move(trees_.at(item));
    }
    SourceTree source = std::move(came.source);
    StagedTree staged = copy(item, source, seen.key, came, progress);
    show_published(item, staged);
    return staged;
}

/// From a node above this one, until no more does: each was compared with what the first node has.
void Stager::show_what_comes(int item, const SeenSource& seen) {
    std::map<std::string, const TreeEntry*> files;
    for (const TreeEntry& entry : trees_.at(item).tree.entries)
        if (entry.kind == TreeEntry::Kind::file)
            files[path_there(seen, entry)] = &entry;
    watch_.is_elsewhere = true;
    for (;;) {
        for (const auto& [there, here] : std::exchange(came_[item].copies, {}))
            if (const auto file = files.find(there); file != files.end())
                views_.at(item)->add(*file->second, AT_FDCWD, here);
        if (handed_.contains(item))
            break;
        hear_agent();
    }
    watch_.is_elsewhere = false;
}

void Stager::stream_by(int item, StreamView& view, const Came& came, StagingRequest& request) {
    if (!came.is_whole)
        return source_of(item).stream_for(request, view);
    request.copy.on_whole = [&view](const TreeEntry& entry, int into) {
        view.add(entry, into, entry.path);
    };
}

/// What another job has brought meanwhile is there at once.
void Stager::show_published(int item, const StagedTree& staged) {
    StreamView& view = *views_.at(item);
    if (staged.was_here) {
        const Tree tree = StageCache::tree_of(staged.held);
        const std::filesystem::path folder =
            tree.is_file ? staged.held.path.parent_path() : staged.held.path;
        view.add_all(open_file(folder, kOpenFolder).get());
    }
    view.finish();
}

}  // namespace autolaunch::launcher
