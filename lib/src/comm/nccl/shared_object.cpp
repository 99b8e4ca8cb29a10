#include "comm/nccl/shared_object.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <dlfcn.h>

namespace autolaunch {

SharedObject::SharedObject(const std::string& name, const std::string& hint)
    : name_(name), handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ != nullptr)
        return;
    const char* why = ::dlerror();
    throw Error(ErrorCode::unsupported,
                fmt::format("cannot load {}: {}", name, why == nullptr ? "?" : why), hint);
}

void* SharedObject::find(const char* symbol) const { return ::dlsym(handle_, symbol); }

void SharedObject::refuse(const char* symbol) const {
    throw Error(ErrorCode::unsupported, fmt::format("{} has no {}: it is too old", name_, symbol),
                "docs/nccl-backend.md has the versions that are needed");
}

}  // namespace autolaunch
