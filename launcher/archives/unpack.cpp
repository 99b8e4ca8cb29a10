#include "archives/unpack.hpp"

#include "archives/archive_library.hpp"
#include "archives/archive_paths.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/tree_copy.hpp"
#include "stage_cache/tree_files.hpp"

#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

#if AUTOLAUNCH_HAVE_ARCHIVE

namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
constexpr std::int64_t kRoomAtOnce = 256 << 20, kLittleRoom = 8 << 20;
constexpr const char* kFetchAnew = "fetch it anew, or make it anew";

/// Names are bytes of UTF-8, whatever the job's locale is; of this thread alone.
class Utf8Names {
public:
    Utf8Names() : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
        if (utf8_ != nullptr)
            before_ = ::uselocale(utf8_);
    }
    Utf8Names(const Utf8Names&) = delete;
    Utf8Names& operator=(const Utf8Names&) = delete;
    ~Utf8Names() {
        if (utf8_ == nullptr)
            return;
        ::uselocale(before_);
        ::freelocale(utf8_);
    }

private:
    locale_t utf8_ = nullptr, before_ = nullptr;
};

class Unpacking {
public:
    Unpacking(int archive, int into, const std::string& into_shown, const UnpackTerms& terms)
        : library_(archive_library()),
          terms_(terms),
          paths_(terms.shown),
          into_(into),
          files_(into, into_shown),
          reader_(library_.archive_read_new(), library_.archive_read_free) {
        if (!reader_)
            throw Error(ErrorCode::system, "libarchive cannot begin");
        if (terms.kind == ArchiveKind::zip) {
            library_.archive_read_support_format_zip_seekable(reader_.get());
        } else {
            library_.archive_read_support_format_tar(reader_.get());
            library_.archive_read_support_filter_gzip(reader_.get());
            library_.archive_read_support_filter_zstd(reader_.get());
        }
        check(library_.archive_read_open_fd(reader_.get(), archive, kReadAtOnce), "");
    }

    Tree run() {
        archive_entry* raw = nullptr;
        for (;;) {
            const int said = library_.archive_read_next_header(reader_.get(), &raw);
            if (said == ARCHIVE_EOF)
                break;
            check(said, "behind " + last_);
            unpack(entry_of(raw));
        }
        if (tree_.entries.empty())
            damaged("has nothing in it");
        std::sort(tree_.entries.begin(), tree_.entries.end(),
                  [](const TreeEntry& a, const TreeEntry& b) { return a.path < b.path; });
        return std::move(tree_);
    }

private:
    [[noreturn]] void damaged(const std::string& why) const {
        throw ExitError(exit_code::kBadData, ErrorCode::corrupt,
                        terms_.shown + " is no whole " + word_of(terms_.kind) + " archive: " + why,
                        kFetchAnew);
    }

    /// A warning, too, is of something that would not be here as it is there.
    void check(int said, const std::string& where) const {
        if (said == ARCHIVE_OK)
            return;
        const char* const why = library_.archive_error_string(reader_.get());
        damaged((why == nullptr ? "it cannot be read" : why) +
                (where.empty() ? "" : " (" + where + ")"));
    }

    ArchivedEntry entry_of(archive_entry* raw) {
        ArchivedEntry entry;
        const char* const path = library_.archive_entry_pathname(raw);
        entry.path = path == nullptr ? "" : path;
        last_ = entry.path;
        const char* const same = library_.archive_entry_hardlink(raw);
        const char* const target = library_.archive_entry_symlink(raw);
        const auto kind = library_.archive_entry_filetype(raw);
        if (same != nullptr) {
            entry.kind = ArchivedEntry::Kind::hard_link;
            entry.target = same;
        } else if (kind == AE_IFREG) {
            entry.kind = ArchivedEntry::Kind::file;
        } else if (kind == AE_IFDIR) {
            entry.kind = ArchivedEntry::Kind::folder;
        } else if (kind == AE_IFLNK) {
            entry.kind = ArchivedEntry::Kind::link;
            entry.target = target == nullptr ? "" : target;
        }
        entry.mode = library_.archive_entry_perm(raw);
        entry.knows_bytes = library_.archive_entry_size_is_set(raw) != 0;
        entry.bytes = entry.knows_bytes ? library_.archive_entry_size(raw) : 0;
        entry.mtime_ns = time_of(raw);
        entry.is_encrypted = library_.archive_entry_is_encrypted(raw) == 1;
        return entry;
    }

    std::int64_t time_of(archive_entry* raw) const {
        constexpr std::int64_t kMost = std::int64_t{1} << 33;  // the year 2242
        const std::int64_t seconds = library_.archive_entry_mtime(raw);
        return std::clamp<std::int64_t>(seconds, 0, kMost) * 1'000'000'000 +
               std::clamp<long>(library_.archive_entry_mtime_nsec(raw), 0, 999'999'999);
    }

