#include "quorum/witness.hpp"

#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {
constexpr std::string_view kVoter = ".voter-", kWitness = ".witness-";
}  // namespace

Witness::Witness(std::filesystem::path folder, std::uint64_t incarnation)
    : folder_(std::move(folder)), own_(file_of(incarnation)) {}

Witness::~Witness() {
    if (has_entered_)
        ::unlink(own_.c_str());
}

// Without the file there is no witness: the job does without.
void Witness::enter() {
    if (std::exchange(has_entered_, true))
        return;
    const UniqueFd made(
        ::open(own_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

std::filesystem::path Witness::file_of(std::uint64_t incarnation) const {
    return folder_ / (std::string(kVoter) + hex64(incarnation));
}

bool Witness::shares_folder_with(std::uint64_t incarnation) const {
    struct stat facts {};
    return ::lstat(file_of(incarnation).c_str(), &facts) == 0 && facts.st_uid == ::geteuid() &&
           ::access(own_.c_str(), F_OK) == 0;
}

// Files of agents that were killed stay where they are, or every lost node would leave one. First
// those that links are made of: what is late then, of whomever, claims nothing any more.
void Witness::clear() const {
    std::error_code rest;  // they are empty, and the end of the next job here tries again
    for (const std::string_view kind : {kVoter, kWitness})
        for (const auto& file : list_folder(folder_, rest, kind))
            ::unlink(file.c_str());
}

// What an answer that was lost has told of is asked for again: a link that failed may be there.
bool Witness::claim(std::int64_t job, int formed) const {
    const std::filesystem::path witness =
        folder_ / (std::string(kWitness) + std::to_string(job) + "-" + std::to_string(formed));
    if (::link(own_.c_str(), witness.c_str()) == 0)
        return true;
    struct stat ours {
    }, theirs{};
    return ::lstat(own_.c_str(), &ours) == 0 && ::lstat(witness.c_str(), &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

}  // namespace autolaunch::launcher
