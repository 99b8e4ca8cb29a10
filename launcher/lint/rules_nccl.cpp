// NCCL's variables: what hurts, and what was left in from a search for a fault.

#include "base/text.hpp"
#include "lint/nccl_opposites.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace autolaunch::launcher {

namespace {

bool is_on(const std::string& value) { return !value.empty() && value != "0"; }

/// One hit for each setting of one of `names` that `wrong` says is wrong.
template <class Wrong>
RuleHits settings(const Subject& subject, std::initializer_list<std::string_view> names,
                  Wrong wrong) {
    RuleHits hits;
    for (const auto& setting : subject.environment)
        if (setting.exported &&
            std::find(names.begin(), names.end(), setting.name) != names.end() && wrong(setting))
            hits.push_back({setting.line,
                            setting.name + '=' + setting.value,
                            {},
                            remove_assignment(subject.source, setting.line, setting.name)});
    return hits;
}

void explain(RuleHits& hits, std::string_view effect) {
    for (auto& hit : hits)
        hit.message += std::string(": ").append(effect);
}

RuleHits ib_disable(const Subject& subject) {
    auto hits =
        settings(subject, {"NCCL_IB_DISABLE"}, [](const auto& s) { return is_on(s.value); });
    explain(hits, "NCCL uses TCP sockets, also where there is InfiniBand or RoCE");
    return hits;
}

bool ends_in_digit(const std::string& text) {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0;
}

/// Items of NCCL's list form that are names of one device; prefixes such as "ib" and exclusions are
/// not.
bool names_one_device(std::string_view text) {
    if (text.starts_with('^'))
        return false;
    if (text.starts_with('='))
        text.remove_prefix(1);
    for (const auto& item : split(text, ','))
        if (ends_in_digit(item.substr(0, item.find(':'))))
            return true;
    return false;
}

RuleHits socket_ifname(const Subject& subject) {
    auto hits = settings(subject, {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"},
                         [](const auto& s) { return s.literal && names_one_device(s.value); });
    explain(hits, "a fixed interface, which another node or the next cluster may not have");
    return hits;
}

RuleHits ib_hca(const Subject& subject) {
    auto hits = settings(subject, {"NCCL_IB_HCA"}, [](const auto& s) {
        std::string_view text = s.value;
        if (text.starts_with('^'))
            text.remove_prefix(1);
        // "mlx5" alone is meant as a beginning.
        return s.literal && !text.starts_with('=') && text.find('_') != std::string_view::npos &&
               names_one_device(text);
    });
    explain(hits, "without = a name is a beginning: mlx5_1 also matches mlx5_10 to mlx5_19");
    for (auto& hit : hits) {
        const std::string value = hit.message.substr(12, hit.message.find(": ") - 12);
        hit.edits = value.starts_with('^')
                        ? Edits{}  // ^=…: where the whole is not quoted it stays as it is
                        : replace_assignment(subject.source, hit.line, "NCCL_IB_HCA", '=' + value);
    }
    return hits;
}

RuleHits paths_off(const Subject& subject) {
    auto hits = settings(subject, {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"},
                         [](const auto& s) { return is_on(s.value); });
    explain(hits, "ranks of one node no longer use NVLink, PCIe peer access or shared memory");
    return hits;
}

RuleHits tuning_left(const Subject& subject) {
    auto hits = settings(subject,
                         {"NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS",
                          "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS", "NCCL_P2P_LEVEL"},
                         [](const auto& s) { return !s.value.empty(); });
    explain(hits, "it overrides what NCCL measures and chooses for each size and topology");
    return hits;
}

RuleHits ignore_mismatch(const Subject& subject) {
    auto hits = settings(subject, {"NCCL_IGNORE_NET_MISMATCH"},
                         [](const auto& s) { return is_on(s.value); });
    explain(hits, "nodes with different networks hang in silence instead of saying so");
    return hits;
}

RuleHits debug_left(const Subject& subject) {
    auto hits = settings(subject, {"NCCL_DEBUG"}, [](const auto& s) {
        return equals_ignoring_case(s.value, "INFO") || equals_ignoring_case(s.value, "TRACE");
    });
    explain(hits, "every rank prints hundreds of lines, and again at each communicator");
    for (auto& hit : hits)
        hit.edits = replace_assignment(subject.source, hit.line, "NCCL_DEBUG", "WARN");
    return hits;
}

constexpr std::array<std::string_view, 5> kRenamed = {
    "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING",
    "NCCL_HIGH_PRIORITY_STREAM"};

RuleHits renamed(const Subject& subject) {
    RuleHits hits;
    for (const auto& setting : subject.environment)
        if (std::find(kRenamed.begin(), kRenamed.end(), setting.name) != kRenamed.end())
            hits.push_back({setting.line,
                            fmt::format("{} is PyTorch's, and has been TORCH_{} since 2.2",
                                        setting.name, setting.name),
                            {},
                            replace_name(subject.source, setting.line, setting.name,
                                         "TORCH_" + setting.name)});
    return hits;
}

// The names of NCCL 2.28's documentation, and those of its usual plugins that are often set.
constexpr std::string_view kKnownNames =
    "ALGO ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CHECK_POINTERS CHECKS_DISABLE COLLNET_ENABLE "
    "COLLNET_NODE_THRESHOLD "
    "COMM_BLOCKING "
    "COMM_ID COMM_SPLIT_SHARE_RESOURCES COMM_SHRINK_SHARE_RESOURCES CONF_FILE CROSS_NIC CTA_POLICY "
    "CUMEM_ENABLE "
    "CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS "
    "DMABUF_ENABLE "
    "GDRCOPY_ENABLE GIN_TYPE GIN_ENABLE GRAPH_FILE GRAPH_DUMP_FILE GRAPH_MIXING_SUPPORT "
    "GRAPH_REGISTER HOSTID "
    "IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY "
    "IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DISABLE IB_ECE_ENABLE "
    "IB_FIFO_TC "
    "IB_GDR_FLUSH_DISABLE IB_GID_INDEX "
    "IB_HCA IB_IS_GLOBAL IB_MERGE_NICS IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT "
    "IB_MQP_RETRY_SLEEP_MSEC "
    "IB_PCI_RELAXED_ORDERING IB_PKEY IB_QPS_PER_CONNECTION IB_RELAXED_ORDERING IB_RETRY_CNT "
    "IB_RETURN_ASYNC_EVENTS "
    "IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT "
    "IB_USE_INLINE "
    "IB_WARN_RAIL_LOCAL IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P IGNORE_NET_MISMATCH "
    "L1_SHARED_MEMORY_CARVEOUT "
    "LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LL128_BUFFSIZE LL_BUFFSIZE LOCAL_REGISTER "
    "MAX_CTAS "
    "MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS MIN_CTAS MIN_NCHANNELS MIN_NRINGS "
    "MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID "
    "MNNVL_CLIQUE_SIZE MNNVL_ENABLE MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID NCHANNELS_PER_NET_PEER "
    "NET NETDEVS_POLICY "
    "NET_DISABLE_INTRA NET_FORCE_FLUSH "
    "NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_MERGE_LEVEL NET_OPTIONAL_RECV_COMPLETION "
    "NET_OVERHEAD NET_PLUGIN "
    "NET_SHARED_BUFFERS "
    "NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVB_PRECONNECT NVLSTREE_MAX_CHUNKSIZE "
    "NVLS_CHUNKSIZE "
    "NVLS_ENABLE "
    "NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE "
    "P2P_LEVEL "
    "P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE "
    "P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY "
    "PAT_ENABLE PROFILE "
    "PROFILER_PLUGIN "
    "PROGRESS_APPENDOP_FREQ PROTO PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL PXN_C2C "
    "PXN_DISABLE RAS_ADDR "
    "RAS_ENABLE RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS RINGS RUNTIME_CONNECT "
    "SET_CPU_STACK_SIZE SET_STACK_SIZE "
    "SET_THREAD_NAME "
    "SHARP_DISABLE SHARP_GROUP_SIZE_THRESH SHM_DISABLE SHM_LOCALITY SHM_MEMCPY_MODE "
    "SHM_USE_CUDA_MEMCPY "
    "SINGLE_RING_THRESHOLD "
    "SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_NTHREADS "
    "SOCKET_POLL_TIMEOUT_MSEC "
    "SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SYM_CTAS SYM_KERNEL THREAD_THRESHOLDS TOPO_DUMP_FILE "
    "TOPO_FILE "
    "TOPO_DUMP_FILE_RANK TUNER_CONFIG_PATH TUNER_CONFIG_FILE TUNER_PLUGIN UID_STAGGER_RATE "
    "UID_STAGGER_THRESHOLD "
    "WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES WORK_FIFO_DEPTH "
    "VERSION HOME "
    "INCLUDE_DIR LIB_DIR ROOT DIR PATH TESTS_DEVICE ENV_PLUGIN STORE_TIMEOUT";

/// At most two letters more, less or other: plugins and other versions have names that are like
/// these, too.
bool is_slip(std::string_view a, std::string_view b) {
    if (std::min(a.size(), b.size()) < 4)
        return false;
    const auto rest = [&](std::size_t i, std::size_t j, int left, const auto& self) -> bool {
        while (i < a.size() && j < b.size() && a[i] == b[j])
            ++i, ++j;
        if (i == a.size() && j == b.size())
            return true;
        return left > 0 && ((i < a.size() && self(i + 1, j, left - 1, self)) ||
                            (j < b.size() && self(i, j + 1, left - 1, self)) ||
                            (i < a.size() && j < b.size() && self(i + 1, j + 1, left - 1, self)));
    };
    return rest(0, 0, 2, rest);
}

RuleHits misspelt(const Subject& subject) {
    static const std::vector<std::string> kKnown = split(kKnownNames, ' ');
    RuleHits hits;
    for (const auto& setting : subject.environment) {
        if (!setting.name.starts_with("NCCL_"))
            continue;
        const std::string name = setting.name.substr(5);
        if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end())
            continue;
        if (std::find(kRenamed.begin(), kRenamed.end(), setting.name) != kRenamed.end())
            continue;
        const std::string near = nearest(name, kKnown);
        if (near.empty() || !is_slip(name, near))
            continue;  // a plugin's, or of another version than this list
        hits.push_back(
            {setting.line,
             fmt::format("{}: NCCL knows no such variable; NCCL_{} is one", setting.name, near),
             "write NCCL_" + near,
             replace_name(subject.source, setting.line, setting.name, "NCCL_" + near)});
    }
    return hits;
}

RuleHits not_exported(const Subject& subject) {
    RuleHits hits;
    for (const auto& command : subject.script.shell.commands) {
        const bool all = command.is("set") && command.words.size() > 1 &&
                         (command.words[1].value.find('a') != std::string::npos &&
                          command.words[1].value[0] == '-');
        if (all)
            return hits;
    }
    std::set<std::string> used;
    for (const auto& command : subject.script.shell.commands)
        for (const auto& word : command.words)
            used.insert(word.expansions.begin(), word.expansions.end());
    for (const auto& setting : subject.environment)
        if (!setting.exported && setting.name.starts_with("NCCL_") && !used.contains(setting.name))
            hits.push_back({setting.line,
                            setting.name + " is set and not exported",
                            {},
                            replace_text(subject.source, setting.line, setting.name + '=',
                                         "export " + setting.name + '=')});
    return hits;
}

constexpr std::array<Rule, 11> kNcclRules = {{
    {"nccl-ib-disable", LintSeverity::warning, "NCCL_IB_DISABLE=1: the fast network is not used",
     "It is the usual first try when a job hangs, and then stays: the job runs many times slower "
     "than the network "
     "allows.",
     "remove it; `autolaunch plan` shows which HCAs NCCL will use", ib_disable},
    {"nccl-socket-ifname", LintSeverity::warning, "NCCL_SOCKET_IFNAME names one interface",
     "Names differ between nodes and clusters; where it is missing NCCL stops, and eth0 is often "
     "the slow network.",
     "remove it (autolaunch sets it for each node), or exclude instead: ^docker,lo", socket_ifname},
    {"nccl-ib-hca-prefix", LintSeverity::warning, "NCCL_IB_HCA without a leading =",
     "NCCL compares beginnings unless the list begins with =, so more HCAs are used than were "
     "named.",
     "write a = first, as in NCCL_IB_HCA==mlx5_0,mlx5_1", ib_hca},
    {"nccl-paths-off", LintSeverity::warning, "NCCL_P2P_DISABLE or NCCL_SHM_DISABLE is on",
     "Traffic inside a node then goes through host memory or the network, at a fraction of the "
     "speed.",
     "remove it; where peer access is broken, look for ACS or IOMMU settings instead", paths_off},
    {"nccl-tuning-left", LintSeverity::warning,
     "NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE or the like is set",
     "What was best for one size on one machine is rarely best elsewhere, and a wrong protocol can "
     "corrupt data.",
     "remove it, and measure before it is set again", tuning_left},
    {"nccl-ignore-mismatch", LintSeverity::warning, "NCCL_IGNORE_NET_MISMATCH is on",
     "NCCL checks that all nodes have the same number and kind of networks, since others cannot "
     "work together.",
     "remove it, and let the error name the node that differs", ignore_mismatch},
    {"nccl-debug", LintSeverity::info, "NCCL_DEBUG=INFO or TRACE was left in",
     "It hides what matters in the log; WARN says what goes wrong.", "write NCCL_DEBUG=WARN",
     debug_left},
    {"nccl-renamed", LintSeverity::info, "a variable of PyTorch under its old name",
     "PyTorch's own variables begin with TORCH_NCCL_ since 2.2; the old names work with a warning "
     "for now.",
     "put TORCH_ in front of it", renamed},
    {"nccl-not-exported", LintSeverity::warning, "a NCCL_ variable that is set and not exported",
     "Without export it stays in the shell; no rank sees it.", "put export in front", not_exported},
    {"nccl-misspelt", LintSeverity::warning,
     "a NCCL_ variable that does not exist, close to one that does",
     "NCCL ignores variables that it does not know.", "correct the name", misspelt},
    {"nccl-opposites", LintSeverity::warning, "a setting of NCCL beside its opposite",
     "Both were tried at some time, and only one of them counts: whoever reads it believes the "
     "other.",
     "remove the one without effect", nccl_opposites},
}};

}  // namespace

std::span<const Rule> nccl_rules() { return kNcclRules; }

}  // namespace autolaunch::launcher