    void unpack(const ArchivedEntry& archived) {
        ArchivePaths::Placed placed = paths_.place(archived);
        if (terms_.signs != nullptr)
            ++*terms_.signs;
        for (const std::string& folder : placed.new_folders) {
            TreeEntry entry{.path = folder};
            entry.kind = TreeEntry::Kind::folder;
            make(std::move(entry));
        }
        if (!placed.is_to_make)
            return;
        if (!placed.same_as.empty())
            return link(std::move(placed));
        if (placed.entry.kind == TreeEntry::Kind::file)
            write(placed.entry, archived);
        make(std::move(placed.entry));
    }

    /// Folders and links are made; a file is there by then.
    void make(TreeEntry entry) {
        take_room(kSmallest);
        if (entry.kind != TreeEntry::Kind::file) {
            Tree one;
            one.entries.push_back(entry);
            files_.make_folders_and_links(one);
        } else {
            place_of_[entry.path] = tree_.entries.size();
        }
        tree_.entries.push_back(std::move(entry));
    }

    void link(ArchivePaths::Placed placed) {
        const TreeEntry& same = tree_.entries[place_of_.at(placed.same_as)];
        TreeEntry entry = same;
        entry.path = placed.entry.path;
        if (::linkat(into_, same.path.c_str(), into_, entry.path.c_str(), 0) != 0)
            throw SystemError(errno, "create " + files_.shown(entry));
        make(std::move(entry));
    }

    void write(TreeEntry& entry, const ArchivedEntry& archived) {
        take_room(entry.bytes);
        const UniqueFd file = files_.make(entry);
        std::vector<char> chunk(ChunkedDigest::kChunk);
        ChunkedDigest digest;
        std::int64_t done = 0;
        for (;;) {
            const std::size_t got = read_chunk(chunk);
            if (got == 0)
                break;
            done += static_cast<std::int64_t>(got);
            if (archived.knows_bytes && done > entry.bytes)
                paths_.refuse("has more bytes than it says", kFetchAnew);
            if (!archived.knows_bytes)
                take_room(static_cast<std::int64_t>(got));
            digest.add(chunk.data(), got);
            files_.write(file.get(), entry, chunk.data(), got,
                         done - static_cast<std::int64_t>(got));
            if (terms_.signs != nullptr)
                ++*terms_.signs;
            if (got < chunk.size())
                break;
        }
        if (archived.knows_bytes && done != entry.bytes)
            paths_.refuse("has fewer bytes than it says", kFetchAnew);
        entry.bytes = done;
        entry.digest = digest.value();
        files_.dress(file.get(), entry);
    }

    std::size_t read_chunk(std::vector<char>& chunk) {
        std::size_t got = 0;
        while (got < chunk.size()) {
            const la_ssize_t some =
                library_.archive_read_data(reader_.get(), chunk.data() + got, chunk.size() - got);
            if (some < 0)
                check(static_cast<int>(some), "within " + last_);
            if (some == 0)
                break;
            got += static_cast<std::size_t>(some);
        }
        return got;
    }

    /// Asked for in large amounts, as long as there is so much.
    void take_room(std::int64_t bytes) {
        if (bytes > room_ && !has_room(std::max(bytes, kRoomAtOnce)) &&
            !has_room(std::max(bytes, kLittleRoom))) {
            terms_.make_room(bytes);
            room_ = bytes;
        }
        room_ -= bytes;
    }
    bool has_room(std::int64_t bytes) {
        try {
            terms_.make_room(bytes);
            room_ = bytes;
            return true;
        } catch (const ExitError&) {
            return false;
        }
    }

    static constexpr std::int64_t kSmallest = 4096;  // an inode and its name

    const ArchiveLibrary& library_;
    const UnpackTerms& terms_;
    ArchivePaths paths_;
    const int into_;
    const TreeFiles files_;
    std::unique_ptr<archive, int (*)(archive*)> reader_;
    Tree tree_;
    std::map<std::string, std::size_t> place_of_;  ///< of files
    std::string last_ = "its beginning";
    std::int64_t room_ = 0;
};

}  // namespace

Tree unpack_archive(int archive, int into, const std::string& into_shown,
                    const UnpackTerms& terms) {
    const Utf8Names names;
    try {
        return Unpacking(archive, into, into_shown, terms).run();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported)
            throw;
        throw ExitError(exit_code::kUnavailable, ErrorCode::unsupported, error.what(),
                        error.hint());
    }
}

#else

Tree unpack_archive(int, int, const std::string&, const UnpackTerms& terms) {
    throw ExitError(exit_code::kUnavailable, ErrorCode::unsupported,
                    "cannot unpack " + terms.shown + ": this build has no libarchive",
                    "install its headers (Debian: libarchive-dev) and build with "
                    "AUTOLAUNCH_WITH_ARCHIVE=ON");
}

#endif

}  // namespace autolaunch::launcher
