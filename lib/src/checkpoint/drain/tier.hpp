#pragma once
#include "base/deadline.hpp"
#include "checkpoint/drain/drain_plan.hpp"
#include "checkpoint/s3/s3_client.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// Where checkpoints are kept besides the directory that they are saved to. Files of an unfinished
/// checkpoint come first, in any order; publish() makes it a checkpoint. Owner: a Drain. Threads:
/// one. Blocks: every function, until its deadline where it has one, else as long as the storage
/// does.
class Tier {
public:
    virtual ~Tier() = default;

    /// To find and load checkpoints in, and their directory there.
    virtual Storage& storage() = 0;
    virtual std::filesystem::path directory() const = 0;

    /// What is named like a checkpoint. `complete` is what `published` is: nobody has looked into
    /// them.
    virtual std::vector<FarCheckpoint> list() = 0;
    /// Where the files of an unfinished checkpoint are.
    virtual std::filesystem::path unfinished(const std::string& name) const = 0;
    /// Before files of it are put: takes back what a process that died left halfway, but what
    /// put() goes on with.
    virtual void prepare(const std::string& name, const Deadline& deadline) = 0;

    /// Fills the span with bytes of the file from an offset, in whole blocks of
    /// Manifest::kBlockBytes (the last may be shorter); asked for in order.
    using Read = std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>;
    /// Called before so many bytes go there, by any thread. It may wait, and throw. What is there
    /// from an attempt before, as far as only the tier knows it, does not go there again.
    using Pass = std::function<void(std::uint64_t bytes)>;
    /// Returns when the file is durable. One that was there is replaced; until then it is not seen
    /// under its name.
    virtual void put(const std::string& name, const Manifest::File& file, const Read& read,
                     const Pass& pass, const Deadline& deadline) = 0;
    /// The manifest, last. False when another one of this name is there: then that one stays.
    virtual bool publish(const std::string& name, const std::string& manifest_text,
                         const Deadline& deadline) = 0;
    /// A published or an unfinished one; a reader never sees it half deleted as complete.
    virtual void remove(const FarCheckpoint& checkpoint, const Deadline& deadline) = 0;
    /// From any thread: what goes on should end soon, with AbortedError.
    virtual void stop() {}
};

/// A directory, usually one that all nodes share: unfinished ones are in "step-N.tmp", and a rename
/// publishes.
std::unique_ptr<Tier> make_directory_tier(std::shared_ptr<Storage> storage,
                                          std::filesystem::path directory);
/// A bucket: unfinished is what has no manifest, which is put last, with If-None-Match.
std::unique_ptr<Tier> make_s3_tier(const s3::Location& location,
                                   std::shared_ptr<s3::CredentialSource> credentials,
                                   const s3::UploadOptions& options = {});
inline std::unique_ptr<Tier> make_s3_tier(const s3::Location& location,
                                          const s3::Credentials& credentials,
                                          const s3::UploadOptions& options = {}) {
    return make_s3_tier(location, s3::fixed_credentials(credentials), options);
}
/// Of a directory's path or of "s3://bucket/prefix", with the environment's settings and
/// credentials.
std::unique_ptr<Tier> make_tier(const std::string& place);

}  // namespace autolaunch
