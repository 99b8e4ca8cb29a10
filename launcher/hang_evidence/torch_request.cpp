#include "hang_evidence/torch_request.hpp"

#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "hang_evidence/rank_environ.hpp"
#include "hang_evidence/torch_recorder.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace autolaunch::launcher {

namespace {

constexpr off_t kLongestDump = 64 << 20;

bool is_own(const struct stat& file, mode_t type) {
    return (file.st_mode & S_IFMT) == type && file.st_uid == ::geteuid();
}

std::string read_all(int file, std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const ssize_t got =
            ::pread(file, bytes.data() + done, size - done, static_cast<off_t>(done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
}

}  // namespace

TorchFiles torch_files(std::string_view variables, int rank) {
    const std::string number = std::to_string(rank);
    TorchFiles files;
    if (const auto pipe = environ_variable(variables, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
        !pipe.empty())
        files.pipe = std::string(pipe) + number + ".pipe";
    std::string stem(environ_variable(variables, "TORCH_FR_DUMP_TEMP_FILE"));
    if (stem.empty())
        stem = environ_variable(variables, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
    if (stem.empty()) {
        std::string cache(environ_variable(variables, "XDG_CACHE_HOME"));
        const std::string_view home = environ_variable(variables, "HOME");
        if (cache.empty() && !home.empty())
            cache = std::string(home) + "/.cache";
        if (!cache.empty())
            stem = cache + "/torch/comm_lib_trace_rank_";
    }
    if (!stem.empty())
        files.dump = stem + number;
    return files;
}

bool ask_torch(const TorchFiles& files) {
    if (files.pipe.empty())
        return false;
    const UniqueFd pipe(::open(files.pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    struct stat found {};
    return pipe && ::fstat(pipe.get(), &found) == 0 && is_own(found, S_IFIFO) &&
           ::write(pipe.get(), "1", 1) == 1;
}

TorchWords read_torch(const TorchFiles& files, std::time_t since) {
    const UniqueFd file(
        files.dump.empty()
            ? -1
            : ::open(files.dump.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    struct stat found {};
    if (!file || ::fstat(file.get(), &found) != 0 || !is_own(found, S_IFREG) ||
        found.st_mtime < since)
        return {};
    const std::string name = files.dump.string();
    if (found.st_size > kLongestDump)
        return {"PyTorch's flight recorder: " + name + " is larger than 64 MiB\n", true};
    try {
        const auto groups =
            read_torch_dump(read_all(file.get(), static_cast<std::size_t>(found.st_size)));
        return {"PyTorch's flight recorder, from " + name + ":\n" + describe_torch_groups(groups),
                true};
    } catch (const Error& error) {
        return {"PyTorch's flight recorder: " + name + " cannot be read: " + error.what() + "\n",
                false};
    }
}

}  // namespace autolaunch::launcher
