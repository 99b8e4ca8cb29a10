#pragma once
#include "remote_data/remote_source.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Whether a file that has come is what its server has: by CRC as its chunks come, in any order,
/// else over the file once all are there.
///
/// Owner: who brings the file. Threads: add() any, each chunk once; compare() one, after all.
class ArrivalCheck {
public:
    /// With 0 chunks add() is not called, and the file is read.
    ArrivalCheck(std::optional<KnownChecksum> known, std::size_t chunks);

    /// A chunk of 1 MiB; the last may be shorter.
    void add(std::size_t chunk, std::span<const std::byte> bytes);
    /// Whether there was anything to compare with. Throws ExitError 65, which names both. `reader`
    /// says where parts end. Blocks: while the file is read, if it is, and the server is asked.
    bool compare(int fd, const TreeEntry& entry, RemoteReader& reader) const;

private:
    using Sizes = std::vector<std::int64_t>;  ///< of parts, in order
    std::string value(int fd, const TreeEntry& entry, const Sizes& parts) const;
    std::string of_chunks(const TreeEntry& entry, const Sizes& parts) const;
    std::string of_file(int fd, const Sizes& parts) const;

    const std::optional<KnownChecksum> known_;
    std::optional<Crc> crc_;  ///< of chunks
    std::vector<std::uint64_t> chunks_;
};

}  // namespace autolaunch::launcher
