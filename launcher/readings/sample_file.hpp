#pragma once
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"
#include "readings/sample.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Never larger; reached, its older part is thinned.
inline constexpr std::size_t kSampleFileLimit = 2U << 20;

/// What stays of a file's lines, so that they are `limit` bytes at most: the newest whole, and
/// before them ever fewer, so that two that stay are about the same part of their age apart; the
/// oldest stays. A header stays where a sample of its own follows, and the newest does. Pure.
std::string thin_samples(std::string_view text, std::size_t limit);

/// RUN_DIR/samples/NODE.jsonl, to write. Readers see whole lines: what is thinned is written beside
/// it and renamed.
///
/// Owner: the sampler's writer. Threads: one. Blocks: on the file system, as long as that does.
class SampleFile {
public:
    /// Makes run_dir/samples where it is missing. Throws as OwnedFolder does.
    SampleFile(const std::filesystem::path& run_dir, std::string_view node,
               std::size_t limit = kSampleFileLimit);
    /// Throws SystemError; then nothing of the line stays.
    void append(const std::string& line);

private:
    void make_room();

    OwnedFolder folder_;
    std::string name_;
    std::size_t limit_, bytes_ = 0;
    UniqueFd fd_;
};

/// What a file holds, oldest first.
struct SampleHistory {
    SampleHeader header;  ///< the newest; format 0: none was found
    std::vector<NodeSample> samples;
    std::size_t damaged = 0;  ///< lines that are none, but for one at the end without its end
};
/// Pure.
SampleHistory parse_samples(std::string_view text);
/// Throws SystemError, and Error where it is no regular file or too large to be one of ours.
SampleHistory read_sample_file(const std::filesystem::path& path);

}  // namespace autolaunch::launcher
