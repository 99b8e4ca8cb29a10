#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/tier.hpp"
#include "checkpoint/s3/s3_storage.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::minutes kCallTimeout(2);

// A part is read in whole blocks of the manifest's digests. The least that S3 takes is 5 MiB: two
// of them.
s3::UploadOptions whole_blocks(s3::UploadOptions options) {
    options.part_bytes =
        std::max((options.part_bytes + Manifest::kBlockBytes - 1) / Manifest::kBlockBytes,
                 std::uint64_t{2}) *
        Manifest::kBlockBytes;
    return options;
}

class S3Tier final : public Tier {
public:
    S3Tier(const s3::Location& location, const std::shared_ptr<s3::CredentialSource>& credentials,
           const s3::UploadOptions& options)
        : client_(location, credentials, stop_),
          options_(whole_blocks(options)),
          storage_(s3::make_s3_storage(location, credentials, kCallTimeout, stop_)) {}

    Storage& storage() override { return *storage_; }
    fs::path directory() const override { return client_.describe(); }
    fs::path unfinished(const std::string& name) const override { return directory() / name; }

    std::vector<FarCheckpoint> list() override {
        std::vector<FarCheckpoint> found;
        for (const Candidate& candidate : list_candidates(*storage_, directory())) {
            const auto files = storage_->list(directory() / candidate.name);
            const bool published =
                std::find(files.begin(), files.end(), kManifestName) != files.end();
            found.push_back({candidate.name, candidate.step, published, published});
        }
        return found;
    }

    // Of this checkpoint uploads go on; of others nobody would finish them. What is not named like
    // a checkpoint's is somebody else's.
    void prepare(const std::string& name, const Deadline& deadline) override {
        client_.abort_uploads("step-", deadline, [&](const std::string& key) {
            const std::string other = key.substr(0, key.find('/'));
            const auto step = step_of(other);
            return other != name && step && checkpoint_name(*step) == other;
        });
    }

    void put(const std::string& name, const Manifest::File& file, const Read& read,
             const Pass& pass, const Deadline& deadline) override {
        s3::UploadOptions options = options_;
        options.resume = true;
        options.pass = pass;
        client_.upload(name + '/' + file.name, file.bytes, read, options, deadline);
    }

    bool publish(const std::string& name, const std::string& manifest_text,
                 const Deadline& deadline) override {
        const std::string key = name + '/' + kManifestName;
        const auto bytes = std::as_bytes(std::span(manifest_text));
        if (client_.put(key, bytes, true, deadline) == s3::S3Client::Put::created)
            return true;
        // It may be the very one: an answer that was lost, or a process that died before it heard.
        std::string there(manifest_text.size() + 1, '\0');
        there.resize(client_.get(key, 0, std::as_writable_bytes(std::span(there)), deadline));
        return there == manifest_text;
    }

    // Without a manifest it is no checkpoint any more.
    void remove(const FarCheckpoint& checkpoint, const Deadline& deadline) override {
        const std::string prefix = checkpoint.name + '/';
        client_.abort_uploads(prefix, deadline);
        client_.remove(prefix + kManifestName, deadline);
        for (const s3::Object& object : client_.list(prefix, true, deadline).objects)
            client_.remove(object.key, deadline);
    }

    void stop() override { *stop_ = true; }

private:
    std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
    s3::S3Client client_;
    s3::UploadOptions options_;
    std::unique_ptr<Storage> storage_;
};

}  // namespace

std::unique_ptr<Tier> make_s3_tier(const s3::Location& location,
                                   std::shared_ptr<s3::CredentialSource> credentials,
                                   const s3::UploadOptions& options) {
    return std::make_unique<S3Tier>(location, credentials, options);
}

}  // namespace autolaunch
