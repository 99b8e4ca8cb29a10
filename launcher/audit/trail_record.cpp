#include "audit/trail_record.hpp"

#include "base/file_system.hpp"
#include "base/json_nesting.hpp"
#include "base/read_at_most.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <optional>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongest = std::size_t{64} << 10;
constexpr int kRecordDeepest = 4;
constexpr std::string_view kStart = "audit.", kEnd = "json";

std::string name_of_node(int node) {
    return node == 0 ? "audit.json" : "audit.node-" + std::to_string(node) + ".json";
}

struct Record {
    std::string name;
    Json json;
};

std::vector<Record> records_of(const fs::path& run_dir) {
    std::vector<Record> found;
    std::error_code error;
    for (const fs::path& file : list_folder(run_dir, error, kStart)) {
        if (!file.filename().string().ends_with(kEnd))
            continue;
        try {
            const std::string text = read_at_most(file, kLongest);
            Json json =
                nests_at_most(text, kRecordDeepest) ? Json::parse(text, nullptr, false) : Json();
            if (json.is_object() && json.contains("file") && json.at("file").is_string())
                found.push_back({file.filename().string(), std::move(json)});
        } catch (const Error&) {  // of a trail that is elsewhere, too
        }
    }
    return found;
}

}  // namespace

void keep_trail_record(const OwnedFolder& run_dir, int node, const fs::path& trail,
                       const AuditHead& head, const std::string& job) {
    run_dir.replace(name_of_node(node), Json{{"format", 1},
                                             {"file", trail.string()},
                                             {"job", job},
                                             {"chain", head.chain},
                                             {"seq", head.seq},
                                             {"sha256", head.digest}}
                                                .dump(2) +
                                            '\n');
}

std::vector<fs::path> trails_of_run(const fs::path& run_dir) {
    std::vector<fs::path> files;
    for (const Record& record : records_of(run_dir))
        files.emplace_back(record.json.at("file").get<std::string>());
    return files;
}

Json other_heads(const fs::path& run_dir, int node) {
    Json heads = Json::array();
    for (const Record& record : records_of(run_dir)) {
        if (record.name == name_of_node(node))
            continue;
        Json head = {{"record", record.name}};
        for (const char* key : {"chain", "seq", "sha256"})
            if (record.json.contains(key) && record.json.at(key).is_primitive())
                head[key] = record.json.at(key);
        heads.push_back(std::move(head));
    }
    return heads;
}

}  // namespace autolaunch::launcher
