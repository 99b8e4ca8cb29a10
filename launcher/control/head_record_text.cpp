#include "control/head_record_text.hpp"

#include "base/json_nesting.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <limits>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr int kHeadVersion = 1, kDeepest = 4;
constexpr std::uint64_t kLongestMs = std::uint64_t{1} << 40;

// get<int>() takes 1.5 and 2^32 + 1 for 1.
std::uint16_t port_of(const Json& value, const std::string& file) {
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() > std::numeric_limits<std::uint16_t>::max())
        throw Error(ErrorCode::corrupt, file + " is damaged: one of its ports is none");
    return static_cast<std::uint16_t>(value.get<std::uint64_t>());
}

HeadRecord record_in(const Json& json, const std::string& file) {
    HeadRecord record;
    json.at("run_id").get_to(record.run_id);
    json.at("hostname").get_to(record.hostname);
    json.at("door").get_to(record.door);
    json.at("identity").get_to(record.identity);
    json.at("hosts").get_to(record.hosts);
    for (const Json& port : json.at("ports"))
        record.ports.push_back(port_of(port, file));
    json.at("shared_directory").get_to(record.shared_directory);
    json.at("secret_file").get_to(record.secret_file);
    const Json& lost_after = json.at("lost_after_ms");
    if (!lost_after.is_number_unsigned() || lost_after.get<std::uint64_t>() > kLongestMs)
        throw Error(ErrorCode::corrupt, file + " is damaged: lost_after_ms");
    record.lost_after = std::chrono::milliseconds(lost_after.get<std::int64_t>());
    return record;
}

}  // namespace

HeadRecord parse_head_record(std::string_view text, const std::string& file) {
    const Json json =
        nests_at_most(text, kDeepest) ? Json::parse(text, nullptr, false) : Json::object();
    if (json.is_discarded() || !json.is_object() || json.empty())
        throw Error(ErrorCode::corrupt, file + " is damaged");
    try {
        if (json.at("version") != kHeadVersion)
            throw Error(ErrorCode::mismatch, file + " is of another version of autolaunch");
        return record_in(json, file);
    } catch (const Json::exception& error) {
        throw Error(ErrorCode::corrupt, file + " is damaged: " + error.what());
    }
}

std::string to_json(const HeadRecord& record) {
    return Json{{"version", kHeadVersion},
                {"run_id", record.run_id},
                {"hostname", record.hostname},
                {"door", record.door},
                {"identity", record.identity},
                {"hosts", record.hosts},
                {"ports", record.ports},
                {"shared_directory", record.shared_directory},
                {"secret_file", record.secret_file},
                {"lost_after_ms", record.lost_after.count()}}
               .dump(2) +
           '\n';
}

}  // namespace autolaunch::launcher
