#pragma once
// With libarchive's headers alone: without them there is nothing in it.
#if AUTOLAUNCH_HAVE_ARCHIVE
#include "base/shared_library.hpp"

#include <archive.h>
#include <archive_entry.h>

namespace autolaunch::launcher {

#define AUTOLAUNCH_LIBARCHIVE(X)        \
    X(archive_entry_filetype)           \
    X(archive_entry_hardlink)           \
    X(archive_entry_is_encrypted)       \
    X(archive_entry_mtime)              \
    X(archive_entry_mtime_nsec)         \
    X(archive_entry_pathname)           \
    X(archive_entry_perm)               \
    X(archive_entry_size)               \
    X(archive_entry_size_is_set)        \
    X(archive_entry_symlink)            \
    X(archive_error_string)             \
    X(archive_read_data)                \
    X(archive_read_free)                \
    X(archive_read_new)                 \
    X(archive_read_next_header)         \
    X(archive_read_open_fd)             \
    X(archive_read_support_filter_gzip) \
    X(archive_read_support_filter_zstd) \
    X(archive_read_support_format_tar)  \
    X(archive_read_support_format_zip_seekable)

AUTOLAUNCH_FUNCTION_TABLE(ArchiveLibrary, AUTOLAUNCH_LIBARCHIVE)

/// Loaded at the first call.
inline const ArchiveLibrary& archive_library() {
    static const ArchiveLibrary loaded(SharedLibrary(
        "libarchive.so.13",
        {.what = "storage.stage_in's `unpack` needs libarchive",
         .hint = "install it on all nodes (Debian: libarchive13, Fedora: libarchive)"}));
    return loaded;
}

}  // namespace autolaunch::launcher
#endif
