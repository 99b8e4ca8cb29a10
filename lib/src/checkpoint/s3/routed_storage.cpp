#include "checkpoint/s3/routed_storage.hpp"

#include "base/environment.hpp"
#include "checkpoint/s3/s3_storage.hpp"

#include <autolaunch/error.hpp>

#include <map>
#include <mutex>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

class RoutedStorage final : public Storage {
public:
    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return of(path).create(path);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override { return of(path).open(path); }
    std::unique_ptr<StorageFile> create_large(const fs::path& path) override {
        return of(path).create_large(path);
    }
    std::unique_ptr<StorageFile> open_large(const fs::path& path) override {
        return of(path).open_large(path);
    }
    void create_directories(const fs::path& path) override { of(path).create_directories(path); }
    std::vector<std::string> list(const fs::path& path) override { return of(path).list(path); }
    void rename(const fs::path& from, const fs::path& to) override { of(from).rename(from, to); }
    void remove_all(const fs::path& path) override { of(path).remove_all(path); }
    void sync_directory(const fs::path& path) override { of(path).sync_directory(path); }
    void link_file(const fs::path& from, const fs::path& to) override {
        of(to).link_file(from, to);
    }
    void replace_link(const fs::path& path, const std::string& target) override {
        of(path).replace_link(path, target);
    }

private:
    Storage& of(const fs::path& path) {
        const std::string text = path.string();
        if (!s3::is_s3_url(text))
            return *machine_;
        const Environment environment = environment_of_process();
        s3::Location location = s3::locate(text, environment);
        location.prefix.clear();
        const std::lock_guard lock(mutex_);
        auto& bucket = buckets_[location.bucket];
        if (!bucket)
            bucket = s3::make_s3_storage(location, s3::find_credential_source(environment));
        return *bucket;
    }

    std::unique_ptr<Storage> machine_ = make_posix_storage();
    std::mutex mutex_;
    std::map<std::string, std::unique_ptr<Storage>> buckets_;
};

}  // namespace

std::unique_ptr<Storage> make_routed_storage() { return std::make_unique<RoutedStorage>(); }

}  // namespace autolaunch
