#pragma once
// Ranks of backend nccl in tests: processes that find each other through a folder, on the fake
// GPUs.
#include "../write_file.hpp"
#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "comm/nccl/nccl_backend.hpp"
#include "fake_gpu.hpp"

#include <autolaunch/error.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

namespace autolaunch {

/// A store made of files; gone with the object in the process that made it.
class FolderStore {
public:
    FolderStore() {
        char name[] = "/tmp/autolaunch-nccl-XXXXXX";
        if (::mkdtemp(name) == nullptr)
            throw SystemError(errno, "make a folder");
        folder_ = name;
    }
    ~FolderStore() {
        if (::getpid() == owner_)
            std::filesystem::remove_all(folder_);
    }
    FolderStore(const FolderStore&) = delete;
    FolderStore& operator=(const FolderStore&) = delete;

    NcclRendezvous rendezvous() const {
        return {
            [this](const std::string& key, const std::string& value) {
                write_file(path(key), value);
            },
            [this](const std::string& key, std::chrono::milliseconds timeout) {
                for (const Deadline deadline = Deadline::after(timeout);
                     !std::filesystem::exists(path(key));) {
                    if (deadline.passed())
                        throw TimeoutError("nobody set " + key);
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                }
                return read_file(path(key));
            },
            [this](const std::string& key) { return std::filesystem::exists(path(key)); },
        };
    }

private:
    std::filesystem::path path(std::string key) const {
        std::replace(key.begin(), key.end(), '/', '_');
        return folder_ / key;
    }

    pid_t owner_ = ::getpid();
    std::filesystem::path folder_;
};

inline NcclOptions fake_options(const std::string& library, int rank,
                                std::chrono::milliseconds timeout) {
    NcclOptions options;
    options.cuda_library = library;
    options.nccl_library = library;
    options.device_index = rank;
    options.timeout = timeout;
    return options;
}

/// Of this process.
inline FakeGpuControl& fake_control(const std::string& library) {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void* found = handle == nullptr ? nullptr : ::dlsym(handle, "fake_gpu_control");
    if (found == nullptr)
        throw Error(ErrorCode::system, "there is no fake GPU in " + library);
    return *reinterpret_cast<FakeGpuControl* (*)()>(found)();
}

}  // namespace autolaunch
