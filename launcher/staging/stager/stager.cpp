#include "staging/stager/stager.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/workspace.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/tree_walk.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Its name ends with its digest, which was compared.
std::optional<FileHere> copy_here(const std::map<std::string, std::string>& copies,
                                  const std::string& path) {
    const auto found = copies.find(path);
    if (found == copies.end())
        return std::nullopt;
    const auto digest =
        parse_hex128(std::string_view(found->second).substr(found->second.rfind('-') + 1));
    return digest ? std::optional(FileHere{found->second, *digest}) : std::nullopt;
}

/// "/sub/a", the first entry that is another one now, has come or is gone; empty: the file itself.
std::string what_changed(const Tree& before, const Tree& now) {
    const auto is_same = [](const TreeEntry& a, const TreeEntry& b) {
        return a.path == b.path && a.kind == b.kind && a.mode == b.mode && a.bytes == b.bytes &&
               a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns && a.target == b.target &&
               a.version == b.version;
    };
    if (before.is_file || now.is_file)
        return {};
    const auto [was, is] = std::mismatch(before.entries.begin(), before.entries.end(),
                                         now.entries.begin(), now.entries.end(), is_same);
    if (was == before.entries.end() && is == now.entries.end())
        return {};
    const bool has_come =
        was == before.entries.end() || (is != now.entries.end() && is->path < was->path);
    return '/' + (has_come ? is->path : was->path);
}

/// Of the job's user, or that of the site where he fills it.
StageCache open_cache(const StagerOrder& order) {
    if (!order.shared.fills) {
        refuse_open_scratch(order.scratch, workspace_of_environment());
        return StageCache(order.scratch, order.most_bytes);
    }
    return StageCache(shared_place(order.shared.folder, order.shared.owner), order.most_bytes);
}

/// Of what nothing but its way has guarded.
std::string unchecked_note(const std::string& shown, std::int64_t files) {
    return fmt::format(
        "of {} {} compared with no checksum, for the bucket tells none that can be; `verify` "
        "compares with digests, and AWS_RESPONSE_CHECKSUM_VALIDATION=when_required says that no "
        "checksum is wanted",
        shown, files == 1 ? "1 object was" : fmt::format("{} objects were", files));
}

}  // namespace

std::string path_there(const SeenSource& seen, const TreeEntry& entry) {
    return seen.folder + '/' + (seen.only.empty() ? entry.path : seen.only);
}

Stager::Stager(AgentLine& agent, StagerOrder order, const Environment& environment)
    : agent_(agent), order_(std::move(order)), watch_(order_.timeout) {
    open_shared_cache();
    open_own_cache();
    for (const StagerItem& item : order_.items)
        sources_.push_back(std::make_unique<ItemSource>(item, environment, &watch_.signs));
}

void Stager::open_shared_cache() {
    if (order_.shared.folder.empty() || order_.shared.fills)
        return;
    try {
        shared_.emplace(shared_place(order_.shared.folder, order_.shared.owner));
    } catch (const Error& error) {
        say_once("the site's shared cache " + order_.shared.folder +
                 " is not used: " + error.what());
    }
}

// Where all of the job's data is in the site's, no folder of its own is needed.
void Stager::open_own_cache() {
    try {
        cache_.emplace(open_cache(order_));
        if (order_.role != StagerRole::alone)
            copies_.emplace(cache_->make_folder_for_copies());
    } catch (const ExitError& error) {
        if (!shared_)
            throw;
        cache_.reset();
        no_cache_ = error;
    }
}

StageCache& Stager::own_cache() {
    if (!cache_)
        throw ExitError(*no_cache_);
    return *cache_;
}

std::int64_t Stager::shared_owner() const { return shared_ ? shared_->place().owner : ::geteuid(); }

void Stager::say_once(std::string note) {
    if (!note.empty() && said_.insert(note).second)
        say({.notes = {std::move(note)}});
}

std::optional<HeldTree> Stager::find(const std::string& key) {
    std::string note;
    auto held = shared_ ? shared_->find(key, note) : std::nullopt;
    say_once(std::exchange(note, {}));
    if (!held)
        held = own_cache().find(key, note);
    else if (no_cache_)
        note = std::string(no_cache_->what()) + "; what is in the site's shared cache needs none";
    say_once(std::move(note));
    return held;
}

void Stager::remember(int item, const std::string& key, const HeldTree& held) {
    if (cache_ && held.is_shared == cache_->is_shared())
        cache_->remember(key, held, wish_of(item));
}

