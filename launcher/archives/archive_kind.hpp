#pragma once
namespace autolaunch::launcher {

/// What an archive's file is: tar also with gzip or zstd around it.
enum class ArchiveKind { tar, zip };

/// "tar" and "zip", as the spec has them.
inline const char* word_of(ArchiveKind kind) { return kind == ArchiveKind::tar ? "tar" : "zip"; }

}  // namespace autolaunch::launcher
