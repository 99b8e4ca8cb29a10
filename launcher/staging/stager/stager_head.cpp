// What the head's stager does for the other nodes.
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "hand_over/shared_file.hpp"
#include "staging/stager/stager.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace autolaunch::launcher {

std::string Stager::place_for(int item) const {
    return (copies_->path() / std::to_string(item)).string();
}

/// All sources at once, so that every node can see what it has.
void Stager::look_for_others() {
    std::vector<SeenSource> all;
    bool is_to_wait = false;  // for servers: what is asked for meanwhile has to be ready
    for (std::size_t i = 0; i < order_.items.size(); ++i) {
        const int item = static_cast<int>(i);
        watch(item, nullptr, 0);
        all.push_back(see(item));
        is_to_wait = is_to_wait || all.back().folder.empty();
    }
    std::vector<WantedFiles> offered;
    for (const SeenSource& seen : all) {
        if (seen.folder.empty())
            continue;
        const auto own = held_.find(seen.item);
        if (own != held_.end() && is_to_wait)
            link_for_others(seen, own->second);
        offered.push_back(offer_of(seen, trees_[seen.item].tree));
        offered.back().is_prepared = own == held_.end() || is_to_wait;
    }
    say({.sources = std::move(all), .offered = std::move(offered)});
}

SeenSource Stager::see(int item) {
    trees_[item] = source_of(item).look();
    const SourceTree& source = trees_[item];
    SeenSource seen{.item = item,
                    .key = source_key(source_of(item).words(), source.tree),
                    .address = {},
                    .listing = copies_ ? place_for(item) + ".listing" : std::string(),
                    .folder = source.folder_path,
                    .only = source.only,
                    .bytes = source.tree.bytes()};
    if (is_made_here(item))
        seen.folder.clear();
    see_own_copy(seen);
    if (!copies_) {  // all of it is in the site's cache, and there is no place to hand on from
        seen.folder.clear();
        return seen_[item] = seen;
    }
    if (streams(item) && !held_.contains(item)) {
        show_stream(item);
        seen.folder = views_.at(item)->tree_path();
        seen.only.clear();
    }
    if (!seen.folder.empty())
        list_for_others(seen);
    seen_[item] = seen;
    return seen;
}

void Stager::list_for_others(SeenSource& seen) const {
    const std::string listing =
        listing_text(source_of(seen.item).words(), trees_.at(seen.item).tree);
    write_all(open_file(seen.listing, O_WRONLY | O_CREAT | O_EXCL, 0600).get(), listing,
              seen.listing);
    seen.address = address_of(listing);
}

/// What is here already is handed on from here.
void Stager::see_own_copy(SeenSource& seen) {
    auto held = find(seen.key);
    if (!held)
        return;
    take_unpacked(seen.item, *held);
    set_own_place(seen, *held);
    remember(seen.item, seen.key, *held);
    held_[seen.item] = std::move(*held);
}

/// From now on its tree is what was unpacked, and no archive.
void Stager::take_unpacked(int item, const HeldTree& held) {
    if (source_of(item).is_unpacked())
        trees_[item].tree = StageCache::listed_tree_of(held);
}

void Stager::set_own_place(SeenSource& seen, const HeldTree& held) const {
    const Tree& tree = trees_.at(seen.item).tree;
    seen.folder = tree.is_file ? held.path.parent_path() : held.path;
    seen.only = tree.is_file ? held.path.filename().string() : std::string();
    seen.bytes = tree.bytes();
}

WantedFiles Stager::offer_of(const SeenSource& seen, const Tree& tree) const {
    WantedFiles offer{.item = seen.item,
                      .copies = place_for(seen.item),
                      .paths = {seen.listing},
                      .sizes = {static_cast<std::int64_t>(
                          listing_text(source_of(seen.item).words(), tree).size())}};
    std::vector<const TreeEntry*> files;
    for (const TreeEntry& entry : tree.entries)
        if (entry.kind == TreeEntry::Kind::file && entry.bytes > 0)
            files.push_back(&entry);
    // Where files are used one by one, the list of their digests is needed first.
    std::stable_partition(files.begin(), files.end(), [&](const TreeEntry* entry) {
        return streams(seen.item) && entry->path == item_of(seen.item).verify;
    });
    for (const TreeEntry* entry : files) {
        offer.paths.push_back(path_there(seen, *entry));
        offer.sizes.push_back(entry->bytes);
    }
    if (views_.contains(seen.item))
        add_facts(offer, files);
    return offer;
}

/// By which it is known that a file has come.
void Stager::add_facts(WantedFiles& offer, const std::vector<const TreeEntry*>& files) {
    const auto listing = look_at(offer.paths.at(0));
    offer.times = {listing ? listing->mtime_ns : 0};
    offer.modes = {listing ? listing->mode : 0};
    for (const TreeEntry* entry : files) {
        offer.times.push_back(entry->mtime_ns);
        offer.modes.push_back(entry->mode);
    }
}

/// What came from a server, or was unpacked: from now on others can have it, without anything to be
/// made for it.
void Stager::offer_own(int item, const HeldTree& held) {
    SeenSource& seen = seen_.at(item);
    take_unpacked(item, held);
    set_own_place(seen, held);
    list_for_others(seen);
    link_for_others(seen, held);
    WantedFiles offer = offer_of(seen, trees_[item].tree);
    offer.is_prepared = true;
    say({.sources = {seen}, .offered = {std::move(offer)}});
}

/// Of what the head has itself no second copy is made: its files are where the mover looks.
void Stager::prepare(const AgentWord& word) {
    for (const int item : word.prepare) {
        if (const auto held = kept_.find(item); held != kept_.end() && held->second.was_here)
            link_for_others(seen_.at(item), held->second.held);
        say({.prepared = {item}});
    }
}

void Stager::link_for_others(const SeenSource& seen, const HeldTree& held) {
    std::int64_t to_copy = 0;
    try {
        const NodeCache cache(place_for(seen.item), std::numeric_limits<std::int64_t>::max(),
                              false);
        for (const TreeEntry& entry : StageCache::tree_of(held).entries) {
            const std::string path = path_there(seen, entry);
            const auto file = entry.kind == TreeEntry::Kind::file ? look_at(path) : std::nullopt;
            if (file && file->bytes > 0 &&
                ::link(path.c_str(),
                       cache.path_of(copy_key(*file) + '-' + hex128(entry.digest)).c_str()) != 0)
                to_copy += entry.bytes;  // of the site's cache, which is another user's
        }
        if (to_copy > 0 && held.is_shared)
            own_cache().make_room(to_copy);
    } catch (const Error& error) {
        say({.notes = {std::string("what is handed on is copied once more: ") + error.what()}});
    }
}

}  // namespace autolaunch::launcher
