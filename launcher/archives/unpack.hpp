#pragma once
#include "archives/archive_kind.hpp"
#include "stage_cache/tree.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace autolaunch::launcher {

struct UnpackTerms {
    ArchiveKind kind = ArchiveKind::tar;
    std::string shown;  ///< the archive, for errors
    /// Before so many bytes more are written: throws where there is no room for them. What an
    /// archive says of its sizes is not believed any further than that.
    std::function<void(std::int64_t more)> make_room = [](std::int64_t) {};
    std::atomic<std::int64_t>* signs = nullptr;  ///< grows while it goes on
};

/// Unpacks an open archive into an empty folder. Files get their times, and modes without a writer.
/// Nothing is synced. Throws ExitError: 65 where it is damaged or has what may not be here (see
/// ArchivePaths), 69 without libarchive; and SystemError where nothing can be written. Blocks:
/// until all is unpacked.
Tree unpack_archive(int archive, int into, const std::string& into_shown, const UnpackTerms& terms);

}  // namespace autolaunch::launcher
