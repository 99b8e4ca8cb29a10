#pragma once
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What libibverbs says of one HCA. A fact that it does not tell is nothing.
struct VerbsDevice {
    std::string name;  ///< "mlx5_0"
    std::string trouble =
        {};  ///< why nothing more is told of it: it could not be opened; else empty
    struct Port {
        int number = 1;
        int mtu_bytes = 0;  ///< active MTU; 0: not told
    };
    std::vector<Port> ports = {};
    /// The kernel and the HCA's driver take DMA-BUF memory, such as a GPU's. NCCL's own probe
    /// (net_ib.cc): a registration of descriptor -1, which fails with EOPNOTSUPP or EPROTONOSUPPORT
    /// where they do not, and with EBADF where they do.
    std::optional<bool> takes_dmabuf = {};
};

/// Asks libibverbs, loaded with dlopen, of all HCAs; it opens each, as NCCL does. Nothing, and why,
/// where there is no libibverbs, no RDMA in the kernel, or this program was built without
/// libibverbs' headers. `library` is for tests; empty: libibverbs.so.1. Blocks: some milliseconds
/// an HCA; a device that hangs hangs it too, so ask in another process.
std::optional<std::vector<VerbsDevice>> ask_verbs(std::string& why,
                                                  const std::string& library = {});

}  // namespace autolaunch::launcher
