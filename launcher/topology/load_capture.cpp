#include "topology/load_capture.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "autolaunch-capture.so";

fs::path find_reader() {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (!error)
        for (const char* place :
             {"../libexec/autolaunch", "topology", "."})  // installed, built, side by side
            if (fs::path path = folder / place / kFile; ::access(path.c_str(), R_OK) == 0)
                return path;
    throw Error(ErrorCode::unsupported,
                std::string("saved machines cannot be read: there is no ") + kFile,
                "install it in libexec/autolaunch beside the program's bin, where `cmake "
                "--install` puts it");
}

ReadCaptureFunction* load_reader() {
    const fs::path path = find_reader();
    // Global, because hwloc's plugin for all of XML finds hwloc's symbols only there.
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    void* function = library != nullptr ? ::dlsym(library, kReadCaptureName) : nullptr;
    if (function != nullptr)
        return reinterpret_cast<ReadCaptureFunction*>(function);
    const char* why = ::dlerror();
    throw Error(ErrorCode::unsupported,
                std::string("cannot load ") + (why != nullptr ? why : path.c_str()),
                "saved machines need libhwloc: install it");
}

}  // namespace

NodeTopology load_capture(const std::string& path) {
    CaptureReply reply;
    if (!load_reader()(path.c_str(), AUTOLAUNCH_TOPOLOGY_LAYOUT, &reply))
        throw Error(ErrorCode::unsupported,
                    std::string(kFile) + " belongs to another build of autolaunch",
                    "install both anew");
    if (reply.failed)
        throw Error(reply.code, reply.what, reply.hint);
    return std::move(reply.topology);
}

}  // namespace autolaunch::launcher
