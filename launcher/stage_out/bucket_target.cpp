#include "base/hash.hpp"
#include "checkpoint/s3/s3_client.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "remote_data/remote_errors.hpp"
#include "remote_data/remote_source.hpp"
#include "stage_out/out_target.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kPieceOfObject = std::size_t{8} << 20;
constexpr int kPartsAtOnce = 2;  // of each of the files that go at the same time
constexpr auto kOfRequest = std::chrono::minutes(2);
constexpr auto kOfUpload = std::chrono::hours(24);  // the copier's own deadline comes before it

class BucketTarget final : public OutTarget {
    [[noreturn]] void fail(const Error& error, const std::string& what) const {
        if (dynamic_cast<const ExitError*>(&error) != nullptr)
            throw;
        try {
            translate_remote(what, error, who_, "write");
        } catch (const ExitError& said) {
            throw TargetError(said.exit_code() == exit_code::kNoInput ? exit_code::kUnavailable
                                                                      : said.exit_code(),
                              said.what(), said.hint());
        }
    }

    /// One for each that is at work: a client keeps its connection.
    template <class Work>
    auto with_client(const std::string& path, Work work) {
        std::unique_ptr<s3::S3Client> client;
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                client = std::move(idle_.back());
                idle_.pop_back();
            }
        }
        try {
            if (!client)
                client = std::make_unique<s3::S3Client>(location_, credentials_);
            auto result = work(*client);
            ++terms_.counters->signs;
            const std::lock_guard lock(mutex_);
            idle_.push_back(std::move(client));
            return result;
        } catch (const SystemError&) {  // of this node's own disk
            throw;
        } catch (const Error& error) {
            fail(error, shown(path));
        }
    }

public:
    BucketTarget(std::string place, OutTerms terms, const Environment& environment)
        : place_(std::move(place)),
          terms_(std::move(terms)),
          who_(origin_of_credentials(environment)) {
        try {
            location_ = s3::locate(place_, environment);
        } catch (const Error& error) {
            fail(error, place_);
        }
        try {
            credentials_ = s3::find_credential_source(environment);
        } catch (const Error& error) {
            throw TargetError(exit_code::kNotPermitted,
                              "cannot write " + place_ + ": " + error.what(), error.hint());
        }
    }

    std::string shown(const std::string& path) const override { return place_ + path; }

    std::optional<There> look(const std::string& path) override {
        return with_client(path, [&](s3::S3Client& client) -> std::optional<There> {
            const auto object = client.look(path, Deadline::after(kOfRequest));
            if (!object)
                return std::nullopt;
            return There{.bytes = static_cast<std::int64_t>(object->bytes)};
        });
    }

    Digest128 digest(const std::string& path) override {
        return with_client(path, [&](s3::S3Client& client) {
            RunningHash hash;
            std::vector<std::byte> piece(kPieceOfObject);
            for (std::uint64_t at = 0;;) {
                const std::size_t got = client.get(path, at, piece, Deadline::after(kOfRequest));
                hash.update(piece.data(), got);
                at += got;
                ++terms_.counters->signs;
                if (got < piece.size())
                    return hash.take();
            }
        });
    }

    // The server keeps SHA-256 of the parts and refuses what differs (docs/s3.md).
    Put put(const OutFile& file, int fd, bool replaces, Digest128& digest) override {
        return with_client(file.path, [&](s3::S3Client& client) {
            RunningHash hash;
            s3::UploadOptions options;
            options.parallel = kPartsAtOnce;
            options.resume = terms_.may_resume;
            options.if_absent = !replaces;
            options.pass = [this](std::uint64_t bytes) {
                terms_.throttle->take(static_cast<std::int64_t>(bytes));
                ++terms_.counters->signs;
            };
            const auto done = client.upload(
                file.path, static_cast<std::uint64_t>(file.bytes),
                [&](std::uint64_t at, std::span<std::byte> bytes) {
                    read_at(fd, at, bytes, file.path);
                    hash.update(bytes.data(), bytes.size());
                    require_unchanged(file, fd);
                    terms_.counters->bytes += static_cast<std::int64_t>(bytes.size());
                },
                options, Deadline::after(kOfUpload));
            digest = hash.take();
            return done == s3::S3Client::Put::created ? Put::done : Put::exists;
        });
    }

    void clear(const std::string&) override {}
    bool keeps_links() const override { return false; }
    Put put_link(const OutFile&, bool) override { return Put::done; }
    void make_folder(const OutFile&) override {}
    void finish() override {}

private:
    static void read_at(int fd, std::uint64_t at, std::span<std::byte> into,
                        const std::string& path) {
        for (std::size_t done = 0; done < into.size();) {
            const ssize_t got =
                ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(at + done));
            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0)
                throw SystemError(got < 0 ? errno : EIO, "read " + path);
            done += static_cast<std::size_t>(got);
        }
    }

    const std::string place_;
    const OutTerms terms_;
    const std::string who_;
    s3::Location location_;
    std::shared_ptr<s3::CredentialSource> credentials_;
    std::mutex mutex_;  ///< for:
    std::vector<std::unique_ptr<s3::S3Client>> idle_;
};

}  // namespace

std::unique_ptr<OutTarget> make_bucket_target(const std::string& place, const OutTerms& terms,
                                              const Environment& environment) {
    return std::make_unique<BucketTarget>(place, terms, environment);
}

}  // namespace autolaunch::launcher
