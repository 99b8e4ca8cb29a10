/* A management library that serves GPUs out of a text file, for tests on machines without GPUs. Built as
 * tests/fake_nvml.so, and as tests/fake_nvml_old.so, which has only the functions of an early driver. Let
 * AUTOLAUNCH_NVML_LIBRARY name one of them, and FAKE_NVML_MACHINE the file. It is read at nvmlInit.
 *
 * One fact a line: a word, then its values between spaces; what is last may hold spaces. Empty lines and lines that begin
 * with # are skipped, as is the space before a word.
 *
 *   driver 570.86.15                 version of the driver
 *   cuda 12080                       newest CUDA that it serves
 *   init 9                           what nvmlInit returns (9: the driver is not loaded)
 *   lacks nvmlDeviceGetMigMode       this function answers "function not found"; any number of lines
 *   hangs nvmlDeviceGetMigMode       this function, or nvmlInit, never answers
 *   crashes nvmlDeviceGetMigMode     this function, or nvmlInit, ends the process by SIGSEGV
 *   gpu 0000:17:00.0 GPU-1a2b NVIDIA H100 80GB HBM3      begins a GPU: PCI address, UUID, name
 * and after a gpu line, of that GPU; a fact without a line is "not supported":
 *   lost 15                          asking for the GPU returns this (15: it fell off the bus)
 *   memory 85520809984
 *   mig                              MIG is enabled
 *   part MIG-3c4d 10200547328 NVIDIA H100 80GB HBM3 MIG 1g.10gb      a MIG device: UUID, memory, name
 *   process 4711 1073741824          compute process: PID, memory
 *   mig_process 4711 1073741824      the same of the MIG device above it
 *   remap 1 0                        row remap: pending, failed
 *   ecc 3                            uncorrected errors since the driver was loaded
 *   clocks 8                         clock event reasons
 *   pcie 16 16 5 5                   width, widest, generation, highest
 *   compute_mode 3
 *   fabric 3 0 00112233445566778899aabbccddeeff 7 2      state, status, cluster UUID, clique, health mask
 *   link 0000:18:00.0 gpu 5          an active NVLink: other end's address (- where hidden), gpu or switch, errors
 *   link5 - switch 5                 the same of NVLink 5: the errors are told by fields
 *   event 8 79                       an event of this type (8: Xid, 2: double-bit ECC), and its data; each is told once
 *   traffic K 100 50 7               NVLink: sent, received, and what each question adds; K: KiB, B: bytes, as of NVLink 5
 *   use 98 40 79000000000            busy percent of the GPU and of its memory, bytes that are used
 *   heat 60 2 90 70                  its temperature, what each question adds, where that ends; of its memory
 *   power 650000 700000 5000         milliwatts, their limit, and the millijoules that each question adds
 *   speed 1980 2619                  clocks in MHz: SM, memory
 *   no_ecc_events                    registering for another type than 8 fails
 *   falls_off                        its clocks answer that the GPU is lost
 *   no_process                       its compute processes so far have ended
 *   at 12.5 use 0 0 0                from 12.5 s on, this fact in place of what it was. In the order of time, 8192 of all
 *                                    GPUs together. Time begins at `begin SECONDS` (since 1970; a line before the first
 *                                    GPU), or where fake_nvml_set_time() says what time it is
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, MISSING = 13, VERSION = 25 };
enum { MOST_GPUS = 16, MOST_PARTS = 8, MOST_PROCESSES = 256, MOST_LINKS = 36, MOST_LACKS = 16, MOST_EVENTS = 8 };
enum { MOST_LATER = 8192 };

typedef struct {
    char uuid[96], name[96];
    unsigned long long memory;
    int process_count;
    unsigned pids[MOST_PROCESSES];
    unsigned long long used[MOST_PROCESSES];
} Part;

typedef struct {
    char bdf[32], type[16];
    unsigned long long errors;
    int is_nvlink5;
} Link;

typedef struct Gpu {
    Part self;
    char bdf[32], cluster[33];
    int lost, mig, has_remap, has_ecc, has_clocks, has_pcie, has_mode, has_fabric;
    unsigned remap[2], pcie[4], mode;
    unsigned long long ecc, clocks;
    int event_count, no_ecc_events, falls_off;
    char traffic_unit;
    unsigned long long traffic[2], traffic_step, used, energy;
    int has_use, has_power, has_speed;
    unsigned use[2], heat, heat_step, most_heat, memory_heat, power[2], energy_step, speed[2];
    unsigned long long registered, events[MOST_EVENTS][2];
    int part_count, link_count;
    Part parts[MOST_PARTS];
    unsigned fabric_state, clique, health;
    int fabric_status;
    Link links[MOST_LINKS];
} Gpu;

static Gpu gpus[MOST_GPUS];
static int gpu_count, cuda_version, init_result, lack_count;

/* Facts that hold later. */
static struct {
    Gpu* gpu;
    double at;
    char fact[112];
    int is_done;
} later[MOST_LATER];
static int later_count;
static double begin, set_time = -1;
static char driver_version[80], lacks[MOST_LACKS][64], hangs[64], crashes[64];

