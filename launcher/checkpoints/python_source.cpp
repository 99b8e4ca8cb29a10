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
#include <string_view>
#include <vector>

extern char** environ;

namespace autolaunch::launcher {

namespace {

constexpr int kCannotStart = 127;  // as a shell has it
constexpr int kNoTorch = 3;
constexpr int kRefused = 4;
constexpr std::string_view kLeftOut = "left out ";

// PyTorch's .metadata is a pickle, and a pickle runs whatever it names: here it may name what DCP
// writes, and nothing else. Files of tensors are pickles too, which PyTorch's own reader of weights
// reads. The first line keeps modules of the working directory out, which may be a stranger's.
constexpr const char kScript[] = R"(
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import os, pickle
source, target = sys.argv[1:]
def refuse(what):
    print(what, file=sys.stderr)
    sys.exit(4)
PLACES = {
    "torch.distributed.checkpoint.metadata": "Metadata TensorStorageMetadata BytesStorageMetadata TensorProperties "
        "ChunkStorageMetadata MetadataIndex StorageMeta _MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata": "TensorProperties MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.filesystem": "_StorageInfo",
    "torch.serialization": "_get_layout",
    "torch": "Size float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int64 int32 int16 int8 uint64 uint32 "
        "uint16 uint8 bool complex64 complex128",
    "pathlib": "PosixPath",
    "pathlib._local": "PosixPath",
    "collections": "OrderedDict",
}
class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if name not in PLACES.get(module, "").split():
            refuse(f"it names {module}.{name}, which DCP does not write")
        return super().find_class(module, name)
metadata = None
try:
    path = os.path.join(source, ".metadata")
    if os.path.exists(path):
        with open(path, "rb") as file:
            metadata = Unpickler(file).load()
    import torch, torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
    from safetensors.torch import save_file
    if metadata is None:
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader as Reader
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
if metadata is not None:
    if not isinstance(metadata, Metadata):
        refuse("it is not DCP's metadata")
    for info in metadata.storage_data.values():
        if os.path.basename(info.relative_path) != info.relative_path:
            refuse(f"it leads out of the checkpoint, to {info.relative_path}")
    class Reader(dcp.FileSystemReader):
        def read_metadata(self, *unused, **also_unused):
            if getattr(metadata, "storage_meta", None) is None:
                metadata.storage_meta = StorageMeta()
            metadata.storage_meta.load_id = getattr(self, "load_id", None)
            return metadata
load = torch.load
torch.load = lambda *given, **named: load(*given, **{**named, "weights_only": True})
stored = Reader(source).read_metadata().state_dict_metadata
tensors = {n: torch.empty(t.size, dtype=t.properties.dtype) for n, t in stored.items()
           if isinstance(t, TensorStorageMetadata)}
dcp.load(tensors, storage_reader=Reader(source), no_dist=True)
save_file({n: t.contiguous() for n, t in tensors.items()}, target)
others = sorted(set(stored) - set(tensors))
if others:
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    print(f"left out {len(others)} values that are no tensors: {', '.join(others[:5])}{more}")
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

std::string convert_with_torch(const std::string& python, const std::filesystem::path& source,
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
    if (code == kRefused)
        throw Error(ErrorCode::mismatch,
                    (source / ".metadata").string() + " is not read: " + last_line(words),
                    "a pickle can run what it names. If you trust who made it, load it with "
                    "PyTorch, save its tensors with safetensors, and convert that");
    if (code != 0)
        throw Error(ErrorCode::mismatch,
                    "PyTorch did not read " + source.string() + ": " + last_line(words));
    const std::string last = last_line(words);
    return last.starts_with(kLeftOut) ? last : std::string();
}

}  // namespace autolaunch::launcher
