#include "staging/item_source.hpp"

#include "archives/unpack.hpp"
#include "exit_codes/exit_error.hpp"
#include "remote_data/remote_copy.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/open_to_all.hpp"
#include "stage_cache/stage_part.hpp"
#include "stage_cache/tree_walk.hpp"
#include "staging/check_digests.hpp"
#include "staging/local_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// In a part: the archive, until it is unpacked.
constexpr const char* kArchive = "archive";

std::optional<ArchiveKind> kind_in(const std::string& word) {
    if (word.empty())
        return std::nullopt;
    return word == word_of(ArchiveKind::zip) ? ArchiveKind::zip : ArchiveKind::tar;
}

bool is_of_archive(const std::string& verify) { return verify.starts_with("sha256:"); }

UniqueFd make_folder(int parent, const char* name, const std::string& shown) {
    if (::mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
        throw SystemError(errno, "create the folder " + shown);
    UniqueFd folder(::openat(parent, name, kOpenFolder));
    if (!folder)
        throw SystemError(errno, "open " + shown);
    return folder;
}

}  // namespace

ItemSource::ItemSource(StagerItem item, const Environment& environment,
                       std::atomic<std::int64_t>* signs)
    : item_(std::move(item)), kind_(kind_in(item_.unpack)), signs_(signs) {
    if (is_remote())
        remote_ = open_remote(item_.from, item_.verify, environment, {.signs = signs});
}

std::string ItemSource::words() const {
    std::string words =
        key_words(is_remote() ? source_words(item_.from) : item_.from, item_.verify);
    if (kind_)
        words += std::string("\nunpacked as ") + word_of(*kind_);
    return words;
}

SourceTree ItemSource::look() {
    SourceTree source;
    if (remote_) {
        source.tree = remote_->look();
        source.shown = shown();
    } else {
        source = walk_source(item_.from, signs_);
        if (item_.for_all)
            require_open_to_all(source);
    }
    if (kind_ && !source.tree.is_file)
        throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument, shown() + " is a folder",
                        "`unpack` is of one archive; without it the folder is staged as it is");
    return source;
}

void ItemSource::read_for(StagingRequest& request, StageCache& cache) const {
    if (kind_)
        request.fill = [this, &cache](StagePart& part, SourceTree& source,
                                      const CopyOptions& options, CopyProgress& progress) {
            bring_unpacked(cache, part, source, options, progress);
        };
    else if (remote_)
        request.fill = [this](StagePart& part, SourceTree& source, const CopyOptions& options,
                              CopyProgress& progress) {
            fetch_tree(*remote_, source.tree, part, options, progress);
        };
}

// One file after the other, for the first is needed first; and each as it was when it was listed.
void ItemSource::stream_for(StagingRequest& request, StreamView& view) const {
    if (!item_.verify.empty() && !is_of_archive(item_.verify))
        request.copy.first = item_.verify;
    request.fill = [this, &view](StagePart& part, SourceTree& source, const CopyOptions& options,
                                 CopyProgress& progress) {
        CopyOptions shown = options;
        shown.on_whole = [&](const TreeEntry& entry, int into) {
            if (!remote_)
                check_unchanged(source.open(entry).get(), entry, source.path_of(entry));
            view.add(entry, into, entry.path);
        };
        const auto files = remote_ ? nullptr : local_files(source);
        fetch_tree(remote_ ? *remote_ : *files, source.tree, part, shown, progress);
    };
}

void ItemSource::verify_for(StagingRequest& request) const {
    if (!item_.verify.empty() && !(kind_ && is_of_archive(item_.verify)))
        request.verify = [this](int folder, const Tree& tree) {
            check_digests(folder, tree, item_.verify, shown());
        };
}

void ItemSource::bring(int into, const StagePart& part, SourceTree& source,
                       const CopyOptions& options, CopyProgress& progress) const {
    const std::string into_shown = (part.path() / kArchive).string();
    if (remote_)
        fetch_tree(*remote_, source.tree,
                   FetchPlace{.into = into, .beside = part.own_folder(), .shown = into_shown},
                   options, progress);
    else
        copy_tree(source, into, into_shown, options, progress);
    if (is_of_archive(item_.verify))
        check_digests(into, source.tree, item_.verify, shown());
}

// Whole, it stays for who goes on; what was unpacked of it does not.
void ItemSource::bring_unpacked(StageCache& cache, StagePart& part, SourceTree& source,
                                const CopyOptions& options, CopyProgress& progress) const {
    const std::string shown_archive = (part.path() / kArchive).string();
    const std::string shown_tree = (part.path() / kTree).string();
    {
        const UniqueFd folder = make_folder(part.own_folder(), kArchive, shown_archive);
        bring(folder.get(), part, source, options, progress);
        empty_beneath(part.folder(), shown_tree);
        const UniqueFd archive =
            open_beneath(folder.get(), source.tree.entries.at(0).path, O_RDONLY);
        if (!archive)
            throw SystemError(errno, "open " + shown_archive);
        const UnpackTerms terms{
            .kind = *kind_,
            .shown = shown(),
            .make_room =
                [&](std::int64_t more) { cache.make_room(more, part, cache.bytes_in(part)); },
            .signs = signs_};
        source.tree = unpack_archive(archive.get(), part.folder(), shown_tree, terms);
    }
    remove_beneath(part.own_folder(), kArchive);
}

}  // namespace autolaunch::launcher
