#include "standstill/node_evidence.hpp"

#include "base/read_at_most.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <cstdint>
#include <system_error>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

constexpr auto kEvidenceLook = std::chrono::milliseconds(50);
constexpr auto kEvidenceTime = std::chrono::seconds(3);
constexpr auto kLeastEvidence = std::chrono::milliseconds(500);  // for what counts bytes
constexpr std::size_t kLongestEnviron = 2 << 20;

std::string environ_of(pid_t pid) try {
    return read_at_most("/proc/" + std::to_string(pid) + "/environ", kLongestEnviron);
} catch (const Error&) {
    return {};  // it is gone
}

std::vector<std::string> gpu_question() {
    return {"nvidia-smi",
            "--query-gpu=index,pci.bus_id,utilization.gpu,memory.used,temperature.gpu,power.draw,"
            "clocks.sm,clocks_throttle_reasons.active,pcie.link.gen.current,"
            "pcie.link.width.current,pcie.link.width.max,ecc.errors.uncorrected.volatile.total",
            "--format=csv"};
}

}  // namespace

void NodeEvidence::gather(const Ranks& named, std::function<void()> over) {
    stop();
    over_ = std::move(over);
    began_ = steady_clock::now();
    counters_ = read_hca_counters();
    const Ranks all = ranks_();
    for (const auto& [rank, pid] : named) {
        torch_[rank] = torch_files(environ_of(pid), rank);
        if (ask_torch(torch_[rank]))
            torch_asked_ = std::time(nullptr);
    }
    if (const auto where = all.empty() ? std::nullopt : ras_address(environ_of(all.front().second)))
        ras_.emplace(*where, [all](std::uint64_t inode) {
            for (const auto& [rank, pid] : all)
                if (has_socket(list_tree(pid), inode))
                    return true;
            return false;
        });
    if (::access("/dev/nvidiactl", F_OK) == 0)
        gpus_.emplace(gpu_question());
    look();
}

bool NodeEvidence::all_answered() {
    const bool ras_over = !ras_ || ras_->advance();
    const bool gpus_over = !gpus_ || gpus_->advance();
    bool torch_over = true;
    for (const auto& [rank, files] : torch_) {
        TorchWords& says = torch_says_[rank];
        if (torch_asked_ == 0 || files.pipe.empty() || says.is_whole)
            continue;
        says = read_torch(files, torch_asked_);
        torch_over = torch_over && says.is_whole;
    }
    return ras_over && gpus_over && torch_over;
}

void NodeEvidence::look() {
    const auto now = steady_clock::now();
    const bool answered = all_answered();
    const bool counted = counters_.empty() || now >= began_ + kLeastEvidence;
    if ((!answered || !counted) && now < began_ + kEvidenceTime) {
        timer_.expires_after(kEvidenceLook);
        timer_.async_wait([this](const std::error_code& error) {
            if (!error)
                look();
        });
        return;
    }
    for (const auto& [rank, files] : torch_)  // what its own watchdog has written before
        if (torch_says_[rank].text.empty())
            torch_says_[rank] = read_torch(files, born_);
    const std::chrono::duration<double> lasted = now - began_;
    text_ = describe_pressure() + describe_hcas(counters_, read_hca_counters(), lasted.count());
    if (const auto over = std::exchange(over_, {}))
        over();
}

std::string NodeEvidence::of_node() const {
    std::string text = text_;
    if (gpus_)
        text += gpus_->answer().empty() ? "nvidia-smi did not answer\n" : gpus_->answer();
    if (ras_ && !ras_->answer().empty())
        text += "\nNCCL's RAS:\n" + ras_->answer() + '\n';
    if (ras_ && !ras_->problem().empty())
        text += "NCCL's RAS: " + ras_->problem() + '\n';
    return text;
}

std::string NodeEvidence::of_rank(int rank) const {
    const auto found = torch_says_.find(rank);
    return found == torch_says_.end() ? std::string() : found->second.text;
}

void NodeEvidence::stop() {
    timer_.cancel();
    over_ = {};
    ras_.reset();
    gpus_.reset();
    torch_.clear();
    torch_says_.clear();
    torch_asked_ = 0;
    text_.clear();
}

}  // namespace autolaunch::launcher
