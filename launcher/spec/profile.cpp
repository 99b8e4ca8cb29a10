#include "spec/profile.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "spec/yaml_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace autolaunch::launcher {
namespace {

using Errors = std::vector<SpecError>;

constexpr const char* kExtension = ".yaml";
const std::vector<std::string> kKeys = {"description", "match",          "set",  "set_with_roce",
                                        "leave",       "topology_files", "notes"};
const std::vector<std::string> kFacts = {"sys_vendor", "product_name", "chassis_asset_tag",
                                         "fabric"};
const std::vector<std::string> kVariablesBegin = {"NCCL_", "RCCL_", "OFI_NCCL_", "FI_"};

std::string read_text(const Value& value, const std::string& key, Errors& errors) {
    if (value.is_scalar() && !value.text.empty())
        return value.text;
    errors.push_back(error_at(value.at, key, "expected text; found " + describe(value)));
    return {};
}

std::vector<std::string> read_texts(const Value& value, const std::string& key, Errors& errors) {
    std::vector<std::string> texts;
    if (!value.is_sequence())
        errors.push_back(error_at(value.at, key, "expected a list; found " + describe(value)));
    for (const Value& item : value.items)
        texts.push_back(read_text(item, key, errors));
    return texts;
}

bool check_mapping(const Value& value, const std::string& key, Errors& errors) {
    if (value.is_mapping())
        return true;
    errors.push_back(error_at(value.at, key, "expected a mapping; found " + describe(value)));
    return false;
}

void refuse_unknown(const Value& value, const std::string& prefix,
                    const std::vector<std::string>& known, Errors& errors) {
    for (const Entry& entry : value.entries)
        if (std::find(known.begin(), known.end(), entry.key) == known.end())
            errors.push_back(error_at(entry.key_at, prefix + entry.key,
                                      "unknown key; there are " + join(known, ", ")));
}

std::string field(const Value& value, const std::string& path, const char* name, Errors& errors) {
    if (const Entry* entry = value.find(name))
        return read_text(entry->value, path + "." + name, errors);
    errors.push_back(error_at(value.at, path, std::string("lacks ") + name));
    return {};
}

std::vector<ProfileFile::Variable> read_variables(const Value& root, const char* section,
                                                  bool with_value, Errors& errors) {
    std::vector<ProfileFile::Variable> variables;
    const Entry* found = root.find(section);
    if (found == nullptr || !check_mapping(found->value, section, errors))
        return variables;
    for (const Entry& entry : found->value.entries) {
        const std::string path = std::string(section) + "." + entry.key;
        if (std::none_of(kVariablesBegin.begin(), kVariablesBegin.end(),
                         [&](const std::string& prefix) { return entry.key.starts_with(prefix); }))
            errors.push_back(error_at(entry.key_at, path,
                                      "no variable of NCCL or of libfabric below it: its name "
                                      "begins with " +
                                          join(kVariablesBegin, ", ")));
        if (!check_mapping(entry.value, path, errors))
            continue;
        ProfileFile::Variable variable;
        variable.name = entry.key;
        std::vector<std::string> known = {"reason", "source"};
        if (with_value) {
            known.insert(known.begin(), "value");
            variable.value = field(entry.value, path, "value", errors);
        }
        variable.reason = field(entry.value, path, "reason", errors);
        variable.source = field(entry.value, path, "source", errors);
        refuse_unknown(entry.value, path + ".", known, errors);
        variables.push_back(std::move(variable));
    }
    return variables;
}

void read_match(const Value& root, ProfileFile& profile, Errors& errors) {
    const Entry* found = root.find("match");
    if (found == nullptr || !check_mapping(found->value, "match", errors))
        return;
    refuse_unknown(found->value, "match.", kFacts, errors);
    for (const Entry& entry : found->value.entries)
        profile.match[entry.key] = read_text(entry.value, "match." + entry.key, errors);
}

void read_topology_files(const Value& root, ProfileFile& profile, Errors& errors) {
    const Entry* found = root.find("topology_files");
    if (found == nullptr || !check_mapping(found->value, "topology_files", errors))
        return;
    refuse_unknown(found->value, "topology_files.", {"paths", "reason", "source"}, errors);
    if (const Entry* paths = found->value.find("paths"))
        profile.topology_files.paths = read_texts(paths->value, "topology_files.paths", errors);
    profile.topology_files.reason = field(found->value, "topology_files", "reason", errors);
    profile.topology_files.source = field(found->value, "topology_files", "source", errors);
}

[[noreturn]] void refuse_profile(const std::string& path, const Errors& errors) {
    std::vector<std::string> lines;
    for (const SpecError& error : errors)
        lines.push_back(to_string(error));
    throw Error(ErrorCode::invalid_argument, join(lines, "\n"),
                "correct " + path + ", or name another nccl.profile");
}

}  // namespace

ProfileFile read_profile(const std::string& path) {
    Errors errors;
    Value root = read_yaml(read_regular_file(path, kMaxSpecBytes), path, errors);
    mark_secrets(root);
    ProfileFile profile;
    profile.name = std::filesystem::path(path).stem();
    profile.path = path;
    if (!root.is_null() && errors.empty() && check_mapping(root, "", errors)) {
        refuse_unknown(root, "", kKeys, errors);
        if (const Entry* entry = root.find("description"))
            profile.description = read_text(entry->value, entry->key, errors);
        read_match(root, profile, errors);
        profile.set = read_variables(root, "set", true, errors);
        profile.set_with_roce = read_variables(root, "set_with_roce", true, errors);
        profile.leave = read_variables(root, "leave", false, errors);
        read_topology_files(root, profile, errors);
        if (const Entry* entry = root.find("notes"))
            profile.notes = read_texts(entry->value, "notes", errors);
    }
    if (!errors.empty())
        refuse_profile(path, errors);
    return profile;
}

std::vector<std::string> profile_names(const std::string& folder) {
    std::vector<std::string> names;
    if (!path_exists(folder))
        return names;
    for (const auto& file : list_folder(folder))
        if (file.extension() == kExtension)
            names.push_back(file.stem());
    return names;
}

ProfileFile find_profile(const std::string& word, const std::string& folder) {
    const bool is_path = word.find('/') != std::string::npos;
    if (is_path && path_exists(word))
        return read_profile(word);
    const auto names = profile_names(folder);
    if (!is_path && std::find(names.begin(), names.end(), word) != names.end())
        return read_profile(folder + "/" + word + kExtension);
    const std::string there_are =
        (names.empty() ? "there are none in " + folder : "there are " + join(names, ", ")) +
        "; also auto, none, or the path of a file";
    if (is_path)
        throw SystemError(ENOENT, "read " + word, there_are);
    const std::string meant = nearest(word, names);
    throw Error(ErrorCode::invalid_argument, "nccl.profile: there is no profile " + word,
                (meant.empty() ? "" : "did you mean " + meant + "? ") + there_are);
}

}  // namespace autolaunch::launcher
