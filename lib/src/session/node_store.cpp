#include "session/node_store.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

namespace autolaunch::session {
namespace {

constexpr char kWordKey[] = "autolaunch/node_store_word";
constexpr std::chrono::milliseconds kLookPause{10};
constexpr std::chrono::seconds kWordTimeout{2};

/// In memory where there is such a place, for it outlives no reboot.
std::filesystem::path base_directory() {
    if (::access("/dev/shm", W_OK | X_OK) == 0)
        return "/dev/shm";
    const char* given = std::getenv("TMPDIR");
    return given != nullptr && *given != '\0' ? given : "/tmp";
}

void make_private_directory(const std::filesystem::path& directory) {
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        throw SystemError(errno, "make " + directory.string());
    }
    struct stat found {};
    if (::lstat(directory.c_str(), &found) != 0)
        throw SystemError(errno, "look at " + directory.string());
    if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & 0777) == 0700)
        return;
    throw Error(ErrorCode::invalid_argument,
                directory.string() + " is not a directory of ours with mode 0700",
                "remove it, or ask its owner to");
}

struct Published {
    std::uint16_t port;
    std::string word;
};

std::optional<Published> read_published(const std::filesystem::path& path) {
    std::string text;
    try {
        text = read_file(path);
    } catch (const SystemError&) {  // not there yet
        return std::nullopt;
    }
    const auto parts = split(trim(text), ' ');
    long long port = 0;
    if (parts.size() != 2 || !parse_integer(parts[0], port) || port <= 0 || port > 65535)
        return std::nullopt;
    return Published{static_cast<std::uint16_t>(port), parts[1]};
}

/// nullopt when this is another job's store, or none.
std::optional<Store> connect_published(const Published& published, const std::string& prefix,
                                       std::chrono::milliseconds timeout) {
    try {
        StoreOptions options;
        options.port = published.port;
        options.timeout = std::min<std::chrono::milliseconds>(timeout, kWordTimeout);
        const std::string word = Store::connect(options).get(kWordKey);
        if (word != published.word)
            return std::nullopt;
        options.prefix = prefix;
        options.timeout = timeout;
        return Store::connect(options);
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

NodeStoreFile::NodeStoreFile(const std::string& job) {
    const auto directory = base_directory() / ("autolaunch-" + std::to_string(::geteuid()));
    make_private_directory(directory);
    path_ = directory / ("store-" + hex64(hash64(job.data(), job.size())));
}

void NodeStoreFile::publish(std::uint16_t port, Store& own) const {
    const std::string word = random_hex(16);
    own.set(kWordKey, word);
    const std::string temporary = path_.string() + "." + random_hex(4);
    {
        const UniqueFd file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
        write_all(file.get(), std::to_string(port) + " " + word + "\n", temporary);
    }
    if (std::rename(temporary.c_str(), path_.c_str()) != 0)
        throw SystemError(errno, "publish " + path_.string());
}

Store NodeStoreFile::find(const std::string& prefix, std::chrono::milliseconds timeout) const {
    const auto deadline = Deadline::after(timeout);
    while (!deadline.passed()) {
        if (const auto published = read_published(path_)) {
            if (auto found = connect_published(*published, prefix, timeout))
                return std::move(*found);
        }
        std::this_thread::sleep_for(kLookPause);
    }
    throw TimeoutError("rank 0 did not publish the job's store at " + path_.string() + " in time",
                       "is rank 0 running on this node, as the same user, with the same /dev/shm?");
}

void NodeStoreFile::remove() const noexcept { ::unlink(path_.c_str()); }

}  // namespace autolaunch::session
