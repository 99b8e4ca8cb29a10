#include "staging/plan_staging.hpp"

#include "base/ask_in_time.hpp"
#include "base/file_system.hpp"
#include "report/units.hpp"
#include "spec/site_record.hpp"
#include "stage_cache/stage_cache.hpp"
#include "staging/item_source.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// The administrator's word, where there is one.
const SiteKey* site_scratch(const LaunchPlan& plan) {
    if (!plan.spec.site)
        return nullptr;
    const auto& keys = plan.spec.site->keys;
    const auto found = std::find_if(keys.begin(), keys.end(), [](const SiteKey& key) {
        return key.key == "storage_management.scratch_space" && !key.value.empty();
    });
    return found == keys.end() ? nullptr : &*found;
}

std::string amount(const Tree& tree) {
    return fmt::format("{} in {} file{}", format_bytes(static_cast<std::uint64_t>(tree.bytes())),
                       tree.file_count(), tree.file_count() == 1 ? "" : "s");
}

std::string look_at(const StagedItem& item, const std::string& scratch) {
    try {
        ItemSource from({item.name, item.from, item.verify, item.unpack, item.streams},
                        environment_of_process(), nullptr);
        const SourceTree source = from.look();
        std::error_code none;
        if (!fs::is_directory(stage_folder(scratch) / "stage", none))
            return amount(source.tree) + " · to be copied";
        StageCache cache(scratch, 0);
        std::string note;
        const bool is_here = cache.find(source_key(from.words(), source.tree), note).has_value();
        return amount(source.tree) + (is_here ? " · on this node already" : " · to be copied");
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
    } else if (const SiteKey* site = site_scratch(plan)) {
        staging.scratch = site->value;
        staging.reason = fmt::format("storage_management.scratch_space of {}", site->file);
    } else {
        staging.scratch = kDefaultScratch;
        staging.reason = "storage.scratch: auto";
    }
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
    for (StagedItem& item : plan.staging.items) {
        const auto found = ask_in_time(
            [item, scratch = plan.staging.scratch] { return look_at(item, scratch); }, deadline);
        item.found = found.value_or(fmt::format("its {} does not answer within {} s",
                                                is_remote(item.from) ? "server" : "file system",
                                                patience.count() / 1000));
    }
}

}  // namespace autolaunch::launcher
