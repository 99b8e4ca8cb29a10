#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What NVIDIA's driver says of one GPU. A fact that this driver or this GPU does not tell is
/// nothing.
struct NvmlDevice {
    std::string uuid, bdf,
        name;  ///< bdf as in Gpu::bdf; empty where the driver cannot reach the GPU
    std::string trouble =
        {};  ///< why the driver tells nothing of it ("GPU is lost"); empty: it does
    std::uint64_t memory_bytes = 0;
    struct Process {
        int pid = 0;                     ///< in the driver's PID namespace: the host's
        std::uint64_t memory_bytes = 0;  ///< 0: not told
    };
    struct MigDevice {
        std::string uuid, name;
        std::uint64_t memory_bytes = 0;
        std::vector<Process> compute_processes = {};
    };
    bool mig_enabled =
        false;  ///< then CUDA sees only the MIG devices, and none where there are none
    std::vector<MigDevice> mig_devices = {};
    std::vector<Process> compute_processes =
        {};  ///< while MIG is enabled, all or none of those of its MIG devices
    std::optional<bool> row_remap_pending = {},
                        row_remap_failed = {};                 ///< not told while MIG is enabled
    std::optional<std::uint64_t> uncorrected_ecc_errors = {};  ///< since the driver was loaded
    std::optional<std::uint64_t> nvlink_errors =
        {};  ///< CRC, replay and recovery counters of all links
    std::optional<std::uint64_t> clock_event_reasons = {};  ///< NVML's bit mask
    std::optional<int> pcie_width = {}, pcie_max_width = {}, pcie_generation = {},
                       pcie_max_generation = {};
    std::optional<int> compute_mode = {};  ///< 0 default, 2 prohibited, 3 exclusive process
    struct Fabric {
        int state = 0, status = 0;  ///< NVML's: state 3 is completed; then status 0 is success
        std::string cluster_uuid;   ///< "00000000-0000-0000-0000-000000000000" outside a multi-node
                                    ///< NVLink domain
        std::uint32_t clique = 0;   ///< GPUs of one cluster and clique reach each other's memory
        std::uint32_t health = 0;   ///< NVML's healthMask; 0: not told
    };
    std::optional<Fabric> fabric = {};  ///< only where the GPU is on an NVLink fabric
    struct Link {
        std::string peer_bdf;  ///< empty where the driver hides its switches
        int count = 0;         ///< active links to that peer
        bool is_switch = false;
    };
    std::vector<Link> nvlinks = {};  ///< to other GPUs or to switches, by peer
};

/// What happened to a GPU.
struct NvmlEvent {
    enum class Kind {
        xid,             ///< `number` is its own
        double_bit_ecc,  ///< an uncorrectable error of its memory
        lost,            ///< it fell off the bus
        slowed,          ///< `number`: the clock event reasons that cooling and power supply have
    } kind = Kind::xid;
    std::string bdf;
    std::uint64_t number = 0;
    bool operator==(const NvmlEvent&) const = default;
};

/// What moves and hampers a GPU.
struct NvmlGauge {
    std::string bdf;
    /// Sent and received over its NVLinks since the driver was loaded; nothing: not told.
    std::optional<std::uint64_t> nvlink_bytes = {};
    /// NVML's clock event reasons, those alone that cooling and power supply have.
    std::uint64_t slowed_reasons = 0;
    bool operator==(const NvmlGauge&) const = default;
};

/// What one GPU does and needs at a moment. A fact that this driver or this GPU does not tell is
/// nothing.
struct NvmlReading {
    std::string bdf, uuid, name;
    std::optional<int> busy_percent = {}, memory_busy_percent = {};
    std::optional<std::uint64_t> memory_used_bytes = {}, memory_total_bytes = {};
    std::optional<int> celsius = {}, memory_celsius = {};
    std::optional<std::uint64_t> milliwatts = {}, milliwatts_limit = {};
    std::optional<std::uint64_t> millijoules = {};  ///< since the driver was loaded
    std::optional<int> sm_megahertz = {}, memory_megahertz = {};
    std::optional<std::uint64_t> uncorrected_ecc_errors = {}, nvlink_bytes = {};  ///< the same
    std::optional<std::uint64_t> clock_event_reasons = {};  ///< NVML's bit mask
    std::optional<int> compute_processes = {};  ///< that have a context on it; not with MIG
    std::string trouble = {};                   ///< why nothing is told: it is lost
};

/// NVIDIA's management library, loaded with dlopen when it is asked for; it makes no CUDA context.
/// Loading takes tens of milliseconds, or seconds without the persistence daemon: never in the way
/// of a launch that does not need it.
///
/// Threads: one at a time. Blocks: in every call. Errors of single facts leave them empty.
class Nvml {
public:
    /// Nothing where there is no library or no driver: `why` then says so. `library` is for tests;
    /// empty: libnvidia-ml.so.1 (AUTOLAUNCH_NVML_LIBRARY names another).
    static std::unique_ptr<Nvml> load(std::string& why, const std::string& library = {});
    virtual ~Nvml() = default;
    virtual std::string driver_version() const = 0;  ///< "570.86.15"; empty: not told
    virtual int cuda_version() const = 0;  ///< newest that the driver serves: 12080; 0: not told
    /// Which groups of facts are wanted: names, UUIDs, addresses, memory and MIG devices are always
    /// there.
    struct Wanted {
        bool processes = false;
        bool health =
            false;  ///< row remaps, ECC, NVLink errors, clocks, PCIe, compute mode, fabric
        bool links = false;
    };
    /// All GPUs of the machine or the container, by PCI address.
    virtual std::vector<NvmlDevice> devices(const Wanted& wanted) = 0;
    /// Of the GPUs at these addresses that the driver knows.
    virtual std::vector<NvmlGauge> gauges(const std::vector<std::string>& bdfs) = 0;
    /// The same; those that the driver does not know are left out.
    virtual std::vector<NvmlReading> readings(const std::vector<std::string>& bdfs) = 0;
    /// Tells what happens to the GPUs at these addresses from now on, until `on_event` returns
    /// false. `pause`: how often it is looked for what the driver has no events for. Returns why it
    /// cannot be told; empty: `on_event` ended it.
    virtual std::string follow_events(const std::vector<std::string>& bdfs,
                                      std::chrono::milliseconds pause,
                                      const std::function<bool(const NvmlEvent&)>& on_event) = 0;
};

}  // namespace autolaunch::launcher