#define EXPORT __attribute__((visibility("default")))
#define NEED(fact)                                   \
    do {                                             \
        if (is_lacking(__func__)) return MISSING;    \
        if (!(fact)) return NOT_SUPPORTED;           \
    } while (0)

static void misbehave(const char* function) {
    while (strcmp(hangs, function) == 0) pause();
    if (strcmp(crashes, function) != 0) return;
    sigset_t fault; /* a raised signal waits where a thread blocks it, as a fault does not */
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &fault, NULL);
    raise(SIGSEGV);
}

static int is_lacking(const char* function) {
    misbehave(function);
    for (int i = 0; i < lack_count; ++i)
        if (strcmp(lacks[i], function) == 0) return 1;
    return 0;
}

static void add_process(Part* part, const char* format, const char* line) {
    const int next = part->process_count;
    if (next < MOST_PROCESSES && sscanf(line, format, &part->pids[next], &part->used[next]) == 2)
        ++part->process_count;
}

static void read_gpu_line(Gpu* gpu, const char* line) {
    double at = 0;
    int fact = 0;
    if (sscanf(line, "at %lf %n", &at, &fact) == 1 && fact > 0) {
        if (later_count == MOST_LATER) return;
        later[later_count].gpu = gpu;
        later[later_count].at = at;
        snprintf(later[later_count].fact, sizeof later[0].fact, "%s", line + fact);
        later[later_count++].is_done = 0;
        return;
    }
    Link* link = &gpu->links[gpu->link_count];
    Part* part = &gpu->parts[gpu->part_count];
    if (sscanf(line, "lost %d", &gpu->lost) == 1) return;
    if (sscanf(line, "memory %llu", &gpu->self.memory) == 1) return;
    if (strcmp(line, "mig") == 0) gpu->mig = 1;
    if (gpu->part_count < MOST_PARTS &&
        sscanf(line, "part %95s %llu %95[^\n]", part->uuid, &part->memory, part->name) == 3)
        ++gpu->part_count;
    add_process(&gpu->self, "process %u %llu", line);
    if (gpu->part_count > 0) add_process(&gpu->parts[gpu->part_count - 1], "mig_process %u %llu", line);
    if (sscanf(line, "remap %u %u", &gpu->remap[0], &gpu->remap[1]) == 2) gpu->has_remap = 1;
    if (sscanf(line, "ecc %llu", &gpu->ecc) == 1) gpu->has_ecc = 1;
    if (sscanf(line, "clocks %llu", &gpu->clocks) == 1) gpu->has_clocks = 1;
    if (sscanf(line, "pcie %u %u %u %u", &gpu->pcie[0], &gpu->pcie[1], &gpu->pcie[2], &gpu->pcie[3]) == 4)
        gpu->has_pcie = 1;
    sscanf(line, "traffic %c %llu %llu %llu", &gpu->traffic_unit, &gpu->traffic[0], &gpu->traffic[1],
           &gpu->traffic_step);
    if (sscanf(line, "use %u %u %llu", &gpu->use[0], &gpu->use[1], &gpu->used) == 3) gpu->has_use = 1;
    sscanf(line, "heat %u %u %u %u", &gpu->heat, &gpu->heat_step, &gpu->most_heat, &gpu->memory_heat);
    if (sscanf(line, "power %u %u %u", &gpu->power[0], &gpu->power[1], &gpu->energy_step) == 3) gpu->has_power = 1;
    if (sscanf(line, "speed %u %u", &gpu->speed[0], &gpu->speed[1]) == 2) gpu->has_speed = 1;
    if (strcmp(line, "no_ecc_events") == 0) gpu->no_ecc_events = 1;
    if (strcmp(line, "falls_off") == 0) gpu->falls_off = 1;
    if (strcmp(line, "no_process") == 0) gpu->self.process_count = 0;
    if (gpu->event_count < MOST_EVENTS &&
        sscanf(line, "event %llu %llu", &gpu->events[gpu->event_count][0], &gpu->events[gpu->event_count][1]) == 2)
        ++gpu->event_count;
    if (sscanf(line, "compute_mode %u", &gpu->mode) == 1) gpu->has_mode = 1;
    if (sscanf(line, "fabric %u %d %32s %u %u", &gpu->fabric_state, &gpu->fabric_status, gpu->cluster, &gpu->clique,
               &gpu->health) == 5)
        gpu->has_fabric = 1;
    if (gpu->link_count < MOST_LINKS) {
        link->is_nvlink5 = strncmp(line, "link5 ", 6) == 0;
        if (sscanf(line, "link %31s %15s %llu", link->bdf, link->type, &link->errors) == 3 ||
            sscanf(line, "link5 %31s %15s %llu", link->bdf, link->type, &link->errors) == 3)
            ++gpu->link_count;
    }
}

