#include "staging/plan_staging.hpp"

#include "base/ask_in_time.hpp"
#include "base/file_system.hpp"
#include "report/units.hpp"
#include "spec/site_record.hpp"
#include "stage_cache/shared_cache.hpp"
#include "stage_cache/stage_cache.hpp"
#include "staging/item_source.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// The administrator's word, where there is one.
const SiteKey* site_word(const LaunchPlan& plan, std::string_view name) {
    if (!plan.spec.site)
        return nullptr;
    const auto& keys = plan.spec.site->keys;
    const auto found = std::find_if(keys.begin(), keys.end(), [name](const SiteKey& key) {
        return key.key == name && !key.value.empty();
    });
    return found == keys.end() ? nullptr : &*found;
}

/// What a job's own sections say of it is refused where they are read (Tighter::only_site); this is
/// behind that once more.
SharedChoice shared_choice(const LaunchPlan& plan) {
    const SiteKey* const folder = site_word(plan, kSharedCacheKey);
    const SiteKey* const owner = site_word(plan, kSharedOwnerKey);
    const auto is_sites = [&plan](const SiteKey* key) {
        return key != nullptr && key->file == plan.spec.site->file;
    };
    if (!is_sites(folder) || (owner != nullptr && !is_sites(owner)))
        return {};
    const std::string name = owner == nullptr ? "root" : owner->value;
    return {.folder = folder->value,
            .owner = name,
            .reason = fmt::format("{} of {}, what {} has put there", kSharedCacheKey, folder->file,
                                  name)};
}

std::string amount(const Tree& tree) {
    return fmt::format("{} in {} file{}", format_bytes(static_cast<std::uint64_t>(tree.bytes())),
                       tree.file_count(), tree.file_count() == 1 ? "" : "s");
}

/// "": it is not in there; else what to say of it.
std::string look_in_shared(const SharedChoice& shared, const std::string& key) {
    std::string note;
    try {
        if (SharedCache(shared_place(shared.folder, shared.owner)).find(key, note))
            return " · on this node already, in the site's shared cache";
    } catch (const Error& error) {
        note = error.what();
    }
    return note.empty() ? note : " · " + note;
}

std::string look_at(const StagedItem& item, const std::string& scratch,
                    const SharedChoice& shared) {
    try {
        ItemSource from({item.name, item.from, item.verify, item.unpack, item.streams},
                        environment_of_process(), nullptr);
        const SourceTree source = from.look();
        const std::string key = source_key(from.words(), source.tree);
        const std::string in_shared =
            shared.folder.empty() ? std::string() : look_in_shared(shared, key);
        if (in_shared.starts_with(" · on this node"))
            return amount(source.tree) + in_shared;
        std::error_code none;
        if (!fs::is_directory(stage_folder(scratch) / "stage", none))
            return amount(source.tree) + " · to be copied" + in_shared;
        StageCache cache(scratch, 0);
        std::string note;
        const bool is_here = cache.find(key, note).has_value();
        return amount(source.tree) + (is_here ? " · on this node already" : " · to be copied") +
               in_shared;
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

void plan_staging(LaunchPlan& plan) {
    const StorageSpec& storage = plan.spec.storage;
    if (storage.stage_in.empty() && storage.stage_out.empty())
        return;
    StagingChoice& staging = plan.staging;
    staging = {};
    if (storage.scratch != "auto") {
        staging.scratch = fs::path(plan.workdir) / storage.scratch;
        staging.reason = "storage.scratch";
    } else if (const SiteKey* site = site_word(plan, "storage_management.scratch_space")) {
        staging.scratch = site->value;
        staging.reason = fmt::format("storage_management.scratch_space of {}", site->file);
    } else {
        staging.scratch = kDefaultScratch;
        staging.reason = "storage.scratch: auto";
    }
    if (!storage.stage_in.empty())
        staging.shared = shared_choice(plan);
    staging.shared.fills = storage.fills_shared && !staging.shared.folder.empty();
    for (const StageInSpec& item : storage.stage_in) {
        const std::string from =
            is_remote(item.from) ? item.from : (fs::path(plan.workdir) / item.from).string();
        staging.items.push_back({.name = item.name,
                                 .variable = data_variable(item.name),
                                 .from = from,
                                 .shown = shown_source(from),
                                 .verify = item.verify,
                                 .unpack = item.unpack,
                                 .streams = item.streams});
    }
}

void look_at_staging(LaunchPlan& plan, std::chrono::milliseconds patience) {
    const Deadline deadline = Deadline::after(patience);
    const auto answers = ask_all_in_time(
        plan.staging.items,
        [&](const StagedItem& item) {
            return [item, scratch = plan.staging.scratch, shared = plan.staging.shared] {
                return look_at(item, scratch, shared);
            };
        },
        deadline);
    for (std::size_t i = 0; i < answers.size(); ++i) {
        StagedItem& item = plan.staging.items[i];
        item.found = answers[i].value_or(
            fmt::format("its {} does not answer within {} s",
                        is_remote(item.from) ? "server" : "file system", patience.count() / 1000));
    }
}

}  // namespace autolaunch::launcher
