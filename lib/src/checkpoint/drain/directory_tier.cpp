#include "base/environment.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/tier.hpp"
#include "checkpoint/save/file_writer.hpp"
#include "checkpoint/storage/aligned_memory.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr char kStepPrefix[] = "step-";
constexpr char kPartMark[] = ".part-";
constexpr char kDamagedSuffix[] = ".damaged.tmp";
constexpr std::size_t kBuffers = 4;

/// A file's chunks, read when they are asked for.
class ReadSource final : public ChunkSource {
public:
    ReadSource(const Tier::Read& read, const Tier::Pass& pass, std::uint64_t bytes,
               const Deadline& deadline)
        : read_(read),
          pass_(pass),
          bytes_(bytes),
          deadline_(deadline),
          memory_(kBuffers * kChunkBytes) {
        for (std::size_t i = 0; i < kBuffers; ++i)
            free_.push_back(memory_.data() + i * kChunkBytes);
    }

    std::byte* take(std::size_t index) override {
        if (free_.empty())
            return nullptr;
        if (deadline_.passed())
            throw TimeoutError("the copy was not done in time");
        std::byte* const memory = free_.back();
        const std::uint64_t offset = index * kChunkBytes;
        const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, bytes_ - offset));
        pass_(bytes);
        read_(offset, {memory, bytes});
        free_.pop_back();
        return memory;
    }
    void give_back(std::byte* memory) override { free_.push_back(memory); }

private:
    const Tier::Read& read_;
    const Tier::Pass& pass_;
    std::uint64_t bytes_;
    Deadline deadline_;
    AlignedMemory memory_;
    std::vector<std::byte*> free_;
};

class DirectoryTier final : public Tier {
public:
    DirectoryTier(std::shared_ptr<Storage> storage, fs::path directory)
        : storage_(std::move(storage)), directory_(std::move(directory)) {}

    Storage& storage() override { return *storage_; }
    fs::path directory() const override { return directory_; }
    fs::path unfinished(const std::string& name) const override {
        return directory_ / (name + kUnfinishedSuffix);
    }

    std::vector<FarCheckpoint> list() override {
        std::vector<FarCheckpoint> found;
        for (const Candidate& candidate : list_candidates(*storage_, directory_))
            found.push_back({candidate.name, candidate.step, true, true});
        // The same names, for what is not published: its suffix is left out.
        for (const std::string& name : storage_->list(directory_)) {
            if (!name.ends_with(kUnfinishedSuffix))
                continue;
            const std::string stem = name.substr(0, name.size() - (sizeof kUnfinishedSuffix - 1));
            long long step = 0;
            if (parse_integer(stem.substr(std::min(stem.size(), sizeof kStepPrefix - 1)), step) &&
                step >= 0 && checkpoint_name(step) == stem)
                found.push_back({stem, step, false, false});
        }
        return found;
    }

    void prepare(const std::string& name, const Deadline&) override {
        storage_->create_directories(directory_);
        storage_->create_directories(unfinished(name));
        for (const std::string& file : storage_->list(unfinished(name)))
            if (file.find(kPartMark) != std::string::npos)
                storage_->remove_all(unfinished(name) / file);
    }

    void put(const std::string& name, const Manifest::File& file, const Read& read,
             const Pass& pass, const Deadline& deadline) override {
        const fs::path place = unfinished(name);
        PlannedFile part;
        part.name = file.name + kPartMark + random_hex(4);
        part.bytes = file.bytes;
        ReadSource source(read, pass, file.bytes, deadline);
        write_files(*storage_, place, std::span(&part, 1), source);
        storage_->rename(place / part.name, place / file.name);
        storage_->sync_directory(place);
    }

    bool publish(const std::string& name, const std::string& manifest_text,
                 const Deadline&) override {
        const fs::path place = unfinished(name);
        write_whole(*storage_, place / "manifest.tmp", manifest_text);
        storage_->rename(place / "manifest.tmp", place / kManifestName);
        storage_->sync_directory(place);
        read_manifest(*storage_, place);
        const auto names = storage_->list(directory_);
        if (std::find(names.begin(), names.end(), name) != names.end()) {
            if (is_whole(name)) {
                remove_for_good(*storage_, place);
                return read_whole(*storage_, directory_ / name / kManifestName,
                                  kMaxManifestBytes) == manifest_text;
            }
            fs::path damaged = directory_ / (name + kDamagedSuffix);
            if (!remove_for_good(*storage_, damaged))
                damaged = directory_ / (name + '.' + random_hex(4) + kDamagedSuffix);
            storage_->rename(directory_ / name, damaged);
            remove_for_good(*storage_, damaged);
        }
        storage_->rename(place, directory_ / name);
        storage_->sync_directory(directory_);
        point_latest(name);
        return true;
    }

    void remove(const FarCheckpoint& checkpoint, const Deadline&) override {
        if (checkpoint.published)
            remove_checkpoint(*storage_, directory_, checkpoint.name);
        else
            remove_for_good(*storage_, unfinished(checkpoint.name));
    }

private:
    bool is_whole(const std::string& name) {
        try {
            read_manifest(*storage_, directory_ / name);
            return true;
        } catch (const SystemError& error) {
            if (error.error_number() == ENOENT)
                return false;
            throw;
        } catch (const Error& error) {
            if (error.code() == ErrorCode::corrupt)
                return false;
            throw;
        }
    }

    // For people; a file system without links is no reason to fail.
    void point_latest(const std::string& name) {
        try {
            for (const Candidate& candidate : list_candidates(*storage_, directory_))
                if (candidate.name > name)
                    return;
            storage_->replace_link(directory_ / kLatestName, name);
        } catch (const Error&) {
        }
    }

    std::shared_ptr<Storage> storage_;
    fs::path directory_;
};

}  // namespace

std::unique_ptr<Tier> make_directory_tier(std::shared_ptr<Storage> storage, fs::path directory) {
    return std::make_unique<DirectoryTier>(std::move(storage), std::move(directory));
}

std::unique_ptr<Tier> make_tier(const std::string& place) {
    if (!s3::is_s3_url(place))
        return make_directory_tier(make_posix_storage(), place);
    const Environment environment = environment_of_process();
    return make_s3_tier(s3::locate(place, environment), s3::find_credential_source(environment));
}

}  // namespace autolaunch
