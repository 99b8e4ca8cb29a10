#include "base/shared_library.hpp"

#include <autolaunch/error.hpp>

#include <dlfcn.h>

#include <utility>

namespace autolaunch {

SharedLibrary::SharedLibrary(const std::string& soname, Need need)
    : soname_(soname),
      need_(std::move(need)),
      handle_(::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ != nullptr)
        return;
    const char* why = ::dlerror();
    fail("cannot load " + soname + ": " + (why != nullptr ? why : "no reason was given"));
}

void* SharedLibrary::address_of(const char* name) const {
    void* address = ::dlsym(handle_, name);
    if (address == nullptr)
        fail(soname_ + " has no function " + name);
    return address;
}

void SharedLibrary::fail(const std::string& why) const {
    throw Error(ErrorCode::unsupported, need_.what.empty() ? why : need_.what + ": " + why,
                need_.hint);
}

}  // namespace autolaunch
