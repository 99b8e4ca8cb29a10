#include "topology/verbs.hpp"

#if AUTOLAUNCH_HAVE_IBVERBS

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

namespace autolaunch::launcher {
namespace {

// libibverbs' functions, by the names that its header hides behind macros and inline functions.
struct Functions {
    ibv_device** (*get_device_list)(int*) = nullptr;
    void (*free_device_list)(ibv_device**) = nullptr;
    const char* (*get_device_name)(ibv_device*) = nullptr;
    ibv_context* (*open_device)(ibv_device*) = nullptr;
    int (*close_device)(ibv_context*) = nullptr;
    int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
    int (*query_port)(ibv_context*, std::uint8_t, ibv_port_attr*) = nullptr;
    ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
    int (*dealloc_pd)(ibv_pd*) = nullptr;
    /// Null before rdma-core 34, which is to NCCL as if the kernel refused.
    ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                             int) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

bool find_all(void* library, Functions& verbs) {
    find(library, "ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr);
    return find(library, "ibv_get_device_list", verbs.get_device_list) &&
           find(library, "ibv_free_device_list", verbs.free_device_list) &&
           find(library, "ibv_get_device_name", verbs.get_device_name) &&
           find(library, "ibv_open_device", verbs.open_device) &&
           find(library, "ibv_close_device", verbs.close_device) &&
           find(library, "ibv_query_device", verbs.query_device) &&
           find(library, "ibv_query_port", verbs.query_port) &&
           find(library, "ibv_alloc_pd", verbs.alloc_pd) &&
           find(library, "ibv_dealloc_pd", verbs.dealloc_pd);
}

// IBV_MTU_256 is 1, and each next one twice as much. A driver may write a number that the
// enumeration has not, which only its bytes may be asked for.
int mtu_bytes(const ibv_mtu& mtu) {
    std::underlying_type_t<ibv_mtu> number;
    static_assert(sizeof number == sizeof mtu);
    std::memcpy(&number, &mtu, sizeof number);
    return number >= IBV_MTU_256 && number <= IBV_MTU_4096 ? 128 << number : 0;
}

std::vector<VerbsDevice::Port> read_ports(const Functions& verbs, ibv_context* context) {
    std::vector<VerbsDevice::Port> ports;
    ibv_device_attr device = {};
    if (verbs.query_device(context, &device) != 0)
        return ports;
    for (std::uint8_t number = 1; number != 0 && number <= device.phys_port_cnt; ++number) {
        ibv_port_attr port = {};
        if (verbs.query_port(context, number, &port) == 0)
            ports.push_back({number, mtu_bytes(port.active_mtu)});
    }
    return ports;
}

std::optional<bool> probe_dmabuf(const Functions& verbs, ibv_context* context) {
    if (verbs.reg_dmabuf_mr == nullptr)
        return false;
    ibv_pd* const domain = verbs.alloc_pd(context);
    if (domain == nullptr)
        return std::nullopt;
    errno = 0;
    verbs.reg_dmabuf_mr(domain, 0, 0, 0, -1, 0);
    const int error = errno;
    verbs.dealloc_pd(domain);
    return error != EOPNOTSUPP && error != EPROTONOSUPPORT;
}

VerbsDevice describe(const Functions& verbs, ibv_device* device) {
    VerbsDevice described;
    const char* const name = verbs.get_device_name(device);
    described.name = name != nullptr ? name : "";
    ibv_context* const context = verbs.open_device(device);
    if (context == nullptr) {
        described.trouble = std::strerror(errno);
        return described;
    }
    described.ports = read_ports(verbs, context);
    described.takes_dmabuf = probe_dmabuf(verbs, context);
    verbs.close_device(context);
    return described;
}

}  // namespace

std::optional<std::vector<VerbsDevice>> ask_verbs(std::string& why, const std::string& library) {
    const std::string name = library.empty() ? "libibverbs.so.1" : library;
    const std::unique_ptr<void, int (*)(void*)> loaded(
        ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL), &::dlclose);
    if (!loaded) {
        const char* const text = ::dlerror();
        why = text != nullptr ? text : name + " cannot be loaded";
        return std::nullopt;
    }
    Functions verbs;
    if (!find_all(loaded.get(), verbs)) {
        why = name + " lacks functions: it is not libibverbs";
        return std::nullopt;
    }
    int count = 0;
    ibv_device** const list = verbs.get_device_list(&count);
    if (list == nullptr) {
        why = std::string("libibverbs lists no devices: ") + std::strerror(errno);
        return std::nullopt;
    }
    std::vector<VerbsDevice> devices;
    for (int i = 0; i < count; ++i)
        devices.push_back(describe(verbs, list[i]));
    verbs.free_device_list(list);
    return devices;
}

}  // namespace autolaunch::launcher

#else

namespace autolaunch::launcher {

std::optional<std::vector<VerbsDevice>> ask_verbs(std::string& why, const std::string&) {
    why = "this autolaunch was built without libibverbs' headers";
    return std::nullopt;
}

}  // namespace autolaunch::launcher

#endif
