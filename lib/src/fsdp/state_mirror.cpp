#include "fsdp/state_mirror.hpp"

namespace autolaunch::fsdp {

void* StateMirror::read(void* memory, std::size_t bytes, Stream stream) {
    if (!device_.is_gpu() || bytes == 0) return memory;
    Copy& copy = copies_[memory];
    if (!copy.host.data()) copy.host = device_.allocate_on_host(bytes);
    device_.read(copy.host.data(), memory, bytes, stream);
    copy.is_current = true;
    return copy.host.data();
}

void StateMirror::write_back(Stream stream) {
    for (auto& [memory, copy] : copies_)
        if (copy.is_current) device_.write(memory, copy.host.data(), copy.host.bytes(), stream);
}

void StateMirror::forget() noexcept {
    for (auto& [memory, copy] : copies_) copy.is_current = false;
}

}  // namespace autolaunch::fsdp
