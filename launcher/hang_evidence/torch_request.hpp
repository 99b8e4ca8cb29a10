#pragma once
#include <sys/types.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// PyTorch's flight recorder of one rank, as far as the user's TORCH_* allow: with
/// TORCH_NCCL_DEBUG_INFO_PIPE_FILE it is asked for a dump; a dump that it wrote by itself (its
/// watchdog's timeout) is read, too. The files are named in the rank's own environment.
struct TorchFiles {
    std::filesystem::path pipe;  ///< empty: it takes no questions
    std::filesystem::path dump;  ///< empty: not known
    bool operator==(const TorchFiles&) const = default;
};

/// From /proc/PID/environ of that rank. Pure.
TorchFiles torch_files(std::string_view variables, int rank);

/// True: it was asked. Never waits: a pipe that nobody reads is left alone.
bool ask_torch(const TorchFiles& files);

struct TorchWords {
    std::string text;
    bool is_whole = false;  ///< false: it may still be written
};

/// What the dump says in words, where it was written since `since`, is this user's own file, and no
/// larger than 64 MiB; why it could not be read otherwise; empty: there is none.
TorchWords read_torch(const TorchFiles& files, std::time_t since);

}  // namespace autolaunch::launcher
