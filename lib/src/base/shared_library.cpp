#include "base/shared_library.hpp"

#include <autolaunch/error.hpp>

#include <dlfcn.h>

namespace autolaunch {

SharedLibrary::SharedLibrary(const std::string& soname)
    : soname_(soname), handle_(::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ != nullptr) return;
    const char* why = ::dlerror();
    throw Error(ErrorCode::unsupported,
                "cannot load " + soname + ": " + (why != nullptr ? why : "no reason was given"));
}

void* SharedLibrary::address_of(const char* name) const {
    void* address = ::dlsym(handle_, name);
    if (address == nullptr) throw Error(ErrorCode::unsupported, soname_ + " has no function " + name);
    return address;
}

}  // namespace autolaunch
