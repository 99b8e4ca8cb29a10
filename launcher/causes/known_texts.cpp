#include "causes/known_texts.hpp"

#include <cctype>

namespace autolaunch::launcher {

namespace {

constexpr bool kFollows = true;

constexpr std::string_view kGpuBroken = "the GPU's hardware or its driver failed";
constexpr std::string_view kGpuFull = "the GPU's memory did not suffice";
constexpr std::string_view kMemoryRefused = "memory was asked for and refused";
constexpr std::string_view kNoRoom = "a disk, a quota or a limit had no room";
constexpr std::string_view kDiskBroken = "a file system or its server failed";
constexpr std::string_view kDamaged = "a file that it read is damaged or cut off";
constexpr std::string_view kShmFull = "/dev/shm is full";
constexpr std::string_view kWaited =
    "a collective was waited for in vain: a rank did not come to it";
constexpr std::string_view kPeerGone = "its peer in a collective went away";
constexpr std::string_view kNoName = "names of hosts are not resolved";
constexpr std::string_view kLink = "a connection, a port or a cable failed";
constexpr std::string_view kNoInterface =
    "a network interface that it was told to use is not there";
constexpr std::string_view kFiles = "no file descriptor was left: ulimit -n";
constexpr std::string_view kProcesses =
    "no process or thread could be started: ulimit -u, and pids.max of the cgroup";
constexpr std::string_view kShapes = "ranks call collectives that do not match";
constexpr std::string_view kSanitizer = "AddressSanitizer ended it: its report is in the log";
constexpr std::string_view kAborted = "its MPI says that it called MPI_Abort";

// clang-format off
const std::vector<KnownText> kTexts = {
    // Words of secondary failures, of NCCL, gloo, MPI, c10d and our library, are known as such: they
    // stand before those that they quote. So are those of a link that may as well be a peer's end.
    {"remote process exited or there was a network error", Cause::network, kPeerGone, kFollows},
    {"Connection closed by remote peer",       Cause::network, kPeerGone, kFollows},
    {"ncclRemoteError",                        Cause::network, kPeerGone, kFollows},
    {"NCCL communicator was aborted",          Cause::network, kPeerGone, kFollows},
    {"Connection was likely closed",           Cause::network, kPeerGone, kFollows},
    {"store->get('0') got error",              Cause::network, kPeerGone, kFollows},
    {"Connection closed by peer",              Cause::network, kPeerGone, kFollows},
    {"Socket unexpectedly closed",             Cause::network, kPeerGone, kFollows},
    {"went away during",                       Cause::network, kPeerGone, kFollows},
    {"went away before all ranks",             Cause::network, kPeerGone, kFollows},
    {"went away and its process number",       Cause::network, kPeerGone, kFollows},
    {"MPI_ERR_PROC_FAILED",                    Cause::network, kPeerGone, kFollows},
    {"MPI_ERR_REVOKED",                        Cause::network, kPeerGone, kFollows},
    {"PML_ERR_PROC_FAILED",                    Cause::network, kPeerGone, kFollows},
    {"Communication error with rank",          Cause::network, kPeerGone, kFollows},
    {"LOST-CONNECTION",                        Cause::network, kPeerGone, kFollows},
    {"Complete_posted_with_error",              Cause::network, kPeerGone, kFollows},
    {"Horovod has been shut down",              Cause::network, kPeerGone, kFollows},
    {"The actor died unexpectedly",             Cause::network, kPeerGone, kFollows},
    {"tasks are unhealthy (stopped sending",    Cause::network, kPeerGone, kFollows},

    {"uncorrectable ECC error",                Cause::gpu, kGpuBroken},
    {"ECCUncorrectable",                       Cause::gpu, kGpuBroken},
    {"ECC_UNCORRECTABLE",                      Cause::gpu, kGpuBroken},
    {"uncorrectable NVLink error",             Cause::gpu, kGpuBroken},
    {"NVLINK_UNCORRECTABLE",                   Cause::gpu, kGpuBroken},
    {"fallen off the bus",                     Cause::gpu, kGpuBroken},
    {"GPU is lost",                            Cause::gpu, kGpuBroken},
    {"NVRM: Xid",                              Cause::gpu, kGpuBroken},
    {"Unable to determine the device handle",  Cause::gpu, kGpuBroken},
    {"hardware stack error",                   Cause::gpu, kGpuBroken},
    {"HardwareStackError",                     Cause::gpu, kGpuBroken},
    {"system not yet initialized",             Cause::gpu, kGpuBroken},
    {"SYSTEM_NOT_READY",                       Cause::gpu, kGpuBroken},
    {"GPU thermal",                            Cause::gpu, kGpuBroken},
    {"thermal shutdown",                       Cause::gpu, kGpuBroken},
    {"Driver/library version mismatch",         Cause::gpu, kGpuBroken},
    {"Failed to initialize NVML",               Cause::gpu, kGpuBroken},
    {"communicate with the NVIDIA driver",      Cause::gpu, kGpuBroken},
    {"driver version is insufficient for CUDA", Cause::gpu, "the GPU's driver is older than what the program was built for"},
    {"No CUDA GPUs are available",              Cause::gpu, "no GPU is there: nvidia-smi tells whether the driver sees one", false, Certainty::possible},
    {"busy or unavailable",                     Cause::gpu, "another process holds the GPU (exclusive mode), or it is failing: nvidia-smi"},
    {"Found no NVIDIA driver",                  Cause::gpu, "no GPU is there: nvidia-smi tells whether the driver sees one", false, Certainty::possible},
    {"no CUDA-capable device is detected",     Cause::gpu, "no GPU is there: nvidia-smi tells whether the driver sees one", false, Certainty::possible},

    {"CUDA out of memory",                     Cause::out_of_memory, kGpuFull},
    {"HIP out of memory",                      Cause::out_of_memory, kGpuFull},
    {"XPU out of memory",                      Cause::out_of_memory, kGpuFull},
    {"CUDA error: out of memory",              Cause::out_of_memory, kGpuFull},
    {"Cuda failure 'out of memory'",           Cause::out_of_memory, kGpuFull},
    {"Cuda failure 2 'out of memory'",         Cause::out_of_memory, kGpuFull},
    {"CUDA_ERROR_OUT_OF_MEMORY",               Cause::out_of_memory, kGpuFull},
    {"cudaErrorMemoryAllocation",              Cause::out_of_memory, kGpuFull},
    {"hipErrorOutOfMemory",                    Cause::out_of_memory, kGpuFull},
    {"CUBLAS_STATUS_ALLOC_FAILED",             Cause::out_of_memory, kGpuFull},
    {"CUDNN_STATUS_ALLOC_FAILED",              Cause::out_of_memory, kGpuFull},
    {"RESOURCE_EXHAUSTED: Out of memory",      Cause::out_of_memory, kGpuFull},
    {"RESOURCE_EXHAUSTED: Failed to allocate", Cause::out_of_memory, kGpuFull},
    {"unable to create native thread",          Cause::program_error, kProcesses},
    {"std::bad_alloc",                         Cause::out_of_memory, kMemoryRefused},
    {"MemoryError",                            Cause::out_of_memory, kMemoryRefused},
    {"can't allocate memory",                  Cause::out_of_memory, kMemoryRefused},
    {"Cannot allocate memory",                 Cause::out_of_memory, kMemoryRefused},
    {"[Errno 12]",                             Cause::out_of_memory, kMemoryRefused},
    {"ENOMEM",                                 Cause::out_of_memory, kMemoryRefused},
    {"OutOfMemoryError",                       Cause::out_of_memory, kMemoryRefused},
    {"memory allocation of ",                  Cause::out_of_memory, kMemoryRefused},
    {"virtual memory exhausted",               Cause::out_of_memory, kMemoryRefused},
    {"not enough memory",                       Cause::out_of_memory, kMemoryRefused},
    {"OOM when allocating tensor",              Cause::out_of_memory, kGpuFull},
    {"heap out of memory",                      Cause::out_of_memory, kMemoryRefused},
    {"runtime: out of memory",                  Cause::out_of_memory, kMemoryRefused},
    {"insufficient virtual memory",             Cause::out_of_memory, kMemoryRefused},
    {"cannot allocate vector of size",          Cause::out_of_memory, kMemoryRefused},
    {"xmalloc: cannot allocate",                Cause::out_of_memory, kMemoryRefused},
    {"xrealloc: cannot allocate",               Cause::out_of_memory, kMemoryRefused},
    {"memory exhausted",                        Cause::out_of_memory, kMemoryRefused},
    {"NoMemoryError",                           Cause::out_of_memory, kMemoryRefused},
    {"Allowed memory size of",                  Cause::out_of_memory, kMemoryRefused},
    {"Out of memory during evaluation",         Cause::out_of_memory, kMemoryRefused},
    {"failed to reserve page summary memory",   Cause::out_of_memory, kMemoryRefused},
    {"Out of memory!",                          Cause::out_of_memory, kMemoryRefused},
    {"Could not reserve enough space for",      Cause::out_of_memory, kMemoryRefused},
    {"insufficient memory for the Java Runtime", Cause::out_of_memory, kMemoryRefused},
    {"AddressSanitizer: out-of-memory",         Cause::out_of_memory, kMemoryRefused},
    {"oom_kill event",                          Cause::out_of_memory, "the kernel killed a process of the step"},

    {"insufficient shared memory (shm)",       Cause::storage, kShmFull},
    {"No space left on device",                Cause::storage, kNoRoom},
    {"Disk quota exceeded",                    Cause::storage, kNoRoom},
    {"ENOSPC",                                 Cause::storage, kNoRoom},
    {"EDQUOT",                                 Cause::storage, kNoRoom},
    {"[Errno 28]",                             Cause::storage, kNoRoom},
    {"[Errno 122]",                            Cause::storage, kNoRoom},
    {"database or disk is full",                Cause::storage, kNoRoom},
    {"kein Speicherplatz mehr",                 Cause::storage, kNoRoom},
    {"Aucun espace disponible",                 Cause::storage, kNoRoom},
    {"No queda espacio en el",                  Cause::storage, kNoRoom},
    {"Não há espaço disponível",                Cause::storage, kNoRoom},
    {"Spazio esaurito",                         Cause::storage, kNoRoom},
    {"не осталось свободного места",            Cause::storage, kNoRoom},
    {"设备上没有空间",                                 Cause::storage, kNoRoom},
    {"デバイスに空き領域がありません",                         Cause::storage, kNoRoom},
    {"남은 공간이 없음",                               Cause::storage, kNoRoom},
    {"File too large",                         Cause::storage, kNoRoom},
    {"os error 28",                            Cause::storage, kNoRoom},
    {"PytorchStreamWriter failed writing",     Cause::storage, kNoRoom},
    {". unexpected pos ",                      Cause::storage, kNoRoom},
    {"Input/output error",                     Cause::storage, kDiskBroken},
    {"[Errno 5]",                              Cause::storage, kDiskBroken},
    {"(os error 5)",                            Cause::storage, kDiskBroken},
    {"Stale file handle",                      Cause::storage, kDiskBroken},
    {"Stale NFS file handle",                  Cause::storage, kDiskBroken},
    {"[Errno 116]",                            Cause::storage, kDiskBroken},
    {"Remote I/O error",                       Cause::storage, kDiskBroken},
    {"Read-only file system",                  Cause::storage, kDiskBroken},
    {"[Errno 30]",                             Cause::storage, kDiskBroken},
    {"Structure needs cleaning",               Cause::storage, kDiskBroken},
    {"disk I/O error",                          Cause::storage, kDiskBroken},
    {"[Errno 110] Connection timed out: '",     Cause::storage, kDiskBroken},
    {"[Errno 107] Transport endpoint is not connected: '", Cause::storage, kDiskBroken},
    {"unable to lock file",                     Cause::storage, "a file system does not lock files, or another process has the lock"},
    {"Cannot send after transport endpoint shutdown", Cause::storage, kDiskBroken},
    {"failed finding central directory",       Cause::storage, kDamaged},
    {"PytorchStreamReader failed",             Cause::storage, kDamaged},
    {"invalid header or archive is corrupted", Cause::storage, kDamaged},
    {"SafetensorError",                        Cause::storage, kDamaged},
    {"BadZipFile",                             Cause::storage, kDamaged},
    {"pickle data was truncated",               Cause::storage, kDamaged},
    {"DataLossError",                           Cause::storage, kDamaged},
    {"EOFError: Ran out of input",              Cause::storage, kDamaged},
    {"Parquet magic bytes not found",           Cause::storage, kDamaged},
    {"unexpected end of data",                  Cause::storage, kDamaged},
    {"not in gzip format",                      Cause::storage, kDamaged},
    {"stdin: unexpected end of file",           Cause::storage, kDamaged},
    {"Unexpected EOF in archive",               Cause::storage, kDamaged},
    {"does not look like a tar archive",        Cause::storage, kDamaged},
    {"directory signature not found",           Cause::storage, kDamaged},
    {"cannot find zipfile directory",           Cause::storage, kDamaged},
    {"File format not recognized",              Cause::storage, kDamaged},
    {"Compressed data is corrupt",              Cause::storage, kDamaged},
    {"computed checksum did NOT match",         Cause::storage, kDamaged},
    {"while decompressing data",                Cause::storage, kDamaged},
    {"BadGzipFile",                             Cause::storage, kDamaged},
    {"Not a gzipped file",                      Cause::storage, kDamaged},
    {"CRC check failed",                        Cause::storage, kDamaged},
    {"Corrupt input data",                      Cause::storage, kDamaged},
    {"Invalid data stream",                     Cause::storage, kDamaged},
    {"tarfile.ReadError",                       Cause::storage, kDamaged},
    {"file is not a database",                  Cause::storage, kDamaged},
    {"disk image is malformed",                 Cause::storage, kDamaged},
    {"invalid load key, '",                     Cause::storage, kDamaged},
    {"truncated file: eof = ",                  Cause::storage, kDamaged},
    {"file signature not found",                Cause::storage, kDamaged},
    {"Failed to read all data for array",       Cause::storage, kDamaged},
    {"mmap length is greater than file size",   Cause::storage, kDamaged},
    {"cannot identify image file",              Cause::storage, kDamaged},
    {"end-of-stream marker was reached",        Cause::storage, kDamaged},
    {"image file is truncated",                 Cause::storage, kDamaged},
    {"cannot be used: step-",                  Cause::storage, kDamaged},

    {"Watchdog caught collective operation timeout", Cause::collective_timeout, kWaited},
    {"collective operation timeout",           Cause::collective_timeout, kWaited},
    {"WorkNCCL(",                              Cause::collective_timeout, kWaited},
    {"Timed out waiting",                      Cause::collective_timeout, kWaited},
    {"timed out in monitoredBarrier",          Cause::collective_timeout, kWaited},
    {"failed to pass monitoredBarrier",        Cause::collective_timeout, kWaited},
    {"Application timeout caused pair closure", Cause::collective_timeout, kWaited},
    {"Timed out initializing process group in store based barrier", Cause::collective_timeout, kWaited},
    {"Timed out after",                        Cause::collective_timeout, kWaited},
    {" s for rank ",                           Cause::collective_timeout, kWaited},
    {"that rank is stuck elsewhere or has not called", Cause::collective_timeout, kWaited},
    {"DistStoreError",                         Cause::collective_timeout, kWaited},
    {"wait timeout after",                     Cause::collective_timeout, kWaited},
    {"Socket Timeout",                         Cause::collective_timeout, kWaited},
    {"Timeout waiting for key",                Cause::collective_timeout, kWaited},
    {"watchdog got stuck for",                  Cause::collective_timeout, kWaited},
    {"watchdog hang",                           Cause::collective_timeout, kWaited},

    {"Detected mismatch between collectives",  Cause::program_error, kShapes},
    {"op.preamble.length <= op.nbytes",        Cause::program_error, kShapes},
    {"MPI_ERR_TRUNCATE",                       Cause::program_error, kShapes},
    {"Message truncated",                      Cause::program_error, kShapes},

    {"application called MPI_Abort(MPI_COMM_WORLD", Cause::mpi_abort, kAborted},
    {"MPI_ABORT was invoked on rank",          Cause::mpi_abort, kAborted},

    {"Temporary failure in name resolution",   Cause::network, kNoName},
    {"Name or service not known",              Cause::network, kNoName},
    {"No address associated with hostname",    Cause::network, kNoName},
    {"nodename nor servname",                  Cause::network, kNoName},
    {"Could not resolve host",                 Cause::network, kNoName},
    {"unable to resolve host",                  Cause::network, kNoName},
    {"UnknownHostException",                    Cause::network, kNoName},
    {": no such host",                          Cause::network, kNoName},
    {"Network is unreachable",                 Cause::network, kLink},
    {"Network is down",                        Cause::network, kLink},
    {"No route to host",                       Cause::network, kLink},
    {"Host is down",                           Cause::network, kLink},
    {"port error",                             Cause::network, kLink},
    {"Got async fatal event",                  Cause::network, kLink},
    {"Got completion from peer",               Cause::network, kLink, kFollows},
    {"Got completion with error",              Cause::network, kLink, kFollows},
    {"transport retry counter exceeded",       Cause::network, kLink, kFollows},
    {"Transport retry count exceeded",          Cause::network, kLink, kFollows},
    {"IBV_WC_",                                Cause::network, kLink},
    {"ibv_poll_cq",                            Cause::network, kLink},
    {"Connection timed out",                   Cause::network, kLink},
    {"[Errno 110]",                            Cause::network, kLink},
    {"Read timed out.",                         Cause::network, kLink},
    {"We couldn't connect to '",                Cause::network, kLink},
    {"Max retries exceeded with url",           Cause::network, kLink},
    {"Unable to find address for: ",            Cause::network, kNoInterface},
    {"no socket interface found",               Cause::network, kNoInterface},
    {"ddress already in use",                   Cause::network, "a port that it listens on is taken"},
    {"EADDRINUSE",                              Cause::network, "a port that it listens on is taken"},
    {"Connection reset by peer",               Cause::network, kPeerGone, kFollows},
    {"ConnectionResetError",                   Cause::network, kPeerGone, kFollows},
    {"ECONNRESET",                             Cause::network, kPeerGone, kFollows},
    {"Connection refused",                     Cause::network, kPeerGone, kFollows},
    {"ConnectionRefusedError",                 Cause::network, kPeerGone, kFollows},
    {"Couldn't connect to server",              Cause::network, kPeerGone, kFollows},
    {"Connection aborted",                     Cause::network, kPeerGone, kFollows},
    {"Broken pipe",                            Cause::network, kPeerGone, kFollows},
    {"Socket closed",                          Cause::network, kPeerGone, kFollows},
    {"socket was closed",                      Cause::network, kPeerGone, kFollows},

    {"byte(s) leaked in",                       Cause::program_error, "LeakSanitizer found memory that nobody frees"},
    {"ERROR: AddressSanitizer: ",               Cause::crash, kSanitizer},
    {"SUMMARY: AddressSanitizer: ",             Cause::crash, kSanitizer},

    {"Too many open files",                    Cause::program_error, kFiles},
    {"[Errno 24]",                             Cause::program_error, kFiles},
    {"can't start new thread",                 Cause::program_error, kProcesses},
    {"Resource temporarily unavailable",       Cause::program_error, kProcesses},
    {"ncclSystemError",                        Cause::network, kLink, false, Certainty::possible},
    {"unhandled system error",                 Cause::network, kLink, false, Certainty::possible},
};
// clang-format on

// Go, Rust and Node write the system's messages with a small letter: "no space left on device".
bool has_text(std::string_view line, std::string_view text) {
    const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
    for (auto at = line.find(text.substr(1)); at != line.npos;
         at = line.find(text.substr(1), at + 1))
        if (at > 0 && lower(line[at - 1]) == lower(text.front()))
            return true;
    return false;
}

}  // namespace

const KnownText* find_known_place(std::string_view where) {
    static constexpr KnownText kPlaces[] = {
        {"numpy/lib/format.py:", Cause::storage, kDamaged},
        {"numpy/lib/_format_impl.py:", Cause::storage, kDamaged},
    };
    for (const KnownText& known : kPlaces)
        if (where.find(known.text) != where.npos)
            return &known;
    return nullptr;
}

const std::vector<KnownText>& known_texts() { return kTexts; }

const KnownText* find_known_text(std::string_view line) {
    for (const KnownText& known : kTexts)
        if (has_text(line, known.text))
            return &known;
    return nullptr;
}

const KnownText* find_known_text(const std::vector<std::string>& lines) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
        if (const KnownText* known = find_known_text(*line))
            return known;
    return nullptr;
}

}  // namespace autolaunch::launcher
