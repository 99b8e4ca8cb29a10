// How a drain copies one checkpoint, alone or with the other nodes' drains.
#include "base/hash.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/drain.hpp"
#include "checkpoint/drain/drain_errors.hpp"
#include "checkpoint/load/block_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

std::uint64_t bytes_of(const Manifest& manifest) {
    std::uint64_t bytes = 0;
    for (const Manifest::File& file : manifest.files)
        bytes += file.bytes;
    return bytes;
}

}  // namespace

std::string Drain::manifest_in(const DrainSource& source, std::int64_t step) {
    return read_whole(*source.storage, source.directory / checkpoint_name(step) / kManifestName,
                      kMaxManifestBytes);
}

// At half the limit it is in time still.
Deadline Drain::deadline_of(const Manifest& manifest) const {
    if (options_.bytes_per_second == 0)
        return Deadline::after(options_.copy_timeout);
    const double seconds = 2 * static_cast<double>(bytes_of(manifest)) /
                           static_cast<double>(options_.bytes_per_second);
    constexpr double kMost_s = 365.0 * 24 * 3600;
    return Deadline::after(options_.copy_timeout + std::chrono::seconds(static_cast<std::int64_t>(
                                                       std::min(seconds, kMost_s))));
}

// From the nearest source that has it whole. One that cannot be read may be whole all the same, so
// that is the reason which counts; then the damage.
void Drain::copy(std::int64_t step) {
    std::optional<UnreadableHere> unreadable;
    std::optional<DamagedHere> damaged;
    std::optional<GoneHere> gone;
    const std::vector<std::size_t> held = held_[step];
    for (const std::size_t i : held) {
        std::string why;
        try {
            return copy_from(sources_[i], step);
        } catch (const UnreadableHere& error) {
            why = error.what();
            unreadable.emplace(error);
        } catch (const DamagedHere& error) {
            why = error.what();
            damaged.emplace(error);
        } catch (const GoneHere& error) {
            gone.emplace(error);
        }
        if (!why.empty() && i != held.back())
            note("step " + std::to_string(step) + " is not drained from " +
                 sources_[i].directory.string() + ", but from the next place: " + why);
    }
    if (unreadable)
        throw UnreadableHere(*unreadable);
    if (damaged)
        throw DamagedHere(*damaged);
    if (gone)
        throw GoneHere(*gone);
}

