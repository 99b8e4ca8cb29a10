#pragma once
#include <cstddef>

/// The part of NVML's C interface that nvml.cpp calls, declared here so that building needs no
/// NVIDIA header. Layouts, numbers and names are those of nvml.h, API versions 11 to 13; they are
/// ABI and do not change under one symbol.
namespace autolaunch::launcher::nvml_api {

using Return = int;
constexpr Return kSuccess = 0, kInsufficientSize = 7, kFunctionNotFound = 13;

using Device = struct DeviceHandle*;

/// nvmlPciInfo_t, which the calls ending in _v3 (and NvLinkRemotePciInfo_v2) fill. Older ones fill
/// less than that, but the same up to `pci_subsystem_id`.
struct PciInfo {
    char legacy_bus_id[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16);

/// nvmlMemory_t
struct Memory {
    unsigned long long total, free, used;
};
static_assert(sizeof(Memory) == 24);

/// nvmlUtilization_t: percent of the driver's last sample, up to a second
struct Utilization {
    unsigned gpu, memory;
};
static_assert(sizeof(Utilization) == 8);

/// nvmlProcessInfo_v1_t
struct ProcessV1 {
    unsigned pid;
    unsigned long long memory;
};
static_assert(sizeof(ProcessV1) == 16);

/// nvmlProcessInfo_v2_t: also what the call ending in _v3 fills.
struct Process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(Process) == 24);
constexpr unsigned long long kNotAvailable = ~0ull;

/// nvmlGpuFabricInfo_t
struct FabricV1 {
    unsigned char cluster_uuid[16];
    Return status;
    unsigned clique;
    unsigned char state;
};
static_assert(sizeof(FabricV1) == 28);

/// nvmlGpuFabricInfo_v3_t; version 2 ends before `health_summary`.
struct Fabric {
    unsigned version;
    unsigned char cluster_uuid[16];
    Return status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health_summary;
};
static_assert(sizeof(Fabric) == 40 && offsetof(Fabric, state) == 28 &&
              offsetof(Fabric, health_mask) == 32);
constexpr unsigned kFabricV3 = 40u | (3u << 24), kFabricV2 = 36u | (2u << 24);

/// nvmlFieldValue_t
struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency_us;
    int value_type;
    Return result;
    union {
        double as_double;
        int as_int;
        unsigned as_unsigned;
        unsigned long long as_unsigned_long;
        long long as_long;
        unsigned short as_short;
    } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);
// valueType: 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long, 5 int, 6
// unsigned short NVLink 5 (Blackwell) tells its errors by fields: packets received with errors, and
// links that went into recovery.
constexpr unsigned kFieldReceiveErrors = 208, kFieldRecoveryEvents = 215;
// Bytes over all NVLinks of a GPU since the driver was loaded: in KiB before NVLink 5, and in bytes
// with it; `scope` is a link, or kAllLinks.
constexpr unsigned kFieldDataSent = 138, kFieldDataReceived = 139, kFieldBytesSent = 202,
                   kFieldBytesReceived = 204;
constexpr unsigned kAllLinks = ~0u;
constexpr unsigned kFieldMemoryTemperature = 82;
constexpr int kGpuSensor = 0;                  // nvmlTemperatureSensors_t
constexpr int kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t

using EventSet = struct EventSetHandle*;

/// nvmlEventData_t; the call without _v2 ends before `gpu_instance`.
struct EventData {
    Device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32 && offsetof(EventData, data) == 16);
constexpr unsigned long long kDoubleBitEcc = 2, kXid = 8;  // of `type`
constexpr Return kTimeout = 10, kGpuIsLost = 15;
// Of the clock event reasons: what cools or feeds the GPU is at its limit. Software's own limit of
// power is how GPUs work.
constexpr unsigned long long kSoftwareThermal = 0x20, kHardwareThermal = 0x40, kPowerBrake = 0x80;

constexpr unsigned kMostLinks =
    64;  // nvml.h says 36 today; a link that is not there answers with an error
constexpr int kRemoteGpu = 0, kRemoteSwitch = 2;
// nvmlNvLinkErrorCounter_t: 0 replay, 1 recovery, 2 CRC of flits, 3 CRC of data
constexpr int kLinkCounters = 4;
constexpr int kUncorrected = 1, kSinceDriverLoad = 0;

}  // namespace autolaunch::launcher::nvml_api
