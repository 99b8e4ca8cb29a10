#include "quota/quota_inquiry.hpp"

#include "base/room_on_disk.hpp"
#include "base/unique_fd.hpp"
#include "quota/quota_use.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr long kNfs = 0x6969, kLustre = 0x0BD00BD0;

// The folder, or the first one above it that is there: it will be made in that one.
UniqueFd open_nearest(fs::path& path) {
    for (;; path = path.parent_path()) {
        UniqueFd folder(
            ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (folder || path.empty() || path == path.root_path())
            return folder;
    }
}

}  // namespace

std::vector<std::string> quota_question(long type, const std::string& path, unsigned uid) {
    if (type == kNfs)
        return {"quota", "-u", "-w", "-p", "--show-mntpoint", "--hide-device", "-f", path};
    if (type == kLustre)
        return {"lfs", "quota", "-q", "-u", std::to_string(uid), path};
    return {};
}

QuotaInquiry::QuotaInquiry(const std::vector<QuotaFolder>& folders) {
    if (::geteuid() == 0)
        return;
    std::set<dev_t> seen;
    for (const QuotaFolder& folder : folders) {
        fs::path path = folder.path;
        const UniqueFd nearest = open_nearest(path);
        struct stat facts {};
        struct statfs system {};
        if (!nearest || ::fstat(nearest.get(), &facts) != 0 ||
            ::fstatfs(nearest.get(), &system) != 0 || !seen.insert(facts.st_dev).second)
            continue;
        const std::string name = folder.path + " (" + folder.purpose + ")";
        for (const QuotaUse& use : own_quotas(nearest.get()))
            if (const std::string words = quota_words(use); !words.empty())
                warnings_.push_back("quota: " + name + ": " + words);
        auto question = quota_question(system.f_type, path.string(), ::geteuid());
        if (question.empty())
            continue;
        std::string program = question.front();
        asked_.push_back(
            {name, std::move(program),
             std::make_unique<SlurmCommand>(std::move(question), SlurmCommand::Errors::apart)});
    }
}

std::vector<std::string> QuotaInquiry::warnings(const Deadline& deadline) {
    for (Asked& one : asked_) {
        const std::string answer = one.command->wait(deadline);
        for (const QuotaUse& use : parse_quotas(answer))
            if (const std::string words = quota_words(use); !words.empty())
                warnings_.push_back("quota: " + one.name + ": " + words);
        // Where the program is not installed nobody is asked; `quota` exits with 1 for one that is
        // over.
        if (answer.empty() && deadline.passed())
            warnings_.push_back("quota: " + one.name + ": " + one.program +
                                " does not answer: how much may be written is not known");
    }
    asked_.clear();
    return std::move(warnings_);
}

}  // namespace autolaunch::launcher
