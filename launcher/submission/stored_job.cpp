#include "submission/stored_job.hpp"

#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/owned_folder.hpp"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

std::string file_name(std::string name) {
    constexpr std::size_t kLongest = 60;
    std::replace_if(
        name.begin(), name.end(),
        [](char c) {
            const auto byte = static_cast<unsigned char>(c);
            return byte >= 0x80 || (std::isalnum(byte) == 0 && c != '-' && c != '_');
        },
        '-');
    return name.substr(0, kLongest);
}

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    return text;
}

}  // namespace

std::filesystem::path folder_of_submission(const std::string& runs, const std::string& job_name) {
    return absolute_path(runs).lexically_normal() / ".submitted" /
           (file_name(job_name) + '-' + now_text() + '-' + random_hex(2));
}

StoredJob::StoredJob(std::filesystem::path folder, const std::string& spec,
                     const std::string& script)
    : folder_(std::move(folder)) {
    const OwnedFolder files = OwnedFolder::make(folder_);
    files.replace(kStoredSpec, spec);
    files.replace(kStoredScript, script);
}

void StoredJob::add(const std::string& name, const std::string& text) const {
    OwnedFolder::open(folder_).replace(name, text);
}

void StoredJob::record(const nlohmann::ordered_json& record) const {
    OwnedFolder::open(folder_).replace(
        kStoredRecord,
        record.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

void StoredJob::remove() const {
    std::error_code ignored;  // what stays is in nobody's way
    std::filesystem::remove_all(folder_, ignored);
}

}  // namespace autolaunch::launcher