void Stager::watch(int item, const CopyProgress* progress, std::int64_t of) {
    watch_.begin(item_of(item).name, source_of(item).is_remote(), progress, of);
}

void Stager::run() {
    if (order_.role == StagerRole::head)
        look_for_others();
    for (std::size_t item = 0; item < order_.items.size(); ++item)
        if (!order_.items[item].streams)
            stage(static_cast<int>(item));
    begin_streams();
    watch_.finish();
    say({.done = true});
    for (;;)  // until it ends us: what is handed on stays till then
        hear_agent();
}

void Stager::stage(int item) {
    const auto began = Deadline::Clock::now();
    CopyProgress progress;
    watch(item, &progress, 0);
    StagedTree staged;
    if (const auto held = held_.extract(item)) {
        staged.held = std::move(held.mapped());
        staged.was_here = true;
    } else if (streams(item)) {
        staged = stream(item, progress);
    } else if (order_.role == StagerRole::alone) {
        staged = read_alone(item, progress);
    } else if (order_.role == StagerRole::head && is_made_here(item)) {
        staged = copy(item, trees_[item], seen_.at(item).key, {}, progress);
        offer_own(item, staged.held);
    } else {
        staged = have_handed(item, progress);
    }
    watch(item, nullptr, 0);
    tell_staged(item, staged, progress, elapsed_since(began));
    kept_[item] = std::move(staged);
}

// What the head's mover has copied came from the source, too.
void Stager::tell_staged(int item, const StagedTree& staged, const CopyProgress& progress,
                         std::chrono::milliseconds took) const {
    const bool by_mover = order_.role == StagerRole::head && !is_made_here(item);
    const std::int64_t unchecked =
        item_of(item).verify.empty() ? progress.unchecked_files.load() : 0;
    std::vector<std::string> notes = staged.notes;
    if (unchecked > 0)
        notes.push_back(unchecked_note(source_of(item).shown(), unchecked));
    say({.staged = {{.name = item_of(item).name,
                     .entry = staged.held.name,
                     .path = staged.held.path,
                     .bytes = staged.held.bytes,
                     .files = staged.held.files,
                     .read_bytes = by_mover ? progress.bytes - progress.found_bytes
                                            : progress.read_bytes.load(),
                     .unchecked_files = unchecked,
                     .was_here = staged.was_here,
                     .took = took,
                     .shared_owner = staged.held.is_shared ? shared_owner() : -1}},
         .notes = std::move(notes)});
}

StagedTree Stager::read_alone(int item, CopyProgress& progress) {
    SourceTree source = source_of(item).look();
    const std::string key = source_key(source_of(item).words(), source.tree);
    if (auto held = find(key)) {
        remember(item, key, *held);
        return {.held = std::move(*held), .was_here = true, .notes = {}};
    }
    return copy(item, source, key, {}, progress);
}

StagedTree Stager::have_handed(int item, CopyProgress& progress) {
    watch_.is_elsewhere = true;
    const bool is_handed = order_.role == StagerRole::head || await_source(item);
    watch_.is_elsewhere = false;
    if (!is_handed)
        return read_alone(item, progress);
    const SeenSource seen = seen_.at(item);
    if (auto held = find(seen.key)) {
        remember(item, seen.key, *held);
        return {.held = std::move(*held), .was_here = true, .notes = {}};
    }
    own_cache().make_room(seen.bytes);
    StagerWord word;
    word.wanted.push_back(
        order_.role == StagerRole::head
            ? offer_of(seen, trees_[item].tree)
            : WantedFiles{.item = item, .copies = place_for(item), .paths = {}, .sizes = {}});
    watch_.is_elsewhere = true;
    say(word);
    std::map<std::string, std::string> copies = await_handed(item);
    watch_.is_elsewhere = false;
    Came came = tree_that_came(item, seen, std::move(copies));
    SourceTree source = std::move(came.source);
    return copy(item, source, seen.key, came, progress);
}

/// Until the head says what there is of it, and that it can be had, or this node has it already.
/// False: there is no head any more, or none that hands on.
bool Stager::await_source(int item) {
    for (;;) {
        if (is_deserted_)
            return false;
        const auto seen = seen_.find(item);
        if (seen != seen_.end() && seen->second.listing.empty())
            return false;
        if (seen != seen_.end() && (!seen->second.folder.empty() || find(seen->second.key)))
            return true;
        hear_agent();
    }
}

