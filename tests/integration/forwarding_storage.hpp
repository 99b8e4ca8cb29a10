#pragma once
#include "checkpoint/storage/storage.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::testing {

/// This machine's files, for storages of tests that do one thing otherwise.
class ForwardingStorage : public Storage {
public:
    using Path = std::filesystem::path;
    std::unique_ptr<StorageFile> create(const Path& path) override { return disk_->create(path); }
    std::unique_ptr<StorageFile> open(const Path& path) override { return disk_->open(path); }
    std::unique_ptr<StorageFile> create_large(const Path& path) override {
        return disk_->create_large(path);
    }
    std::unique_ptr<StorageFile> open_large(const Path& path) override {
        return disk_->open_large(path);
    }
    void create_directories(const Path& path) override { disk_->create_directories(path); }
    std::vector<std::string> list(const Path& path) override { return disk_->list(path); }
    void rename(const Path& from, const Path& to) override { disk_->rename(from, to); }
    void remove_all(const Path& path) override { disk_->remove_all(path); }
    void sync_directory(const Path& path) override { disk_->sync_directory(path); }
    void link_file(const Path& from, const Path& to) override { disk_->link_file(from, to); }
    void replace_link(const Path& path, const std::string& target) override {
        disk_->replace_link(path, target);
    }

private:
    std::unique_ptr<Storage> disk_ = make_posix_storage();
};

}  // namespace autolaunch::testing