static void read_line(char* line) {
    line += strspn(line, " \t");
    line[strcspn(line, "\n")] = 0;
    if (*line == 0 || *line == '#') return;
    Gpu* next = &gpus[gpu_count];
    if (sscanf(line, "begin %lf", &begin) == 1 || sscanf(line, "driver %79s", driver_version) == 1 || sscanf(line, "cuda %d", &cuda_version) == 1 ||
        sscanf(line, "init %d", &init_result) == 1 || sscanf(line, "hangs %63s", hangs) == 1 ||
        sscanf(line, "crashes %63s", crashes) == 1)
        return;
    if (lack_count < MOST_LACKS && sscanf(line, "lacks %63s", lacks[lack_count]) == 1) {
        ++lack_count;
    } else if (gpu_count < MOST_GPUS &&
               sscanf(line, "gpu %31s %95s %95[^\n]", next->bdf, next->self.uuid, next->self.name) == 3) {
        ++gpu_count;
    } else if (gpu_count > 0) {
        read_gpu_line(&gpus[gpu_count - 1], line);
    }
}

static int read_machine(void) {
    const char* path = getenv("FAKE_NVML_MACHINE");
    FILE* file = path ? fopen(path, "re") : NULL;
    char line[512];
    if (!file) return 9;
    memset(gpus, 0, sizeof gpus);
    gpu_count = cuda_version = init_result = lack_count = later_count = 0;
    begin = 0;
    driver_version[0] = hangs[0] = crashes[0] = 0;
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
    misbehave("nvmlInit");
    return init_result;
}