void Stager::hear_agent() {
    const AgentWord word = parse_agent_word(agent_.hear());
    prepare(word);
    is_deserted_ = is_deserted_ || word.deserted;
    for (const SeenSource& seen : word.sources)
        seen_[seen.item] = seen;
    for (const HandedFiles& handed : word.handed)
        handed_[handed.item] = handed;
    for (const HandedFiles& came : word.came)
        for (const auto& copy : came.copies)
            came_[came.item].copies.push_back(copy);
}

std::map<std::string, std::string> Stager::await_handed(int item) {
    while (!handed_.contains(item))
        hear_agent();
    const HandedFiles handed = std::move(handed_.extract(item).mapped());
    return {handed.copies.begin(), handed.copies.end()};
}

/// On another node than the head its listing says it; where something has not come, the source
/// is looked at here, and an archive is read and unpacked here.
Stager::Came Stager::tree_that_came(int item, const SeenSource& seen,
                                    std::map<std::string, std::string> copies) {
    if (order_.role == StagerRole::head)
        return {.source = std::move(trees_[item]), .copies = std::move(copies)};
    Came came{.source = {}, .copies = std::move(copies)};
    came.source.shown = source_of(item).shown();
    if (auto tree = listed_tree(item, seen, came.copies)) {
        came.is_whole = true;
        came.source.tree = std::move(*tree);
        for (const TreeEntry& entry : came.source.tree.entries)
            came.is_whole =
                came.is_whole && (entry.kind != TreeEntry::Kind::file || entry.bytes == 0 ||
                                  came.copies.contains(path_there(seen, entry)));
    }
    if (came.is_whole)
        return came;
    came.source = look_as_seen(item, seen);
    if (source_of(item).is_unpacked())
        came.copies.clear();
    return came;
}

/// By the head's listing; nothing where that has not come.
std::optional<Tree> Stager::listed_tree(int item, const SeenSource& seen,
                                        const std::map<std::string, std::string>& copies) const {
    const auto found = copies.find(seen.listing);
    if (found == copies.end())
        return std::nullopt;
    const std::string listing = read_file(found->second);
    if (address_of(listing) != seen.address)
        throw Error(ErrorCode::corrupt,
                    "the listing of " + source_of(item).shown() + " is damaged");
    return parse_listing_text(listing);
}

SourceTree Stager::look_as_seen(int item, const SeenSource& seen) const {
    SourceTree source = source_of(item).look();
    if (source_key(source_of(item).words(), source.tree) != seen.key)
        throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                        source.shown + " is another one here than on the first node",
                        "all nodes have to see the same, and nobody may write there meanwhile");
    return source;
}

StagedTree Stager::copy(int item, SourceTree& source, const std::string& key, const Came& came,
                        CopyProgress& progress) {
    ItemSource& from = source_of(item);
    watch(item, &progress, source.tree.bytes());
    StagingRequest request;
    request.key = key;
    request.wish = wish_of(item);
    request.copy.bytes_per_second = order_.bytes_per_second;
    request.wait = [this] { ++watch_.signs; };
    const auto view = views_.find(item);
    if (view != views_.end())
        stream_by(item, *view->second, came, request);
    else if (!came.is_whole)
        from.read_for(request, own_cache());
    if (view == views_.end())
        from.verify_for(request);
    request.check_source = [&] {
        const bool was_read = order_.role != StagerRole::node || progress.read_bytes > 0;
        const Tree now = was_read ? from.look().tree : Tree();
        if (was_read && source_key(from.words(), now) != key)
            throw ExitError(
                exit_code::kNoInput, ErrorCode::mismatch,
                from.shown() + what_changed(source.tree, now) + " was changed while it was staged",
                "start the job once nobody writes there any more");
        watch_.is_elsewhere = true;
    };
    if (!came.copies.empty()) {
        const SeenSource& seen = seen_.at(item);
        for (const TreeEntry& entry : source.tree.entries)
            request.bytes_here += came.copies.contains(path_there(seen, entry)) ? entry.bytes : 0;
        request.copy.find_here = [&came, &seen](const TreeEntry& entry) {
            return copy_here(came.copies, path_there(seen, entry));
        };
    }
    StagedTree staged = stage_tree(own_cache(), source, request, progress);
    watch_.is_elsewhere = false;
    return staged;
}

}  // namespace autolaunch::launcher
