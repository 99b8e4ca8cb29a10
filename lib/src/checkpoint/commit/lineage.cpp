#include "checkpoint/commit/lineage.hpp"

#include "base/hash.hpp"
#include "base/hostname.hpp"
#include "base/json_nesting.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "base/user_database.hpp"
#include "base/whole_number.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "session/environment.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongest = std::size_t{64} << 10;
constexpr std::size_t kLargestProgram = std::size_t{256} << 20;
constexpr std::size_t kLargestConfig = std::size_t{16} << 20;
constexpr int kDeepest = 12;
constexpr std::size_t kMostGenerations = 3;  // of a lineage within a lineage

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// What is executed; of an interpreter the first of its arguments that is a file: the script.
fs::path program_of_process() {
    std::error_code error;
    const fs::path executable = fs::read_symlink("/proc/self/exe", error);
    const std::string name = executable.filename().string();
    if (!name.starts_with("python"))
        return executable;
    std::string line;
    try {
        line = read_at_most("/proc/self/cmdline", kLongest);
    } catch (const Error&) {
        return executable;
    }
    const auto words = split(line, '\0');
    for (std::size_t i = 1; i < words.size(); ++i)
        if (!words[i].empty() && words[i].front() != '-' && fs::is_regular_file(words[i], error))
            return fs::absolute(words[i], error);
    return executable;
}

std::string digest_of_file(const fs::path& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        static_cast<std::size_t>(facts.st_size) > kLargestProgram)
        return {};
    try {
        return sha256_text(read_at_most(path, kLargestProgram));
    } catch (const Error&) {
        return {};
    }
}

// What the spec says of data: its section dataloader, as the trainer gets it.
std::string digest_of_data() {
    const std::string file = variable(env::kTrainerConfig);
    if (file.empty())
        return {};
    try {
        const std::string text = read_at_most(file, kLargestConfig);
        const Json config = nests_at_most(text, 64) ? Json::parse(text, nullptr, false) : Json();
        if (config.is_object() && config.contains("dataloader"))
            return sha256_text(config.at("dataloader").dump());
    } catch (const Error&) {
    }
    return {};
}

void set_if_any(Json& json, const char* key, const std::string& value) {
    if (!value.empty())
        json[key] = value;
}

Json facts_of_process() {
    Json json = {{"user", own_user_record().name}, {"uid", ::geteuid()}, {"host", hostname()}};
    set_if_any(json, "job", variable(env::kRunId));
    set_if_any(json, "spec_digest", variable(env::kSpecDigest));
    const fs::path program = program_of_process();
    set_if_any(json, "program", program.string());
    if (!variable(env::kRunId).empty())  // reading it takes time
        set_if_any(json, "program_sha256", digest_of_file(program));
    set_if_any(json, "data_sha256", digest_of_data());
    return json;
}

Json parsed(std::string_view text) {
    if (text.size() > kLongest || !nests_at_most(text, kDeepest))
        return {};
    return Json::parse(text, nullptr, false);
}

// Of what was made of what was made …: some generations are enough, and a manifest stays small.
Json shortened(Json lineage, std::size_t generations) {
    if (!lineage.is_object())
        return nullptr;
    const auto parent = lineage.find("parent");
    if (parent == lineage.end() || !parent->is_object() || !parent->contains("lineage"))
        return lineage;
    if (generations == 0)
        parent->erase("lineage");
    else
        (*parent)["lineage"] = shortened((*parent)["lineage"], generations - 1);
    return lineage;
}

std::string text_in(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string sha256_text(std::string_view bytes) {
    try {
        return hex(crypto::sha256(crypto::bytes_of(bytes)));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported)
            throw;
        return {};
    }
}

std::string lineage_text(const std::string& made_by, const std::optional<LineageParent>& parent,
                         const std::string& signed_by, const std::string& source) {
    static const Json kFacts = facts_of_process();
    Json json = kFacts;
    json["made_by"] = made_by;
    set_if_any(json, "signed_by", signed_by);
    if (!source.empty()) {
        json["source"] = source;
        set_if_any(json, "source_sha256", digest_of_file(source));
    }
    if (parent) {
        json["parent"] = {{"step", parent->step}};
        set_if_any(json["parent"], "manifest_sha256", parent->manifest_sha256);
        set_if_any(json["parent"], "path", parent->path);
        if (const Json of_parent = shortened(parsed(parent->lineage), kMostGenerations);
            of_parent.is_object())
            json["parent"]["lineage"] = of_parent;
    }
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kLongest && parent && !parent->lineage.empty()) {
        LineageParent bare = *parent;
        bare.lineage.clear();
        return lineage_text(made_by, bare, signed_by, source);
    }
    return text;
}

std::string published_lineage(const LineageParent& parent) {
    Json json = {{"made_by", "export"}, {"parent", {{"step", parent.step}}}};
    set_if_any(json["parent"], "manifest_sha256", parent.manifest_sha256);
    return json.dump();
}

bool is_lineage(std::string_view text) { return parsed(text).is_object(); }

std::optional<LineageParent> parent_of_lineage(std::string_view lineage) {
    const Json json = parsed(lineage);
    const auto found = json.is_object() ? json.find("parent") : json.end();
    if (!json.is_object() || found == json.end() || !found->is_object() ||
        !found->contains("step"))
        return std::nullopt;
    const auto step = whole_number_if_any<std::int64_t>(found->at("step"));
    if (!step)
        return std::nullopt;
    LineageParent parent;
    parent.step = *step;
    parent.manifest_sha256 = text_in(*found, "manifest_sha256");
    parent.path = text_in(*found, "path");
    if (found->contains("lineage"))
        parent.lineage = found->at("lineage").dump();
    return parent;
}

std::string signer_of_lineage(std::string_view lineage) {
    const Json json = parsed(lineage);
    return json.is_object() ? text_in(json, "signed_by") : std::string();
}

}  // namespace autolaunch