static void pass_time(void) {
    double now = set_time;
    struct timespec clock;
    if (later_count == 0) return;
    if (now < 0) {
        clock_gettime(CLOCK_REALTIME, &clock);
        now = (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec - begin;
    }
    for (int i = 0; i < later_count; ++i)
        if (!later[i].is_done && later[i].at <= now) {
            later[i].is_done = 1;
            read_gpu_line(later[i].gpu, later[i].fact);
        }
}

/* A handle is the address of a Gpu or of a Part: only names, UUIDs, memory and processes are asked of a Part. */
static Gpu* as_gpu(void* device) {
    pass_time();
    for (int i = 0; i < gpu_count; ++i)
        if (device == &gpus[i]) return &gpus[i];
    return NULL;
}

/* Of a GPU its own, which begins it. */
static const Part* as_part(void* device) { return (const Part*)device; }

static int put_text(const char* from, char* to, unsigned size) {
    if (strlen(from) >= size) return TOO_SMALL;
    strcpy(to, from);
    return SUCCESS;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} PciInfo;

static int put_pci(const char* bdf, PciInfo* pci) {
    unsigned function = 0;
    memset(pci, 0, sizeof *pci);
    if (sscanf(bdf, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &function) != 4) return NOT_SUPPORTED;
    snprintf(pci->text, sizeof pci->text, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
    return SUCCESS;
}

/* Not of NVIDIA's library: for tests that go through hours in a moment. */
EXPORT void fake_nvml_set_time(double seconds) { set_time = seconds; }

EXPORT int nvmlInit(void) { return read_machine(); }
EXPORT int nvmlShutdown(void) { return SUCCESS; }

EXPORT const char* nvmlErrorString(int result) {
    switch (result) {
        case 9:
            return "Driver Not Loaded";
        case 15:
            return "GPU is lost";
        case 18:
            return "RM has detected an NVML/RM version mismatch.";
        default:
            return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned size) { return put_text(driver_version, text, size); }
EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
    NEED(cuda_version);
    *version = cuda_version;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCount(unsigned* count) {
    *count = (unsigned)gpu_count;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
    if (index >= (unsigned)gpu_count) return INVALID;
    *device = &gpus[index];
    return gpus[index].lost;
}
EXPORT int nvmlDeviceGetPciInfo(void* device, PciInfo* pci) {
    const Gpu* gpu = as_gpu(device);
    return gpu ? put_pci(gpu->bdf, pci) : INVALID;
}
EXPORT int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
    return put_text(as_part(device)->uuid, text, size);
}
EXPORT int nvmlDeviceGetName(void* device, char* text, unsigned size) {
    return put_text(as_part(device)->name, text, size);
}
EXPORT int nvmlDeviceGetMemoryInfo(void* device, unsigned long long memory[3]) {
    NEED(as_part(device)->memory);
    memory[0] = as_part(device)->memory;
    memory[2] = as_gpu(device) ? as_gpu(device)->used : 0;
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}
EXPORT int nvmlDeviceGetUtilizationRates(void* device, unsigned use[2]) {
    const Gpu* gpu = as_gpu(device);
    if (gpu && gpu->falls_off) return 15;
    NEED(gpu && gpu->has_use && !gpu->mig);
    use[0] = gpu->use[0];
    use[1] = gpu->use[1];
    return SUCCESS;
}
EXPORT int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
    Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->heat && sensor == 0);
    *celsius = gpu->heat;
    gpu->heat = gpu->heat + gpu->heat_step < gpu->most_heat ? gpu->heat + gpu->heat_step : gpu->most_heat;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_power);
    *milliwatts = gpu->power[0];
    return SUCCESS;
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_power);
    *milliwatts = gpu->power[1];
    return SUCCESS;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_power);
    gpu->energy += gpu->energy_step;
    *millijoules = gpu->energy;
    return SUCCESS;
}
/* 1: SM, 2: memory */
EXPORT int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* megahertz) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_speed && (clock == 1 || clock == 2));
    *megahertz = gpu->speed[clock - 1];
    return SUCCESS;
}
EXPORT int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_ecc);
    *count = type == 1 && counter == 0 ? gpu->ecc : 0;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
    const Gpu* gpu = as_gpu(device);
    if (gpu && gpu->falls_off) return 15;
    NEED(gpu && gpu->has_clocks);
    *reasons = gpu->clocks;
    return SUCCESS;
}
static int put_pcie(void* device, int which, unsigned* value) {
    const Gpu* gpu = as_gpu(device);
    if (!gpu || !gpu->has_pcie) return NOT_SUPPORTED;
    *value = gpu->pcie[which];
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) { return put_pcie(device, 0, value); }
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) { return put_pcie(device, 1, value); }
EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) { return put_pcie(device, 2, value); }
EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) { return put_pcie(device, 3, value); }
EXPORT int nvmlDeviceGetComputeMode(void* device, unsigned* mode) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_mode);
    *mode = gpu->mode;
    return SUCCESS;
}

