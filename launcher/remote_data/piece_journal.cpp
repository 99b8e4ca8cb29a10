#include "remote_data/piece_journal.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace autolaunch::launcher {

namespace {

// u64 place, u64 high, u64 low, u64 check: XXH3-64 of what is before it.
using Words = std::array<std::uint64_t, 4>;
constexpr std::size_t kRecord = sizeof(Words), kChecked = 3 * sizeof(std::uint64_t);

std::uint64_t place_of(std::uint32_t file, std::uint32_t chunk) {
    return (std::uint64_t{file} << 32) | chunk;
}

}  // namespace

PieceJournal::PieceJournal(int folder, std::string shown) : shown_(std::move(shown)) {
    file_.reset(
        ::openat(folder, kName, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_)
        throw SystemError(errno, "create " + shown_);
    load();
}

void PieceJournal::load() {
    struct stat facts {};
    if (::fstat(file_.get(), &facts) != 0)
        throw SystemError(errno, "look at " + shown_);
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t got =
            ::pread(file_.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
        if (got <= 0)
            throw SystemError(got == 0 ? EIO : errno, "read " + shown_);
        done += static_cast<std::size_t>(got);
    }
    std::size_t whole = 0;
    for (; whole + kRecord <= text.size(); whole += kRecord) {
        Words words{};
        std::memcpy(words.data(), text.data() + whole, kRecord);
        if (words[3] != hash64(words.data(), kChecked))
            break;
        found_.push_back({words[0], {words[1], words[2]}});
    }
    // What is behind the last whole record would shift those that come.
    if (whole < text.size() && ::ftruncate(file_.get(), static_cast<off_t>(whole)) != 0)
        throw SystemError(errno, "write " + shown_);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Record& a, const Record& b) { return a.place < b.place; });
}

std::optional<Digest128> PieceJournal::find(std::uint32_t file, std::uint32_t chunk) const {
    const std::uint64_t place = place_of(file, chunk);
    const auto behind =
        std::upper_bound(found_.begin(), found_.end(), place,
                         [](std::uint64_t at, const Record& record) { return at < record.place; });
    if (behind == found_.begin() || std::prev(behind)->place != place)
        return std::nullopt;
    return std::prev(behind)->digest;
}

void PieceJournal::add(std::uint32_t file, std::uint32_t chunk, const Digest128& digest) {
    Words words{place_of(file, chunk), digest.high, digest.low, 0};
    words[3] = hash64(words.data(), kChecked);
    const std::lock_guard lock(mutex_);
    write_all(file_.get(), {reinterpret_cast<const char*>(words.data()), kRecord}, shown_);
}

}  // namespace autolaunch::launcher
