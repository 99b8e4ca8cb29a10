#pragma once
// Tells a machine without a GPU, where tests are skipped, from one whose GPU cannot be used, where
// they fail.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

/// Ends the program with 77 where there is no driver, or it finds no GPU. What else may be wrong is
/// for whoever uses the GPU next to say.
inline void skip_without_gpu() {
    constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
    const char* why = nullptr;
    if (void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
        auto* init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
        if (init != nullptr && init(0) == kNoDevice)
            why = "CUDA finds none";
    } else {
        why = ::dlerror();
    }
    if (why == nullptr)
        return;
    std::printf("skipped: no GPU (%s)\n", why);
    std::exit(77);
}
