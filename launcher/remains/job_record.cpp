#include "remains/job_record.hpp"

#include "base/file_io.hpp"
#include "base/json_nesting.hpp"
#include "base/unique_fd.hpp"
#include "base/whole_number.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <array>
#include <exception>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostRecordBytes = 16384;

}  // namespace

void write_job_record(const std::filesystem::path& folder, const JobRecord& record) noexcept try {
    const nlohmann::ordered_json json = {{"run_id", record.run_id},
                                         {"run_dir", record.run_dir},
                                         {"node", record.node},
                                         {"node_rank", record.node_rank}};
    const UniqueFd file =
        open_file(folder / kRecordName, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    write_all(file.get(),
              json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n',
              kRecordName);
} catch (const std::exception&) {
}

std::optional<JobRecord> read_job_record(int folder) try {
    const UniqueFd file(
        ::openat(folder, kRecordName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat facts {};
    std::array<char, kMostRecordBytes> text;
    if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_uid != ::geteuid())
        return std::nullopt;
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    if (got <= 0)
        return std::nullopt;
    const std::string_view whole(text.data(), static_cast<std::size_t>(got));
    if (!nests_at_most(whole, 1))
        return std::nullopt;
    const auto json = nlohmann::json::parse(whole);
    return JobRecord{json.at("run_id").get<std::string>(), json.at("run_dir").get<std::string>(),
                     json.at("node").get<std::string>(), whole_number<int>(json.at("node_rank"))};
} catch (const nlohmann::json::exception&) {
    return std::nullopt;
}

}  // namespace autolaunch::launcher