static const Link* find_link(void* device, unsigned link) {
    const Gpu* gpu = as_gpu(device);
    return gpu && link < (unsigned)gpu->link_count ? &gpu->links[link] : NULL;
}
EXPORT int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* is_active) {
    NEED(find_link(device, link));
    *is_active = 1;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, int counter, unsigned long long* value) {
    const Link* found = find_link(device, link);
    NEED(found && !found->is_nvlink5);
    *value = counter == 2 ? found->errors : 0;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo(void* device, unsigned link, PciInfo* pci) {
    const Link* found = find_link(device, link);
    NEED(found);
    return put_pci(found->bdf, pci);
}

typedef struct {
    unsigned pid;
    unsigned long long memory;
} ProcessV1;
EXPORT int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, ProcessV1* processes) {
    const Part* part = as_part(device);
    NEED(part);
    const unsigned there = (unsigned)part->process_count, room = *count;
    *count = there;
    if (room < there) return TOO_SMALL;
    for (unsigned i = 0; i < there; ++i) {
        processes[i].pid = part->pids[i];
        processes[i].memory = part->used[i];
    }
    return SUCCESS;
}

typedef struct {
    void* device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} EventData;
EXPORT int nvmlEventSetCreate(void** set) {
    NEED(gpu_count);
    *set = gpus;
    return SUCCESS;
}
EXPORT int nvmlEventSetFree(void* set) { return set == gpus ? SUCCESS : INVALID; }
EXPORT int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
    Gpu* gpu = as_gpu(device);
    if (!gpu || set != gpus) return INVALID;
    if (gpu->no_ecc_events && (types & ~8ull)) return NOT_SUPPORTED;
    gpu->registered = types;
    return SUCCESS;
}
/* The old structure ends before the instances. */
static int wait_for_event(void* set, EventData* event, unsigned ms) {
    if (set != gpus) return INVALID;
    for (int i = 0; i < gpu_count; ++i)
        for (int e = 0; e < gpus[i].event_count; ++e) {
            unsigned long long* const next = gpus[i].events[e];
            if (!next[0] || !(next[0] & gpus[i].registered)) continue;
            event->device = &gpus[i];
            event->type = next[0];
            event->data = next[1];
            next[0] = 0;
            return SUCCESS;
        }
    usleep(ms * 1000);
    return 10;
}
EXPORT int nvmlEventSetWait(void* set, EventData* event, unsigned ms) { return wait_for_event(set, event, ms); }

#ifndef FAKE_NVML_OLD

EXPORT int nvmlEventSetWait_v2(void* set, EventData* event, unsigned ms) {
    NEED(1);
    event->gpu_instance = event->compute_instance = 0xffffffff;
    return wait_for_event(set, event, ms);
}
EXPORT int nvmlInit_v2(void) { return read_machine(); }
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) { return nvmlDeviceGetCount(count); }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    return nvmlDeviceGetHandleByIndex(index, device);
}
EXPORT int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
    NEED(1);
    return nvmlDeviceGetPciInfo(device, pci);
}
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
    NEED(1);
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

