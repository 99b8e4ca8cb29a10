#include "remote_data/arrival_check.hpp"

#include "base/mapped_file.hpp"
#include "remote_data/remote_errors.hpp"
#include "stage_cache/tree_copy.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Sizes = std::vector<std::int64_t>;
constexpr std::int64_t kPiece = ChunkedDigest::kChunk;

/// All but the last of the first one's size, as nearly everybody puts them; none where that cannot
/// be.
Sizes even_parts(std::int64_t bytes, std::uint64_t count, std::int64_t first) {
    const auto before = static_cast<std::int64_t>(count - 1);
    if (first <= 0 || first > bytes || before > (bytes - 1) / first ||
        bytes - before * first > first)
        return {};
    Sizes sizes(count, first);
    sizes.back() = bytes - before * first;
    return sizes;
}

/// As the server says of each; none where they are not the file's.
Sizes told_parts(const TreeEntry& entry, std::uint64_t count, RemoteReader& reader) {
    Sizes sizes(count);
    std::int64_t left = entry.bytes;
    for (std::uint64_t number = 1; number <= count; ++number) {
        sizes[number - 1] = reader.part_bytes(entry, number).value_or(0);
        if (sizes[number - 1] < 1 || sizes[number - 1] > left)
            return {};
        left -= sizes[number - 1];
    }
    return left == 0 ? sizes : Sizes();
}

bool is_of_chunks(const Sizes& parts) {
    return std::all_of(parts.begin(), parts.empty() ? parts.end() : std::prev(parts.end()),
                       [](std::int64_t size) { return size % kPiece == 0; });
}

}  // namespace

ArrivalCheck::ArrivalCheck(std::optional<KnownChecksum> known, std::size_t chunks)
    : known_(std::move(known)) {
    if (known_ && chunks > 0)
        crc_ = s3::crc_in(known_->checksum.kind);
    if (crc_)
        chunks_.resize(chunks);
}

void ArrivalCheck::add(std::size_t chunk, std::span<const std::byte> bytes) {
    if (crc_)
        chunks_[chunk] = crc_of(*crc_, bytes);
}

// Where parts end nobody has written down. With what is nearly always right one more request says
// whether the file is; before it is called damaged, the server is asked for each.
bool ArrivalCheck::compare(int fd, const TreeEntry& entry, RemoteReader& reader) const {
    if (!known_)
        return false;
    const s3::ObjectChecksum& theirs = known_->checksum;
    Sizes parts;
    if (theirs.parts > 0) {
        const auto first = reader.part_bytes(entry, 1);
        if (!first || (*first == entry.bytes && theirs.parts > 1))
            return false;  // it tells no parts
        parts = even_parts(entry.bytes, theirs.parts, *first);
        if (!parts.empty() && value(fd, entry, parts) == theirs.value)
            return true;
        parts = told_parts(entry, theirs.parts, reader);
        if (parts.empty())
            return false;
    }
    if (const std::string ours = value(fd, entry, parts); ours != theirs.value)
        remote_damaged(known_->shown,
                       std::string(s3::name_of(theirs.kind)) +
                           (parts.empty() ? "" : " of the checksums of its parts"),
                       ours, theirs.value);
    return true;
}

std::string ArrivalCheck::value(int fd, const TreeEntry& entry, const Sizes& parts) const {
    return crc_ && is_of_chunks(parts) ? of_chunks(entry, parts) : of_file(fd, parts);
}

std::string ArrivalCheck::of_chunks(const TreeEntry& entry, const Sizes& parts) const {
    const auto of = [&](std::size_t first, std::int64_t bytes) {
        const auto count = static_cast<std::size_t>((bytes + kPiece - 1) / kPiece);
        return s3::bytes_of_crc(
            *crc_, crc_of_parts(*crc_, std::span(chunks_).subspan(first, count), kPiece,
                                static_cast<std::uint64_t>((bytes - 1) % kPiece + 1)));
    };
    if (parts.empty())
        return s3::base64_of(of(0, entry.bytes));
    s3::ChecksumBytes all;
    std::size_t first = 0;
    for (const std::int64_t bytes : parts) {
        const s3::ChecksumBytes one = of(first, bytes);
        all.insert(all.end(), one.begin(), one.end());
        first += static_cast<std::size_t>(bytes / kPiece);
    }
    return s3::base64_of(s3::checksum_of(known_->checksum.kind, std::as_bytes(std::span(all))));
}

std::string ArrivalCheck::of_file(int fd, const Sizes& parts) const {
    const auto kind = known_->checksum.kind;
    const MappedFile file(fd, "read what has come of " + known_->shown);
    std::span<const std::byte> rest = std::as_bytes(std::span(file.text()));
    if (parts.empty())
        return s3::base64_of(s3::checksum_of(kind, rest));
    s3::ChecksumBytes all;
    for (const std::int64_t bytes : parts) {
        const s3::ChecksumBytes one =
            s3::checksum_of(kind, rest.first(static_cast<std::size_t>(bytes)));
        all.insert(all.end(), one.begin(), one.end());
        rest = rest.subspan(static_cast<std::size_t>(bytes));
        if (known_->signs != nullptr)
            ++*known_->signs;
    }
    return s3::base64_of(s3::checksum_of(kind, std::as_bytes(std::span(all))));
}

}  // namespace autolaunch::launcher
