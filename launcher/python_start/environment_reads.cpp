#include "python_start/environment_reads.hpp"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

namespace autolaunch::launcher {

namespace {

using Getenv = char* (*)(const char*);

bool noting = false;
char lock = 0;
char seen[kMostReadBytes - 2];  // names, each with its zero
size_t seen_bytes = 0, taken_bytes = 0;
bool too_many = false;

bool is_seen(const char* name) {
    for (size_t at = 0; at < seen_bytes; at += ::strlen(seen + at) + 1)
        if (::strcmp(seen + at, name) == 0)
            return true;
    return false;
}

void note(const char* name) {
    if (!__atomic_load_n(&noting, __ATOMIC_RELAXED) || name == nullptr)
        return;
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {
    }
    const size_t bytes = ::strlen(name) + 1;
    if (!is_seen(name)) {
        too_many = too_many || seen_bytes + bytes > sizeof seen;
        if (!too_many) {
            ::memcpy(seen + seen_bytes, name, bytes);
            seen_bytes += bytes;
        }
    }
    __atomic_clear(&lock, __ATOMIC_RELEASE);
}

/// Before libc's function can be looked up: constructors of other libraries ask, too.
char* walk(const char* name) {
    const size_t length = ::strlen(name);
    for (char** at = environ; at != nullptr && *at != nullptr; ++at)
        if (::strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return nullptr;
}

Getenv libc_getenv = nullptr, libc_secure_getenv = nullptr;

__attribute__((constructor)) void look_up() {
    libc_getenv = reinterpret_cast<Getenv>(::dlsym(RTLD_NEXT, "getenv"));
    libc_secure_getenv = reinterpret_cast<Getenv>(::dlsym(RTLD_NEXT, "secure_getenv"));
}

}  // namespace

void note_reads(bool on) { __atomic_store_n(&noting, on, __ATOMIC_RELAXED); }

std::size_t take_reads(char* into) {
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {
    }
    size_t bytes = seen_bytes - taken_bytes;
    ::memcpy(into, seen + taken_bytes, bytes);
    taken_bytes = seen_bytes;
    if (too_many) {
        ::memcpy(into + bytes, "*", 2);
        bytes += 2;
    }
    __atomic_clear(&lock, __ATOMIC_RELEASE);
    return bytes;
}

}  // namespace autolaunch::launcher

#define AUTOLAUNCH_VISIBLE extern "C" __attribute__((visibility("default")))

AUTOLAUNCH_VISIBLE char* getenv(const char* name) noexcept {
    using namespace autolaunch::launcher;
    note(name);
    return libc_getenv != nullptr ? libc_getenv(name) : walk(name);
}

// A set-uid program loads no library of ours: the process is never a secure one without libc's.
AUTOLAUNCH_VISIBLE char* secure_getenv(const char* name) noexcept {
    using namespace autolaunch::launcher;
    note(name);
    return libc_secure_getenv != nullptr ? libc_secure_getenv(name) : walk(name);
}
