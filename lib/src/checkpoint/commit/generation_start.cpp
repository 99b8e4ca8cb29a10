#include "checkpoint/commit/generation_start.hpp"

#include "base/hash.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/storage/stale.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>

namespace autolaunch {

namespace {

constexpr std::string_view kStartPrefix = "start-", kStartEnd = ".json";
constexpr std::uint64_t kMaxStartBytes = 1 << 16;

std::int64_t steps_found(const GenerationStart& start) { return start.step.value_or(-1); }

}  // namespace

std::string GenerationStart::file_name() const {
    return std::string(kStartPrefix) + hex64(hash64(by.run_id.data(), by.run_id.size())) + '-' +
           std::to_string(by.generation) + std::string(kStartEnd);
}

std::string GenerationStart::to_text() const {
    nlohmann::json json = {
        {"format", "autolaunch-start"}, {"run_id", by.run_id}, {"generation", by.generation}};
    if (step)
        json["step"] = *step;
    return json_text(json) + "\n";
}

GenerationStart GenerationStart::parse(std::string_view text, const std::string& name) {
    const auto parsed = parse_strictly(text, name);
    const JsonReader reader(parsed, name);
    if (reader.field("format").text() != "autolaunch-start")
        reader.fail("is of another format");
    GenerationStart start;
    start.by.run_id = reader.field("run_id").text();
    start.by.generation = reader.field("generation").count();
    if (reader.raw().contains("step"))
        start.step = reader.field("step").count();
    return start;
}

const GenerationStart* fenced_by(std::span<const GenerationStart> starts,
                                 const Published& checkpoint) {
    for (const GenerationStart& start : starts)
        if (!checkpoint.by.run_id.empty() && start.by.run_id == checkpoint.by.run_id &&
            start.by.generation > checkpoint.by.generation && steps_found(start) < checkpoint.step)
            return &start;
    return nullptr;
}

std::vector<GenerationStart> needed(std::vector<GenerationStart> starts) {
    std::sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) {
        return a.by.run_id != b.by.run_id ? a.by.run_id < b.by.run_id
                                          : a.by.generation > b.by.generation;
    });
    std::vector<GenerationStart> kept;
    for (GenerationStart& start : starts)
        if (kept.empty() || kept.back().by.run_id != start.by.run_id ||
            steps_found(start) < steps_found(kept.back()))
            kept.push_back(std::move(start));
    return kept;
}

std::vector<GenerationStart> read_starts(Storage& storage, const std::filesystem::path& directory,
                                         std::span<const std::string> names) {
    std::vector<GenerationStart> starts;
    for (const std::string& name : names) {
        if (!name.starts_with(kStartPrefix) || !name.ends_with(kStartEnd))
            continue;
        const std::string path = (directory / name).string();
        try {
            starts.push_back(GenerationStart::parse(
                again_if_stale([&] { return read_whole(storage, path, kMaxStartBytes); }), path));
        } catch (const SystemError& error) {
            if (error.error_number() != ENOENT)  // a later generation did not need it any more
                throw;
        } catch (const Error& error) {
            throw Error(error.code(), error.what(),
                        "it tells checkpoints that an earlier generation published late from those "
                        "that count; remove it if no earlier generation's rank can be alive");
        }
    }
    return starts;
}

void write_start(Storage& storage, const std::filesystem::path& directory,
                 const GenerationStart& start) {
    const std::string name = start.file_name();
    const auto names = storage.list(directory);
    if (names.empty() || std::binary_search(names.begin(), names.end(), name))
        return;
    const auto temporary = directory / (name + '.' + random_hex(4));
    write_whole(storage, temporary, start.to_text());
    storage.rename(temporary, directory / name);
    storage.sync_directory(directory);
    auto starts = read_starts(storage, directory, names);
    std::erase_if(starts, [&](const auto& one) { return one.by.run_id != start.by.run_id; });
    const std::vector<GenerationStart> all = starts;
    starts.push_back(start);
    const auto kept = needed(std::move(starts));
    for (const GenerationStart& one : all)
        if (std::none_of(kept.begin(), kept.end(), [&](const auto& other) {
                return other.by.generation == one.by.generation;
            }))
            storage.remove_all(directory / one.file_name());
}

void remove_starts_but(Storage& storage, const std::filesystem::path& directory,
                       const std::string& run_id) {
    for (const GenerationStart& start : read_starts(storage, directory, storage.list(directory)))
        if (start.by.run_id != run_id)
            storage.remove_all(directory / start.file_name());
}

}  // namespace autolaunch
