#include "fsdp/cuda/kernel_image.hpp"

// AUTOLAUNCH_KERNEL_IMAGE is the file that nvcc wrote.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden autolaunch_fsdp_kernels\n"
    ".globl autolaunch_fsdp_kernels\n"
    "autolaunch_fsdp_kernels:\n"
    ".incbin \"" AUTOLAUNCH_KERNEL_IMAGE
    "\"\n"
    ".popsection\n");

extern "C" __attribute__((visibility("hidden"))) const char autolaunch_fsdp_kernels[];

namespace autolaunch::fsdp {

const void* kernel_image() noexcept { return autolaunch_fsdp_kernels; }

}  // namespace autolaunch::fsdp