EXPORT int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu);
    *current = *pending = (unsigned)gpu->mig;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
    NEED(as_gpu(device));
    *count = MOST_PARTS;
    return SUCCESS;
}
/* Places of MIG devices have holes: here every first one of two is empty. */
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** part) {
    Gpu* gpu = as_gpu(device);
    NEED(gpu);
    if (index % 2 == 0 || index / 2 >= (unsigned)gpu->part_count) return NOT_FOUND;
    *part = &gpu->parts[index / 2];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRemappedRows(void* device, unsigned* correctable, unsigned* uncorrectable, unsigned* pending,
                                     unsigned* failed) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_remap && !gpu->mig);
    *correctable = *uncorrectable = 0;
    *pending = gpu->remap[0];
    *failed = gpu->remap[1];
    return SUCCESS;
}

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} Process;
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
    const Part* part = as_part(device);
    NEED(part);
    const unsigned there = (unsigned)part->process_count, room = *count;
    *count = there;
    if (room < there) return TOO_SMALL;
    for (unsigned i = 0; i < there; ++i) {
        processes[i].pid = part->pids[i];
        processes[i].memory = part->used[i];
        processes[i].gpu_instance = processes[i].compute_instance = 0xffffffff;
    }
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
    NEED(1);
    return nvmlDeviceGetNvLinkRemotePciInfo(device, link, pci);
}
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
    const Link* found = find_link(device, link);
    NEED(found);
    *type = strcmp(found->type, "switch") == 0 ? 2 : 0;
    return SUCCESS;
}

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
} FieldValue;
/* 138, 139: KiB sent and received; 202, 204 the same in bytes, of NVLink 5. */
static int traffic_field(const Gpu* gpu, unsigned field) {
    if (gpu->traffic_unit == 'K' && (field == 138 || field == 139)) return (int)field - 138;
    if (gpu->traffic_unit == 'B' && (field == 202 || field == 204)) return field == 204;
    return -1;
}
EXPORT int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* fields) {
    NEED(as_gpu(device));
    for (int i = 0; i < count; ++i) {
        Gpu* gpu = as_gpu(device);
        const int traffic = fields[i].scope == 0xffffffffu ? traffic_field(gpu, fields[i].field) : -1;
        if (traffic >= 0) {
            fields[i].result = SUCCESS;
            fields[i].type = 3;
            fields[i].value = gpu->traffic[traffic];
            gpu->traffic[traffic] += gpu->traffic_step;
            continue;
        }
        if (fields[i].field == 82 && gpu->memory_heat) {
            fields[i].result = SUCCESS;
            fields[i].type = 1;
            fields[i].value = gpu->memory_heat;
            continue;
        }
        const Link* found = find_link(device, fields[i].scope);
        fields[i].result = found && found->is_nvlink5 && fields[i].field == 208 ? SUCCESS : NOT_SUPPORTED;
        fields[i].type = 3;
        fields[i].value = found ? found->errors : 0;
    }
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
} FabricV2;
/* A driver before 580: it knows version 2 of the structure, not 3. */
EXPORT int nvmlDeviceGetGpuFabricInfoV(void* device, FabricV2* info) {
    const Gpu* gpu = as_gpu(device);
    NEED(gpu && gpu->has_fabric);
    if (info->version != (sizeof(FabricV2) | 2u << 24)) return VERSION;
    for (unsigned i = 0; i < 16; ++i) {
        unsigned byte = 0;
        sscanf(gpu->cluster + 2 * i, "%2x", &byte);
        info->cluster[i] = (unsigned char)byte;
    }
    info->status = gpu->fabric_status;
    info->clique = gpu->clique;
    info->state = (unsigned char)gpu->fabric_state;
    info->health = gpu->health;
    return SUCCESS;
}

#endif
