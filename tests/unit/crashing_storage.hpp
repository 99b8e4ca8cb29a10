#pragma once
// A storage in memory that can crash: it forgets what was not synced, as a machine that loses power
// does.
#include "checkpoint/storage/storage.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::testing {

/// What is left of the unsynced part after a crash. Synced files and synced directories always
/// survive.
enum class Survives {
    nothing,     ///< neither unsynced bytes nor unsynced names
    names_only,  ///< all names, no unsynced bytes: renames reached the disk before the data did
    some,  ///< of every directory the first few changes, of every file some of its unsynced bytes;
           ///< by the seed
};

/// Directories are lists of changes (a name comes, goes, or moves within the directory, each
/// atomically); a sync makes all earlier changes of that directory durable. Files have a durable
/// content, that of the last sync, and a live one.
class CrashingStorage final : public Storage {
public:
    CrashingStorage();

    /// The operation with this number (from 0) and all later ones throw; writes are then half done.
    /// Nothing: none does.
    void crash_at(std::optional<std::size_t> operation) { crash_at_ = operation; }
    /// Only that operation throws, without effect, like a full disk.
    void fail_at(std::optional<std::size_t> operation) { fail_at_ = operation; }
    void count_from_zero() { operations_ = 0; }
    std::size_t operations() const noexcept { return operations_; }
    /// Files that were linked, of all.
    std::size_t links() const noexcept { return links_; }
    /// What is on the disk when the machine comes back.
    std::shared_ptr<CrashingStorage> after_crash(Survives survives, unsigned seed) const;

    std::unique_ptr<StorageFile> create(const std::filesystem::path& path) override;
    std::unique_ptr<StorageFile> open(const std::filesystem::path& path) override;
    void create_directories(const std::filesystem::path& path) override;
    std::vector<std::string> list(const std::filesystem::path& path) override;
    void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
    void remove_all(const std::filesystem::path& path) override;
    void sync_directory(const std::filesystem::path& path) override;
    void link_file(const std::filesystem::path& from, const std::filesystem::path& to) override;
    void replace_link(const std::filesystem::path& path, const std::string& target) override;

private:
    friend class CrashingFile;
    struct Node;
    using Names = std::map<std::string, std::shared_ptr<Node>>;
    struct Change {
        std::string removed;  ///< empty when the change only adds
        std::string added;    ///< empty when the change only removes
        std::shared_ptr<Node> node;
    };
    struct Node {
        bool directory = false;
        std::string content, durable_content;  ///< of a file
        Names names, durable_names;            ///< of a directory
        std::vector<Change> unsynced;          ///< since durable_names
    };

    bool begin_operation();  ///< counts; true when this one is cut in the middle by the crash
    void fail_now(const std::string& what) const;
    std::shared_ptr<Node> find(const std::filesystem::path& path) const;
    std::shared_ptr<Node> require(const std::filesystem::path& path, bool directory) const;
    static void apply(Names& names, const Change& change);
    static void change(Node& directory, const Change& change);

    std::shared_ptr<Node> root_;
    std::size_t operations_ = 0;
    std::size_t links_ = 0;
    std::optional<std::size_t> crash_at_, fail_at_;
};

}  // namespace autolaunch::testing
