#include "python_start/preload_record.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>

namespace autolaunch::launcher {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kFormat = 1, kDeepest = 4;
constexpr std::size_t kMostBytes = 16U << 20;
constexpr const char* kInRunDirectory = "preload.json";
constexpr mode_t kOwn = 0600;

/// As the program names itself, wherever it was started. What a list of modules reads is the same
/// for all programs.
std::string program_of(const PreloadChoice& choice) {
    if (choice.listed) {
        std::string list = "any that preloads";
        for (const PreloadedImport& import : choice.imports)
            list += ' ' + import.statement + ';';
        return list;
    }
    std::error_code ignored;
    const fs::path workdir = fs::weakly_canonical(choice.workdir, ignored);
    if (choice.script == "-m")
        return fmt::format("-m {} in {}", choice.module, workdir.string());
    return fs::weakly_canonical(workdir / choice.script, ignored).string();
}

/// Which file an interpreter is: a venv's by its place, and what it leads to.
std::string identity_of(const std::string& interpreter) {
    struct stat facts {};
    if (::stat(interpreter.c_str(), &facts) != 0)
        return {};
    std::error_code ignored;
    return fmt::format("{} {} {}.{}", fs::canonical(interpreter, ignored).string(), facts.st_size,
                       facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

std::string name_of(const PreloadChoice& choice) {
    const std::string text = choice.interpreter + '\n' + program_of(choice);
    return hex128(hash128(text.data(), text.size())) + ".json";
}

std::string digest_of(const std::string& file) {
    const std::string text = read_file(file);
    return hex128(hash128(text.data(), text.size()));
}

Json as_json(const PreloadChoice& choice, const PreloadWalk& walk) {
    Json json = {{"format", kFormat},
                 {"program", program_of(choice)},
                 {"interpreter", choice.interpreter},
                 {"interpreter_file", identity_of(choice.interpreter)},
                 {"imports", Json::array()},
                 {"end", walk.end},
                 {"trouble", walk.trouble},
                 {"files", Json::array()}};
    for (const PreloadedImport& import : walk.imports)
        json["imports"].push_back(
            {{"file", import.file}, {"line", import.line}, {"statement", import.statement}});
    for (const std::string& file : walk.files)
        json["files"].push_back({{"file", file}, {"xxh3_128", digest_of(file)}});
    json["reads"] = Json::array();
    for (const FilePart& part : walk.reads)
        json["reads"].push_back({part.file, part.offset, part.bytes});
    return json;
}

PreloadWalk from_json(const Json& json) {
    PreloadWalk walk;
    walk.end = json.at("end").get<std::string>();
    walk.trouble = json.at("trouble").get<std::string>();
    for (const Json& import : json.at("imports"))
        walk.imports.push_back({.line = whole_number<int>(import.at("line")),
                                .statement = import.at("statement").get<std::string>(),
                                .file = import.at("file").get<std::string>()});
    for (const Json& file : json.at("files"))
        walk.files.push_back(file.at("file").get<std::string>());
    for (const Json& part : json.at("reads"))
        walk.reads.push_back({part.at(0).get<std::string>(), whole_number<long long>(part.at(1)),
                              whole_number<long long>(part.at(2))});
    return walk;
}

std::string what_changed(const Json& json, const PreloadChoice& choice) {
    if (json.at("format") != kFormat ||
        json.at("interpreter_file") != identity_of(choice.interpreter))
        return choice.interpreter;
    for (const Json& file : json.at("files")) {
        const std::string path = file.at("file").get<std::string>();
        if (::access(path.c_str(), R_OK) != 0 || digest_of(path) != file.at("xxh3_128"))
            return path;
    }
    return {};
}

}  // namespace

PreloadWalk parse_walk(const std::string& lines) {
    PreloadWalk walk;
    for (const std::string& line : split(lines, '\n')) {
        const auto space = line.find(' ');
        const std::string word = line.substr(0, space);
        const std::string rest =
            space == std::string::npos ? std::string() : line.substr(space + 1);
        if (word == "end")
            walk.end = rest;
        else if (word == "file")
            walk.files.push_back(rest);
        const auto parts = split(rest, '\t');
        if (word == "copies" && parts.size() == 2) {
            walk.copies = std::atoi(parts[0].c_str());
            walk.copies_missing = parts[1];
        }
        if (word == "import" && parts.size() == 3)
            walk.imports.push_back({std::atoi(parts[0].c_str()), parts[2], parts[1]});
        else if (word == "read" && parts.size() == 3)
            walk.reads.push_back(
                {parts[2], std::atoll(parts[0].c_str()), std::atoll(parts[1].c_str())});
    }
    return walk;
}

std::string preload_records_folder(const EnvironmentMap& environment) {
    const auto value = [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
    };
    if (const std::string state = value("XDG_STATE_HOME"); state.starts_with('/'))
        return state + "/autolaunch/preload";
    const std::string home = value("HOME");
    return home.starts_with('/') ? home + "/.local/state/autolaunch/preload" : std::string();
}

void keep_preload_record(const LaunchPlan& plan, const PreloadWalk& walk) {
    const std::string text = as_json(plan.preload, walk).dump(2) + '\n';
    if (plan.node_rank == 0)
        OwnedFolder::open(plan.run_dir).replace(kInRunDirectory, text);
    if (!plan.preload.records.empty())
        OwnedFolder::make(plan.preload.records).replace(name_of(plan.preload), text, kOwn);
}

std::optional<PreloadWalk> find_preload_record(const PreloadChoice& choice, std::string& why_not) {
    if (choice.records.empty() || ::access(choice.records.c_str(), F_OK) != 0)
        return std::nullopt;
    try {
        const auto text = OwnedFolder::open(choice.records).read(name_of(choice), kMostBytes);
        if (!text)
            return std::nullopt;
        if (!nests_at_most(*text, kDeepest))
            throw Error(ErrorCode::corrupt,
                        choice.records + ": " + name_of(choice) + " is no record");
        const Json json = Json::parse(*text);
        const std::string changed = what_changed(json, choice);
        if (changed.empty())
            return from_json(json);
        why_not = changed + " has changed since its last run";
    } catch (const Error& error) {
        why_not = error.what();
    } catch (const Json::exception& error) {
        why_not = fmt::format("the record in {} is none: {}", choice.records, error.what());
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