void Drain::copy_from(const DrainSource& source, std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    const std::string name = checkpoint_name(step);
    std::string text;
    const Manifest manifest = reading_here([&] {
        text = manifest_in(source, step);
        Manifest parsed = Manifest::parse(text);
        parsed.require_complete();
        return parsed;
    });
    const Deadline deadline = deadline_of(manifest);
    copied_bytes_ = 0;
    if (!std::exchange(has_begun_, true) && options_.before_first)
        options_.before_first();
    far_->prepare(name, deadline);
    if (!all_there(step, manifest, copy_with_crew(source, step, text, manifest, deadline)))
        return;
    const fs::path path = far_->directory() / name;
    if (!far_->publish(name, text, deadline)) {
        unreadable_.insert(step);
        note(path.string() + " is another checkpoint of that step, and stays");
        return;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (events_.drained)
        events_.drained({step, path, copied_bytes_, seconds.count(), bytes_of(manifest)});
}

// The files that are in the far tier now. The others' answers are waited for even where this node's
// copy failed, so that nobody writes when it is tried again.
std::set<std::string> Drain::copy_with_crew(const DrainSource& source, std::int64_t step,
                                            const std::string& text, const Manifest& manifest,
                                            const Deadline& deadline) {
    if (options_.crew)
        options_.crew->order({step, hash64(text.data(), text.size())});
    std::exception_ptr failure;
    std::set<std::string> put;
    try {
        const auto mine = copy_files(source, step, manifest, deadline);
        put.insert(mine.begin(), mine.end());
    } catch (const std::exception&) {
        failure = std::current_exception();
    }
    if (options_.crew)
        put.merge(options_.crew->collect(deadline, [this] { return stop_.load(); }));
    if (failure)
        std::rethrow_exception(failure);
    return put;
}

// Those that this node has.
std::vector<std::string> Drain::copy_files(const DrainSource& source, std::int64_t step,
                                           const Manifest& manifest, const Deadline& deadline) {
    const std::string name = checkpoint_name(step);
    const auto here =
        options_.crew ? source.storage->list(source.directory / name) : std::vector<std::string>();
    std::vector<const Manifest::File*> files;
    DrainProgress progress{step, 0, 0};
    for (const Manifest::File& file : manifest.files) {
        if (options_.crew && !std::binary_search(here.begin(), here.end(), file.name))
            continue;
        files.push_back(&file);
        progress.bytes_total += file.bytes;
    }
    set_progress(progress);
    const auto names = far_->storage().list(far_->unfinished(name));
    std::vector<std::string> there;
    for (const Manifest::File* file : files) {
        if (!is_there(name, names, *file))
            copy_file(name, source, *file, deadline);
        there.push_back(file->name);
        progress.bytes_done += file->bytes;
        set_progress(progress);
    }
    return there;
}

// What no node has may have been copied before its node was lost.
bool Drain::all_there(std::int64_t step, const Manifest& manifest,
                      const std::set<std::string>& put) {
    const std::string name = checkpoint_name(step);
    std::vector<std::string> names;
    for (const Manifest::File& file : manifest.files) {
        if (put.contains(file.name))
            continue;
        if (names.empty())
            names = far_->storage().list(far_->unfinished(name));
        if (is_there(name, names, file))
            continue;
        unreadable_.insert(step);
        note("step " + std::to_string(step) + " is not drained: no node has all of " + file.name);
        return false;
    }
    return true;
}

// In a crew, but not its first. What fails is the first one's to try again.
void Drain::follow() {
    try {
        while (!stop_) {
            const auto order = options_.crew->wait_order();
            if (order && order->end)
                break;
            if (order)
                obey(*order);
        }
    } catch (const std::exception& error) {
        if (!stop_)
            note(std::string("no more draining from this node: ") + error.what());
    }
    const std::lock_guard lock(mutex_);
    idle_ = true;
    changed_.notify_all();
}

void Drain::obey(const DrainCrew::Order& order) {
    const std::string step = "step " + std::to_string(order.step);
    copied_bytes_ = 0;
    set_progress({order.step, 0, 0});  // from here on it stays
    try {
        std::vector<std::string> files;
        try {
            const DrainSource& here = sources_.front();
            const std::string text = reading_here([&] { return manifest_in(here, order.step); });
            if (hash64(text.data(), text.size()) == order.manifest_hash) {
                const Manifest manifest = reading_here([&] { return Manifest::parse(text); });
                files = copy_files(here, order.step, manifest, deadline_of(manifest));
            }
        } catch (const DamagedHere& error) {
            note(step + " is damaged on this node: " + error.what());
        } catch (const SystemError& error) {
            if (error.error_number() != ENOENT)
                throw;  // deleted here: this node has nothing of it
        }
        options_.crew->answer(files);
    } catch (const std::exception& error) {
        options_.crew->answer_failure(error.what());
    }
    set_progress({});
}

// From an attempt before, which may have been of another checkpoint of this step.
bool Drain::is_there(const std::string& name, const std::vector<std::string>& names,
                     const Manifest::File& file) {
    if (std::find(names.begin(), names.end(), file.name) == names.end())
        return false;
    try {
        BlockReader(far_->storage(), far_->unfinished(name), file)
            .read_all([this](auto, const auto& content) { let_pass(content.size()); });
        return true;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::corrupt)
            return false;
        throw;
    }
}

void Drain::let_pass(std::uint64_t bytes) {
    if (!stop_)
        limit_.take(bytes, [this] { return stop_.load(); });
    if (stop_)
        throw AbortedError("the drain was stopped");
}

void Drain::copy_file(const std::string& name, const DrainSource& source,
                      const Manifest::File& file, const Deadline& deadline) {
    const auto reader = reading_here([&] {
        return std::make_unique<BlockReader>(*source.storage, source.directory / name, file);
    });
    const auto read = [&](std::uint64_t offset, std::span<std::byte> bytes) {
        if (stop_)
            throw AbortedError("the drain was stopped");
        if (offset % Manifest::kBlockBytes != 0 ||
            (bytes.size() % Manifest::kBlockBytes != 0 && offset + bytes.size() != file.bytes))
            throw Error(ErrorCode::invalid_argument, "a tier asked for a part of a block");
        std::vector<std::size_t> blocks;
        for (std::uint64_t at = offset; at < offset + bytes.size(); at += Manifest::kBlockBytes)
            blocks.push_back(at / Manifest::kBlockBytes);
        reading_here([&] {
            reader->read(blocks, [&](std::size_t index, std::span<const std::byte> content) {
                std::memcpy(bytes.data() + (index * Manifest::kBlockBytes - offset), content.data(),
                            content.size());
            });
        });
        const std::lock_guard lock(mutex_);
        progress_.bytes_done += bytes.size();
    };
    const auto pass = [&](std::uint64_t bytes) {
        let_pass(bytes);
        copied_bytes_ += bytes;
    };
    far_->put(name, file, read, pass, deadline);
}

}  // namespace autolaunch
