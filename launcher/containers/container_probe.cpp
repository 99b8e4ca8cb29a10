#include "containers/container_probe.hpp"

#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"
#include "base/text.hpp"
#include "containers/container_argv.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr auto kProbeTime = std::chrono::seconds(60);

// Nothing but a shell's own words: a small image has no more.
constexpr char kScript[] = R"(
echo "autolaunch: shell"
show() { key=$1; shift; for file in "$@"; do [ -e "$file" ] && echo "autolaunch: $key $file"; done; }
[ -n "$CUDA_VERSION" ] && echo "autolaunch: cuda $CUDA_VERSION"
[ -n "$NCCL_VERSION" ] && echo "autolaunch: ncclversion $NCCL_VERSION"
for folder in /usr/lib /usr/lib64 /usr/lib/*-linux-gnu /lib64 /usr/local/lib /usr/local/cuda/lib64 /usr/local/cuda/compat/lib /opt/*/lib; do
    show nccl "$folder"/libnccl.so.2.*
    show plugin "$folder"/libnccl-net*.so
    show libcuda "$folder"/libcuda.so.1
done
show compat /usr/local/cuda/compat/libcuda.so.*.*
show wheel /usr/lib/python3*/*-packages/nvidia_nccl*.dist-info /usr/local/lib/python3*/*-packages/nvidia_nccl*.dist-info /opt/conda/lib/python3*/site-packages/nvidia_nccl*.dist-info
show gpu /dev/nvidia[0-9]* /dev/kfd
show hca /dev/infiniband/uverbs*
show python /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3
)";
constexpr std::string_view kMark = "autolaunch: ";

}  // namespace

ContainerProbe parse_probe(const std::string& text) {
    ContainerProbe probe;
    for (const std::string& line : split(text, '\n')) {
        if (!line.starts_with(kMark)) {
            if (probe.trouble.empty() && !trim(line).empty())
                probe.trouble = std::string(trim(line));
            continue;
        }
        const std::string rest = line.substr(kMark.size());
        const std::size_t blank = rest.find(' ');
        auto& values = probe.said[rest.substr(0, blank)];
        const std::string value = blank == rest.npos ? "" : rest.substr(blank + 1);
        if (std::find(values.begin(), values.end(), value) == values.end())
            values.push_back(value);
    }
    return probe;
}

ContainerProbe probe_container(const ContainerChoice& choice) {
    const ContainerStart start{.environment = {},
                               .binds = {},
                               .name = fmt::format("autolaunch-doctor-{}", ::getpid()),
                               .label = "doctor",
                               .pid_file = {},
                               .has_input = false};
    SlurmCommand command(container_argv(choice, start, {"/bin/sh", "-c", kScript}),
                         SlurmCommand::Errors::take);
    const std::string answer = command.wait(Deadline::after(kProbeTime));
    ContainerProbe probe = parse_probe(answer.empty() ? command.so_far() : answer);
    if (!probe.said.contains("shell") && probe.trouble.empty())
        probe.trouble = "it did not answer in 60 s, or has no /bin/sh";
    return probe;
}

}  // namespace autolaunch::launcher
