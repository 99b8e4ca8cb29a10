#include "session/node_store.hpp"

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <thread>

namespace autolaunch::session {
namespace {

constexpr char kWordKey[] = "autolaunch/node_store_word";
constexpr std::size_t kMostBytes = 256;
constexpr std::chrono::milliseconds kLookPause{10};
constexpr std::chrono::seconds kWordTimeout{2};

/// In memory where there is such a place, for it outlives no reboot.
std::filesystem::path base_directory() {
    if (::access("/dev/shm", W_OK | X_OK) == 0)
        return "/dev/shm";
    const char* given = std::getenv("TMPDIR");
    return given != nullptr && *given != '\0' ? given : "/tmp";
}

struct Published {
    std::uint16_t port;
    std::string word;
};

std::optional<Published> read_published(const OwnedFolder& folder, const std::string& name) {
    const auto text = folder.read(name, kMostBytes);
    if (!text)  // not there yet
        return std::nullopt;
    const auto parts = split(trim(*text), ' ');
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

NodeStoreFile::NodeStoreFile(const std::string& job) : NodeStoreFile(job, base_directory()) {}

NodeStoreFile::NodeStoreFile(const std::string& job, const std::filesystem::path& base)
    : folder_(OwnedFolder::open(base).private_folder("autolaunch-" + std::to_string(::geteuid()))),
      name_("store-" + hex64(hash64(job.data(), job.size()))) {}

void NodeStoreFile::publish(std::uint16_t port, Store& own) const {
    const std::string word = random_hex(16);
    own.set(kWordKey, word);
    folder_.replace(name_, std::to_string(port) + " " + word + "\n", 0600);
}

Store NodeStoreFile::find(const std::string& prefix, std::chrono::milliseconds timeout) const {
    const auto deadline = Deadline::after(timeout);
    while (!deadline.passed()) {
        if (const auto published = read_published(folder_, name_)) {
            if (auto found = connect_published(*published, prefix, timeout))
                return std::move(*found);
        }
        std::this_thread::sleep_for(kLookPause);
    }
    throw TimeoutError("rank 0 did not publish the job's store at " +
                           (folder_.path() / name_).string() + " in time",
                       "is rank 0 running on this node, as the same user, with the same /dev/shm?");
}

void NodeStoreFile::remove() const noexcept {
    try {
        folder_.remove(name_);
    } catch (const Error&) {  // it leads nobody astray
    }
}

}  // namespace autolaunch::session
