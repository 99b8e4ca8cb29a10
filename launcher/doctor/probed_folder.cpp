#include "doctor/probed_folder.hpp"

#include "base/file_system.hpp"
#include "base/hash.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <list>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel's
constexpr std::size_t kRandomBytes = 8;

std::string words_for(int error) {
    return fmt::format("cannot create a file: {}", std::strerror(error));
}

/// One step of the way at a time, each below what is held already.
class Walk {
public:
    explicit Walk(const fs::path& path) : steps_(path.begin(), path.end()) {}

    ProbedFolder go() {
        restart();
        while (!steps_.empty() && at_.wrong.empty()) {
            const fs::path step = steps_.front();
            steps_.pop_front();
            if (step == "/")
                restart();
            else if (!step.empty() && step != "." && !enter(step))
                break;
        }
        return std::move(at_);
    }

private:
    void restart() {
        at_.path = "/";
        at_.fd.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!at_.fd)
            at_.wrong = words_for(errno);
    }

    // False: it is not there, and what is above it counts.
    bool enter(const fs::path& step) {
        UniqueFd next(::openat(at_.fd.get(), step.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat facts {};
        if (!next && errno == ENOENT)
            return false;
        if (!next || ::fstat(next.get(), &facts) != 0) {
            at_.wrong = words_for(errno);
        } else if (S_ISLNK(facts.st_mode)) {
            follow(next.get(), facts.st_uid, at_.path / step);
        } else if (!S_ISDIR(facts.st_mode)) {
            at_.path /= step;
            at_.wrong = words_for(ENOTDIR);
        } else {
            at_.path = step == ".." ? at_.path.parent_path() : at_.path / step;
            at_.fd = std::move(next);
        }
        return true;
    }

    void follow(int link, uid_t owner, const fs::path& path) {
        std::array<char, PATH_MAX> target;
        const ssize_t got = ::readlinkat(link, "", target.data(), target.size());
        if (::geteuid() == 0 && owner != 0) {
            at_.wrong = fmt::format("{} is a link of user {}, which root does not follow",
                                    path.string(), owner);
            at_.fix = "name the folder itself, or look at it as that user";
        } else if (got <= 0 || ++links_ > kMostLinks) {
            at_.wrong = words_for(got <= 0 ? ENOENT : ELOOP);
        } else {
            const fs::path to(std::string(target.data(), static_cast<std::size_t>(got)));
            steps_.insert(steps_.begin(), to.begin(), to.end());
        }
    }

    std::list<fs::path> steps_;
    ProbedFolder at_;
    int links_ = 0;
};

}  // namespace

ProbedFolder hold_nearest_folder(const std::string& path) { return Walk(absolute_path(path)).go(); }

std::string write_probe(const ProbedFolder& folder, const std::string& hostname) {
    const std::string name =
        fmt::format(".autolaunch-probe-{}-{}", hostname, random_hex(kRandomBytes));
    const UniqueFd fd(::openat(folder.fd.get(), name.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd)
        return words_for(errno);
    const std::array<char, 4096> block = {};
    std::string wrong;
    if (::write(fd.get(), block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
        ::fsync(fd.get()) != 0)
        wrong = fmt::format("cannot write a file: {}", std::strerror(errno));
    ::unlinkat(folder.fd.get(), name.c_str(), 0);
    return wrong;
}

}  // namespace autolaunch::launcher
