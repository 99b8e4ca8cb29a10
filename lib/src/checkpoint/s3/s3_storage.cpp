#include "checkpoint/s3/s3_storage.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <mutex>

namespace autolaunch::s3 {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void read_only(const fs::path& path) {
    throw Error(ErrorCode::unsupported,
                "cannot write " + path.string() + ": a bucket is read here, not written",
                "save to a directory, and let it be drained to the bucket");
}

/// Reads that are started go on side by side, each with a thread and a connection.
class S3File final : public StorageFile {
public:
    S3File(S3Client client, std::string key, std::uint64_t bytes, std::function<S3Client()> connect,
           std::chrono::milliseconds timeout)
        : client_(std::move(client)),
          key_(std::move(key)),
          bytes_(bytes),
          connect_(std::move(connect)),
          timeout_(timeout) {}
    ~S3File() override {
        while (!reads_.empty()) {
            try {
                finish_one();
            } catch (const Error&) {
                // Nobody asked for it.
            }
        }
    }

    void write_at(std::uint64_t, std::span<const std::byte>) override {
        read_only(client_.describe() + key_);
    }
    void sync() override { read_only(client_.describe() + key_); }
    void reserve(std::uint64_t) override { read_only(client_.describe() + key_); }
    void truncate(std::uint64_t) override { read_only(client_.describe() + key_); }
    std::uint64_t size() override { return bytes_; }
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) override {
        return read_with(client_, offset, bytes);
    }
    void start_read(std::uint64_t offset, std::span<std::byte> bytes, std::size_t tag) override {
        std::shared_ptr<S3Client> client;
        if (idle_.empty()) {
            client = std::make_shared<S3Client>(connect_());
        } else {
            client = std::move(idle_.back());
            idle_.pop_back();
        }
        reads_.push_back(
            {tag, client, std::async(std::launch::async, [this, client, offset, bytes] {
                 return read_with(*client, offset, bytes);
             })});
    }
    // In the order that they were started: the next block is wanted first anyway.
    Finished finish_one() override {
        Read read = std::move(reads_.front());
        reads_.pop_front();
        idle_.push_back(std::move(read.client));
        return {read.tag, read.result.get()};
    }

private:
    struct Read {
        std::size_t tag = 0;
        std::shared_ptr<S3Client> client;
        std::future<std::size_t> result;
    };

    std::size_t read_with(S3Client& client, std::uint64_t offset,
                          std::span<std::byte> bytes) const {
        if (offset >= bytes_)
            return 0;
        bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), bytes_ - offset));
        return client.get(key_, offset, bytes, Deadline::after(timeout_));
    }

    S3Client client_;
    std::string key_;
    std::uint64_t bytes_;
    std::function<S3Client()> connect_;
    std::chrono::milliseconds timeout_;
    std::vector<std::shared_ptr<S3Client>> idle_;
    std::deque<Read> reads_;
};

class S3Storage final : public Storage {
public:
    S3Storage(std::function<S3Client()> connect, std::chrono::milliseconds timeout)
        : connect_(std::move(connect)), timeout_(timeout), client_(connect_()) {}

    std::unique_ptr<StorageFile> open(const fs::path& path) override {
        const std::string key = key_of(path);
        S3Client client = connect_();
        const auto bytes = client.find(key, Deadline::after(timeout_));
        if (!bytes)
            throw SystemError(ENOENT, "open " + path.string());
        return std::make_unique<S3File>(std::move(client), key, *bytes, connect_, timeout_);
    }

    std::vector<std::string> list(const fs::path& path) override {
        std::string prefix = key_of(path);
        if (!prefix.empty())
            prefix += '/';
        const std::lock_guard lock(mutex_);
        const Listing listing = client_.list(prefix, false, Deadline::after(timeout_));
        std::vector<std::string> names;
        for (const Object& object : listing.objects)
            if (object.key.size() > prefix.size())
                names.push_back(object.key.substr(prefix.size()));
        for (const std::string& common : listing.prefixes)
            names.push_back(common.substr(prefix.size(), common.size() - prefix.size() - 1));
        std::sort(names.begin(), names.end());
        return names;
    }

    std::unique_ptr<StorageFile> create(const fs::path& path) override { read_only(path); }
    void create_directories(const fs::path& path) override { read_only(path); }
    void rename(const fs::path& from, const fs::path&) override { read_only(from); }
    void remove_all(const fs::path& path) override { read_only(path); }
    void sync_directory(const fs::path& path) override { read_only(path); }
    void replace_link(const fs::path& path, const std::string&) override { read_only(path); }

private:
    // Without a slash at its end; the location's own place is "".
    std::string key_of(const fs::path& path) const {
        std::string text = path.string(), base = client_.describe();
        if (!text.ends_with('/'))
            text += '/';
        if (!text.starts_with(base))
            throw Error(ErrorCode::invalid_argument, path.string() + " is not below " + base);
        text.erase(0, base.size());
        if (!text.empty())
            text.pop_back();
        return text;
    }

    std::function<S3Client()> connect_;
    std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    S3Client client_;  ///< for listings
};

}  // namespace

std::unique_ptr<Storage> make_s3_storage(const Location& location,
                                         std::shared_ptr<CredentialSource> credentials,
                                         std::chrono::milliseconds call_timeout,
                                         std::shared_ptr<const std::atomic<bool>> stop) {
    return std::make_unique<S3Storage>([=] { return S3Client(location, credentials, stop); },
                                       call_timeout);
}

}  // namespace autolaunch::s3
