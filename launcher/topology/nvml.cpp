#include "topology/nvml.hpp"

#include "topology/nvml_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <thread>
#include <utility>

namespace autolaunch::launcher {
namespace {

using namespace nvml_api;

/// The shared object; closed at the end.
class Library {
public:
    explicit Library(void* handle) : handle_(handle) {}
    ~Library() {
        if (handle_)
            ::dlclose(handle_);
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    /// Calls the first of the functions that this driver has, newest first; kFunctionNotFound when
    /// it has none.
    template <class... Arguments>
    Return call(std::initializer_list<const char*> names, Arguments... arguments) const {
        for (const char* name : names) {
            void* const symbol = ::dlsym(handle_, name);
            if (!symbol)
                continue;
            const Return result = reinterpret_cast<Return (*)(Arguments...)>(symbol)(arguments...);
            if (result != kFunctionNotFound)
                return result;
        }
        return kFunctionNotFound;
    }

    std::string error_text(Return result) const {
        void* const symbol = ::dlsym(handle_, "nvmlErrorString");
        const char* const text =
            symbol ? reinterpret_cast<const char* (*)(Return)>(symbol)(result) : nullptr;
        return text ? text : fmt::format("NVML error {}", result);
    }

private:
    void* handle_;
};

std::string to_bdf(const PciInfo& pci) {
    return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

std::string to_uuid(const unsigned char (&bytes)[16]) {
    std::string text;
    for (std::size_t i = 0; i < sizeof bytes; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text += '-';
        text += fmt::format("{:02x}", bytes[i]);
    }
    return text;
}

std::uint64_t to_number(const FieldValue& field) {
    switch (field.value_type) {
        case 0:
            return field.value.as_double > 0 ? static_cast<std::uint64_t>(field.value.as_double)
                                             : 0;
        case 1:
            return field.value.as_unsigned;
        case 5:
            return static_cast<std::uint64_t>(std::max(field.value.as_int, 0));
        case 6:
            return field.value.as_short;
        default:
            return field.value.as_unsigned_long;
    }
}

class LoadedNvml final : public Nvml {
public:
    explicit LoadedNvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
    ~LoadedNvml() override { library_->call({"nvmlShutdown"}); }
    LoadedNvml(const LoadedNvml&) = delete;
    LoadedNvml& operator=(const LoadedNvml&) = delete;

    std::string driver_version() const override {
        std::array<char, 80> text = {};
        const unsigned size = text.size();
        return library_->call({"nvmlSystemGetDriverVersion"}, text.data(), size) == kSuccess
                   ? text.data()
                   : "";
    }

    int cuda_version() const override {
        int version = 0;  // the first asks libcuda, which a container may lack
        Return result = library_->call({"nvmlSystemGetCudaDriverVersion_v2"}, &version);
        if (result != kSuccess)
            result = library_->call({"nvmlSystemGetCudaDriverVersion"}, &version);
        return result == kSuccess ? version : 0;
    }

    std::vector<NvmlDevice> devices(const Wanted& wanted) override {
        unsigned count = 0;
        std::vector<NvmlDevice> all;
        if (library_->call({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &count) != kSuccess)
            return all;
        for (unsigned index = 0; index < count; ++index) {
            Device handle = nullptr;
            const Return result = library_->call(
                {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}, index, &handle);
            NvmlDevice device;
            if (result == kSuccess) {
                device = describe(handle, wanted);
            } else {
                device.trouble = library_->error_text(result);
            }
            all.push_back(std::move(device));
        }
        std::stable_sort(all.begin(), all.end(),
                         [](const NvmlDevice& a, const NvmlDevice& b) { return a.bdf < b.bdf; });
        return all;
    }

    std::vector<NvmlGauge> gauges(const std::vector<std::string>& bdfs) override {
        std::vector<NvmlGauge> gauges;
        for (const Followed& gpu : find(bdfs)) {
            NvmlGauge gauge{.bdf = gpu.bdf, .nvlink_bytes = nvlink_bytes(gpu.handle)};
            unsigned long long reasons = 0;
            if (library_->call({"nvmlDeviceGetCurrentClocksEventReasons",
                                "nvmlDeviceGetCurrentClocksThrottleReasons"},
                               gpu.handle, &reasons) == kSuccess)
                gauge.slowed_reasons =
                    reasons & (kSoftwareThermal | kHardwareThermal | kPowerBrake);
            gauges.push_back(std::move(gauge));
        }
        return gauges;
    }

    std::vector<NvmlReading> readings(const std::vector<std::string>& bdfs) override {
        std::vector<NvmlReading> readings;
        for (const Followed& gpu : find(bdfs))
            readings.push_back(read(gpu));
        return readings;
    }

    std::string follow_events(const std::vector<std::string>& bdfs, std::chrono::milliseconds pause,
                              const std::function<bool(const NvmlEvent&)>& on_event) override {
        std::vector<Followed> gpus = find(bdfs);
        if (gpus.empty())
            return "the driver knows none of these GPUs";
        EventSet set = nullptr;
        Return result = library_->call({"nvmlEventSetCreate"}, &set);
        if (result != kSuccess)
            return "nvmlEventSetCreate: " + library_->error_text(result);
        for (const Followed& gpu : gpus)
            register_events(gpu.handle, set);
        for (bool wanted = true; wanted;) {
            EventData event = {};
            const auto ms = static_cast<unsigned>(pause.count());
            result = library_->call({"nvmlEventSetWait_v2", "nvmlEventSetWait"}, set, &event, ms);
            if (result == kSuccess)
                wanted = tell(event, gpus, on_event);
            else if (result != kTimeout && result != kGpuIsLost)
                break;
            wanted = wanted && look(gpus, on_event);
            if (result == kGpuIsLost)
                std::this_thread::sleep_for(pause);  // it is said at once, again and again
        }
        library_->call({"nvmlEventSetFree"}, set);
        const bool ended_here = result == kSuccess || result == kTimeout || result == kGpuIsLost;
        return ended_here ? "" : "nvmlEventSetWait: " + library_->error_text(result);
    }

private:
    struct Followed {
        Device handle = nullptr;
        std::string bdf;
        unsigned long long slowed = 0;  ///< reasons that were told
        bool lost = false;
    };

    std::vector<Followed> find(const std::vector<std::string>& bdfs) const {
        unsigned count = 0;
        std::vector<Followed> found;
        library_->call({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &count);
        for (unsigned index = 0; index < count; ++index) {
            Device handle = nullptr;
            PciInfo pci = {};
            if (library_->call({"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
                               index, &handle) != kSuccess ||
                library_->call(
                    {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
                    handle, &pci) != kSuccess)
                continue;
            if (std::find(bdfs.begin(), bdfs.end(), to_bdf(pci)) != bdfs.end())
                found.push_back({handle, to_bdf(pci)});
        }
        return found;
    }

    NvmlReading read(const Followed& gpu) const {
        NvmlReading reading{.bdf = gpu.bdf,
                            .uuid = text_of("nvmlDeviceGetUUID", gpu.handle),
                            .name = text_of("nvmlDeviceGetName", gpu.handle)};
        Utilization busy = {};
        const Return told = library_->call({"nvmlDeviceGetUtilizationRates"}, gpu.handle, &busy);
        if (told == kGpuIsLost) {
            reading.trouble = library_->error_text(told);
            return reading;
        }
        if (told == kSuccess) {  // not while MIG is enabled
            reading.busy_percent = static_cast<int>(busy.gpu);
            reading.memory_busy_percent = static_cast<int>(busy.memory);
            std::vector<NvmlDevice::Process> processes;
            if (read_processes(gpu.handle, processes))
                reading.compute_processes = static_cast<int>(processes.size());
        }
        Memory memory = {};
        if (library_->call({"nvmlDeviceGetMemoryInfo"}, gpu.handle, &memory) == kSuccess) {
            reading.memory_used_bytes = memory.used;
            reading.memory_total_bytes = memory.total;
        }
        reading.celsius = number_of("nvmlDeviceGetTemperature", gpu.handle, kGpuSensor);
        reading.memory_celsius = memory_temperature(gpu.handle);
        reading.milliwatts = number_of("nvmlDeviceGetPowerUsage", gpu.handle);
        reading.milliwatts_limit = number_of("nvmlDeviceGetEnforcedPowerLimit", gpu.handle);
        reading.sm_megahertz = number_of("nvmlDeviceGetClockInfo", gpu.handle, kSmClock);
        reading.memory_megahertz = number_of("nvmlDeviceGetClockInfo", gpu.handle, kMemoryClock);
        reading.millijoules = large_of({"nvmlDeviceGetTotalEnergyConsumption"}, gpu.handle);
        reading.clock_event_reasons = large_of(
            {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
            gpu.handle);
        unsigned long long errors = 0;
        if (library_->call({"nvmlDeviceGetTotalEccErrors"}, gpu.handle, kUncorrected,
                           kSinceDriverLoad, &errors) == kSuccess)
            reading.uncorrected_ecc_errors = errors;
        reading.nvlink_bytes = nvlink_bytes(gpu.handle);
        return reading;
    }

    std::optional<std::uint64_t> large_of(std::initializer_list<const char*> names,
                                          Device handle) const {
        unsigned long long number = 0;
        return library_->call(names, handle, &number) == kSuccess
                   ? std::optional<std::uint64_t>(number)
                   : std::nullopt;
    }

    std::optional<int> memory_temperature(Device handle) const {
        FieldValue field = {};
        field.field = kFieldMemoryTemperature;
        const int count = 1;
        if (library_->call({"nvmlDeviceGetFieldValues"}, handle, count, &field) != kSuccess ||
            field.result != kSuccess)
            return std::nullopt;
        return static_cast<int>(to_number(field));
    }

    std::optional<std::uint64_t> nvlink_bytes(Device handle) const {
        constexpr std::uint64_t kKiB = 1024;
        std::array<FieldValue, 4> fields{};
        constexpr std::array<unsigned, 4> kNames = {kFieldDataSent, kFieldDataReceived,
                                                    kFieldBytesSent, kFieldBytesReceived};
        for (std::size_t at = 0; at < fields.size(); ++at)
            fields[at].field = kNames[at], fields[at].scope = kAllLinks;
        const int count = fields.size();
        if (library_->call({"nvmlDeviceGetFieldValues"}, handle, count, fields.data()) != kSuccess)
            return std::nullopt;
        // A GPU tells one of the two pairs, or both.
        std::optional<std::uint64_t> in_kib, in_bytes;
        for (const FieldValue& field : fields)
            if (field.result == kSuccess && field.field <= kFieldDataReceived)
                in_kib = in_kib.value_or(0) + to_number(field) * kKiB;
            else if (field.result == kSuccess)
                in_bytes = in_bytes.value_or(0) + to_number(field);
        return in_bytes ? in_bytes : in_kib;
    }

    // A GPU without ECC has no such events, and takes a registration of all or of none.
    void register_events(Device handle, EventSet set) const {
        if (library_->call({"nvmlDeviceRegisterEvents"}, handle, kXid | kDoubleBitEcc, set) !=
            kSuccess)
            library_->call({"nvmlDeviceRegisterEvents"}, handle, kXid, set);
    }

    static bool tell(const EventData& event, const std::vector<Followed>& gpus,
                     const std::function<bool(const NvmlEvent&)>& on_event) {
        const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Followed& followed) {
            return followed.handle == event.device;
        });
        const std::string bdf = gpu == gpus.end() ? std::string() : gpu->bdf;
        if (event.type == kXid)
            return on_event({NvmlEvent::Kind::xid, bdf, event.data});
        if (event.type == kDoubleBitEcc)
            return on_event({NvmlEvent::Kind::double_bit_ecc, bdf, 0});
        return true;
    }

    // For a GPU that is gone, and for one that is slowed down, there is no event.
    bool look(std::vector<Followed>& gpus,
              const std::function<bool(const NvmlEvent&)>& on_event) const {
        bool wanted = true;
        for (Followed& gpu : gpus) {
            unsigned long long reasons = 0;
            const Return result = library_->call({"nvmlDeviceGetCurrentClocksEventReasons",
                                                  "nvmlDeviceGetCurrentClocksThrottleReasons"},
                                                 gpu.handle, &reasons);
            if (result == kGpuIsLost && !std::exchange(gpu.lost, true))
                wanted = wanted && on_event({NvmlEvent::Kind::lost, gpu.bdf, 0});
            if (result != kSuccess)
                continue;
            reasons &= kSoftwareThermal | kHardwareThermal | kPowerBrake;
            if ((reasons & ~gpu.slowed) != 0)
                wanted = wanted && on_event({NvmlEvent::Kind::slowed, gpu.bdf, reasons});
            gpu.slowed |= reasons;
        }
        return wanted;
    }

    NvmlDevice describe(Device handle, const Wanted& wanted) const {
        NvmlDevice device;
        PciInfo pci = {};
        const Return located = library_->call(
            {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"}, handle,
            &pci);
        if (located == kSuccess)
            device.bdf = to_bdf(pci);
        device.uuid = text_of("nvmlDeviceGetUUID", handle);
        device.name = text_of("nvmlDeviceGetName", handle);
        device.memory_bytes = memory_of(handle);
        read_mig(handle, device, wanted);
        if (wanted.processes)
            read_processes(handle, device.compute_processes);
        if (wanted.health)
            read_health(handle, device);
        if (wanted.health || wanted.links)
            read_links(handle, device, wanted);
        return device;
    }

    std::string text_of(const char* function, Device handle) const {
        std::array<char, 96> text = {};
        const unsigned size = text.size();
        return library_->call({function}, handle, text.data(), size) == kSuccess ? text.data() : "";
    }

    std::uint64_t memory_of(Device handle) const {
        Memory memory = {};
        return library_->call({"nvmlDeviceGetMemoryInfo"}, handle, &memory) == kSuccess
                   ? memory.total
                   : 0;
    }

    void read_mig(Device handle, NvmlDevice& device, const Wanted& wanted) const {
        unsigned current = 0, pending = 0, most = 0;
        if (library_->call({"nvmlDeviceGetMigMode"}, handle, &current, &pending) != kSuccess ||
            current == 0)
            return;
        device.mig_enabled = true;
        library_->call({"nvmlDeviceGetMaxMigDeviceCount"}, handle, &most);
        for (unsigned index = 0; index < most;
             ++index) {  // places; those without a device answer with an error
            Device part = nullptr;
            if (library_->call({"nvmlDeviceGetMigDeviceHandleByIndex"}, handle, index, &part) !=
                kSuccess)
                continue;
            device.mig_devices.push_back({text_of("nvmlDeviceGetUUID", part),
                                          text_of("nvmlDeviceGetName", part), memory_of(part)});
            if (wanted.processes)
                read_processes(part, device.mig_devices.back().compute_processes);
        }
    }

    // False: the driver does not tell.
    bool read_processes(Device handle, std::vector<NvmlDevice::Process>& into) const {
        std::vector<Process> processes(64);
        const Return result = read_process_list(
            {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
            handle, processes);
        for (const Process& process : processes)
            add_process(into, process.pid, process.memory);
        if (result != kFunctionNotFound)
            return result == kSuccess;
        std::vector<ProcessV1> old(64);
        const Return of_old =
            read_process_list({"nvmlDeviceGetComputeRunningProcesses"}, handle, old);
        for (const ProcessV1& process : old)
            add_process(into, process.pid, process.memory);
        return of_old == kSuccess;
    }

    static void add_process(std::vector<NvmlDevice::Process>& into, unsigned pid,
                            unsigned long long memory) {
        into.push_back({static_cast<int>(pid), memory == kNotAvailable ? 0 : memory});
    }

    // Processes come and go between a call that says how many there are and the next one.
    template <class Entry>
    Return read_process_list(std::initializer_list<const char*> names, Device handle,
                             std::vector<Entry>& processes) const {
        Return result = kInsufficientSize;
        for (int attempt = 0; attempt < 4 && result == kInsufficientSize; ++attempt) {
            unsigned count = static_cast<unsigned>(processes.size());
            result = library_->call(names, handle, &count, processes.data());
            if (result == kInsufficientSize)
                processes.resize(std::max<std::size_t>(count, processes.size()) * 2);
            if (result == kSuccess)
                processes.resize(std::min<std::size_t>(count, processes.size()));
        }
        if (result != kSuccess)
            processes.clear();
        return result;
    }

    void read_health(Device handle, NvmlDevice& device) const {
        unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
        if (library_->call({"nvmlDeviceGetRemappedRows"}, handle, &correctable, &uncorrectable,
                           &pending, &failed) == kSuccess) {
            device.row_remap_pending = pending != 0;
            device.row_remap_failed = failed != 0;
        }
        unsigned long long number = 0;
        if (library_->call({"nvmlDeviceGetTotalEccErrors"}, handle, kUncorrected, kSinceDriverLoad,
                           &number) == kSuccess)
            device.uncorrected_ecc_errors = number;
        if (library_->call({"nvmlDeviceGetCurrentClocksEventReasons",
                            "nvmlDeviceGetCurrentClocksThrottleReasons"},
                           handle, &number) == kSuccess)
            device.clock_event_reasons = number;
        device.pcie_width = number_of("nvmlDeviceGetCurrPcieLinkWidth", handle);
        device.pcie_max_width = number_of("nvmlDeviceGetMaxPcieLinkWidth", handle);
        device.pcie_generation = number_of("nvmlDeviceGetCurrPcieLinkGeneration", handle);
        device.pcie_max_generation = number_of("nvmlDeviceGetMaxPcieLinkGeneration", handle);
        device.compute_mode = number_of("nvmlDeviceGetComputeMode", handle);
        read_fabric(handle, device);
    }

    template <class... Which>
    std::optional<int> number_of(const char* function, Device handle, Which... which) const {
        unsigned number = 0;
        if (library_->call({function}, handle, which..., &number) != kSuccess)
            return std::nullopt;
        return static_cast<int>(number);
    }

    // A driver refuses a structure newer than itself; the oldest drivers know only the one without
    // a version.
    void read_fabric(Device handle, NvmlDevice& device) const {
        for (const unsigned version : {kFabricV3, kFabricV2}) {
            nvml_api::Fabric info = {};
            info.version = version;
            if (library_->call({"nvmlDeviceGetGpuFabricInfoV"}, handle, &info) != kSuccess)
                continue;
            if (info.state != 0)
                device.fabric = {info.state, info.status, to_uuid(info.cluster_uuid), info.clique,
                                 info.health_mask};
            return;
        }
        FabricV1 info = {};
        if (library_->call({"nvmlDeviceGetGpuFabricInfo"}, handle, &info) != kSuccess ||
            info.state == 0)
            return;
        device.fabric = {info.state, info.status, to_uuid(info.cluster_uuid), info.clique, 0};
    }

    void read_links(Device handle, NvmlDevice& device, const Wanted& wanted) const {
        std::map<std::pair<std::string, bool>, int> counts;
        for (unsigned link = 0; link < kMostLinks; ++link) {
            int is_active = 0;
            if (library_->call({"nvmlDeviceGetNvLinkState"}, handle, link, &is_active) !=
                    kSuccess ||
                !is_active)
                continue;
            if (wanted.health)
                add_link_errors(handle, link, device);
            if (!wanted.links)
                continue;
            PciInfo pci = {};
            const Return located = library_->call(
                {"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"}, handle,
                link, &pci);
            int type = kRemoteGpu;
            const Return told =
                library_->call({"nvmlDeviceGetNvLinkRemoteDeviceType"}, handle, link, &type);
            const bool is_switch = told == kSuccess && type == kRemoteSwitch;
            if (located != kSuccess && told != kSuccess)
                continue;  // nothing is known of its other end
            ++counts[{located == kSuccess ? to_bdf(pci) : std::string(), is_switch}];
        }
        for (const auto& [peer, count] : counts)
            device.nvlinks.push_back({peer.first, count, peer.second});
    }

    void add_link_errors(Device handle, unsigned link, NvmlDevice& device) const {
        bool known = false;
        std::uint64_t errors = 0;
        for (int counter = 0; counter < kLinkCounters; ++counter) {
            unsigned long long value = 0;
            if (library_->call({"nvmlDeviceGetNvLinkErrorCounter"}, handle, link, counter,
                               &value) != kSuccess)
                continue;
            known = true;
            errors += value;
        }
        if (!known) {
            std::array<FieldValue, 2> fields = {};
            fields[0].field = kFieldReceiveErrors;
            fields[1].field = kFieldRecoveryEvents;
            for (FieldValue& field : fields)
                field.scope = link;
            const int count = fields.size();
            if (library_->call({"nvmlDeviceGetFieldValues"}, handle, count, fields.data()) !=
                kSuccess)
                return;
            for (const FieldValue& field : fields) {
                if (field.result != kSuccess)
                    continue;
                known = true;
                errors += to_number(field);
            }
        }
        if (known)
            device.nvlink_errors = device.nvlink_errors.value_or(0) + errors;
    }

    std::unique_ptr<Library> library_;
};

// Beside the loader's own places, those where container systems put the driver.
std::vector<std::string> library_names(const std::string& library) {
    if (!library.empty())
        return {library};
    if (const char* named = std::getenv("AUTOLAUNCH_NVML_LIBRARY"); named && *named)
        return {named};
    return {"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
            "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
}

}  // namespace

std::unique_ptr<Nvml> Nvml::load(std::string& why, const std::string& library) {
    why.clear();
    for (const std::string& name : library_names(library)) {
        void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            const char* const text = ::dlerror();
            if (why.empty())
                why = text ? text : name + " cannot be loaded";
            continue;
        }
        auto loaded = std::make_unique<Library>(handle);
        const Return result = loaded->call({"nvmlInit_v2", "nvmlInit"});
        if (result == kSuccess)
            return std::make_unique<LoadedNvml>(std::move(loaded));
        why = result == kFunctionNotFound
                  ? name + " has no nvmlInit: it is not NVIDIA's management library"
                  : fmt::format("{}: {}", name, loaded->error_text(result));
        return nullptr;
    }
    return nullptr;
}

}  // namespace autolaunch::launcher
