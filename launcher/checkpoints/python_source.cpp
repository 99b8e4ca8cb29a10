#include "checkpoints/python_source.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

extern char** environ;

namespace autolaunch::launcher {

namespace {

constexpr int kCannotStart = 127;  // as a shell has it
constexpr int kNoTorch = 3;

constexpr const char kScript[] = R"(
import os, sys
try:
    import torch, torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from safetensors.torch import save_file
    if not os.path.exists(os.path.join(sys.argv[1], ".metadata")):
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader as Reader
    else:
        Reader = dcp.FileSystemReader
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
stored = Reader(sys.argv[1]).read_metadata().state_dict_metadata
tensors = {n: torch.empty(t.size, dtype=t.properties.dtype) for n, t in stored.items()
           if isinstance(t, TensorStorageMetadata)}
dcp.load(tensors, storage_reader=Reader(sys.argv[1]), no_dist=True)
save_file({n: t.contiguous() for n, t in tensors.items()}, sys.argv[2])
)";

std::string read_all(int fd) {
    std::string text;
    char part[4096];
    for (;;) {
        const ssize_t got = ::read(fd, part, sizeof part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return text;
        text.append(part, static_cast<std::size_t>(got));
        if (text.size() > 65536)
            text.erase(0, text.size() - 32768);  // its last words are what counts
    }
}

// Starts it with its stderr into the pipe. It is in our process group: an interrupt of the user's
// ends both.
pid_t start(const std::string& python, std::vector<std::string> arguments, int output) {
    std::vector<char*> argv;
    for (auto& argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    pid_t pid = -1;
    const int error = ::posix_spawnp(&pid, python.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        throw Error(
            ErrorCode::unsupported, "cannot start " + python + ": " + std::strerror(error),
            "PyTorch reads its own checkpoints: name an interpreter that has it with --python");
    return pid;
}

std::string last_line(const std::string& text) {
    const auto lines = split(std::string(trim(text)), '\n');
    return lines.empty() ? std::string() : lines.back();
}

}  // namespace

void convert_with_torch(const std::string& python, const std::filesystem::path& source,
                        const std::filesystem::path& target) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe");
    UniqueFd reader(ends[0]), writer(ends[1]);
    const pid_t pid =
        start(python, {python, "-c", kScript, source.string(), target.string()}, writer.get());
    writer = UniqueFd();
    const std::string words = read_all(reader.get());
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == kNoTorch || code == kCannotStart)
        throw Error(
            ErrorCode::unsupported,
            python + " cannot read PyTorch's checkpoints: " + last_line(words),
            "install torch and safetensors, or name an interpreter that has them with --python");
    if (code != 0)
        throw Error(ErrorCode::mismatch,
                    "PyTorch did not read " + source.string() + ": " + last_line(words));
}

}  // namespace autolaunch::launcher
