#include "spec/stage_out_words.hpp"

#include "base/path_within.hpp"
#include "base/text.hpp"
#include "base/url.hpp"
#include "spec/mapping_reader.hpp"
#include "spec/storage_words.hpp"

#include <algorithm>
#include <filesystem>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostOut = 64;
const std::vector<std::string> kOutKeys = {"from", "to", "when", "layout", "overwrite"};

/// Empty: it is a path, or an address that files can go to.
std::string why_no_out_address(const std::string& text) {
    if (!is_url(text))
        return {};
    if (scheme_of(text) != "s3")
        return "is no place that files can go to: name a folder, or s3://bucket/prefix/";
    const std::string rest = text.substr(text.find("://") + 3);
    const auto names = split(rest.ends_with('/') ? rest.substr(0, rest.size() - 1) : rest, '/');
    if (names.empty() || names.front().empty())
        return "names no bucket: write s3://bucket/prefix/";
    if (std::any_of(names.begin(), names.end(), [](const std::string& name) {
            return name.empty() || name == "." || name == "..";
        }))
        return "has an empty name, . or .. in it, which no object below it could be told by";
    return {};
}

/// A place is written one way: folders of buckets with a slash at the end.
std::string written_target(const std::string& text) {
    if (is_url(text))
        return text.ends_with('/') ? text : text + '/';
    const std::string path = fs::path(text).lexically_normal().string();
    return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

class OutReader : MappingReader {
public:
    OutReader(std::string path, std::vector<SpecError>& errors)
        : MappingReader(std::move(path), errors) {}

    bool read(const Value& value, StageOutSpec& item) {
        if (!value.is_mapping()) {
            complain(value.at, path_,
                     "expected {from: NAME, to: /shared/results}; found " + describe(value));
            return false;
        }
        for (const Entry& entry : value.entries)
            read_key(entry, item);
        for (const char* needed : {"from", "to"})
            if (value.find(needed) == nullptr)
                complain(value.at, path_,
                         std::string("says not ") + needed + ": " +
                             (needed[0] == 'f' ? "a name for ranks to find the folder by"
                                               : "where it goes when the job ends"));
        return good_;
    }

private:
    void read_key(const Entry& entry, StageOutSpec& item) {
        const std::string& text = entry.value.text;
        if (entry.key == "from") {
            if (!entry.value.is_scalar() || !is_data_name(text))
                return expected(entry,
                                "a name of letters, digits and _, up to 64: ranks write to the "
                                "folder in AUTOLAUNCH_OUT_NAME");
            item.name = text;
        } else if (entry.key == "to") {
            if (!is_text(entry.value))
                return expected(entry, "a folder, or s3://bucket/prefix/");
            item.to = written_target(text);
            if (const std::string why = why_no_out_address(text); !why.empty())
                complain(entry.value.at, path_ + ".to", shown_url(text) + " " + why);
        } else if (entry.key == "when") {
            if (text != "always" && text != "success")
                return expected(entry, "always, or success (of all ranks)");
            item.on_success = text == "success";
        } else if (entry.key == "layout") {
            if (text != "flat" && text != "node")
                return expected(entry,
                                "flat (the files of all nodes side by side), or node (a folder a "
                                "node)");
            item.by_node = text == "node";
        } else if (entry.key == "overwrite") {
            if (text != "true" && text != "false")
                return expected(entry, "true or false");
            item.may_overwrite = text == "true";
        } else {
            unknown(entry, kOutKeys);
        }
    }
};

}  // namespace

bool read_stage_out(const Value& value, const std::string& path, std::vector<StageOutSpec>& items,
                    std::vector<SpecError>& errors) {
    if (!value.is_sequence())
        return false;
    items.clear();
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        const std::string its = path + '[' + std::to_string(i) + ']';
        StageOutSpec item;
        if (!OutReader(its, errors).read(value.items[i], item))
            continue;
        for (const StageOutSpec& other : items) {
            if (out_variable(other.name) == out_variable(item.name))
                errors.push_back(error_at(value.items[i].at, its + ".from",
                                          "\"" + item.name + "\" is the name of what goes to " +
                                              other.to + " already: give this one another name"));
            if (other.to == item.to)
                errors.push_back(error_at(value.items[i].at, its + ".to",
                                          item.to + " is where " + other.name +
                                              " goes already: name a folder of its own"));
        }
        items.push_back(std::move(item));
    }
    if (items.size() > kMostOut)
        errors.push_back(
            error_at(value.at, path, "has more than " + std::to_string(kMostOut) + " entries"));
    return true;
}

std::string why_no_target(const std::string& to, const std::string& scratch) {
    if (is_url(to))
        return {};
    const fs::path target = fs::path(to).lexically_normal();
    const fs::path folder = fs::path(scratch).lexically_normal();
    if (lies_within(target, folder))
        return to + " is in storage.scratch (" + scratch +
               "), on the node's own disk: name a folder that outlives the job";
    return {};
}

void check_storage(const Value& root, const StorageSpec& storage, std::vector<SpecError>& errors) {
    const Entry* const section = root.find("storage");
    if (section == nullptr || !section->value.is_mapping())
        return;
    const Entry* const scratch = section->value.find("scratch");
    if (scratch != nullptr && !scratch->value.is_null() && storage.scratch.empty())
        errors.push_back(error_at(scratch->value.at, "storage.scratch",
                                  "is empty: name a folder on the node's own disk, or auto"));
    const Entry* const kept = section->value.find("stage_out_time");
    if (kept != nullptr && storage.stage_out_time.count() > 0 && storage.stage_out.empty())
        errors.push_back(error_at(kept->value.at, "storage.stage_out_time",
                                  "is for storage.stage_out, which names nothing: name what is to "
                                  "be copied, or leave this out"));
    const Entry* const list = section->value.find("stage_out");
    if (storage.scratch == "auto" || list == nullptr || !list->value.is_sequence())
        return;
    for (std::size_t i = 0; i < list->value.items.size(); ++i) {
        const Value& item = list->value.items[i];
        const Entry* const to = item.is_mapping() ? item.find("to") : nullptr;
        if (to == nullptr || !to->value.is_scalar())
            continue;
        if (const std::string why = why_no_target(to->value.text, storage.scratch); !why.empty())
            errors.push_back(
                error_at(to->value.at, "storage.stage_out[" + std::to_string(i) + "].to", why));
    }
}

}  // namespace autolaunch::launcher
