#include "placement_watch/placement_watch.hpp"

#include "base/affinity.hpp"

#include <asio/post.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

PlacementWatch::PlacementWatch(asio::io_context& io, std::vector<Watched> ranks, const Times& times,
                               std::function<void(const std::vector<Drift>&)> on_drift)
    : times_(times), on_drift_(std::move(on_drift)), timer_(io) {
    for (Watched& rank : ranks)
        entries_.push_back({std::move(rank)});
    wait(times_.first);
}

int PlacementWatch::count_bound() const {
    return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) {
        const auto cpus =
            entry.rank.planned.cpus.empty() ? std::nullopt : affinity_of(entry.rank.pid);
        return !cpus || is_within(*cpus, entry.rank.planned);
    }));
}

void PlacementWatch::wait(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& canceled) {
        if (!canceled && !alive.expired())
            look();
    });
}

void PlacementWatch::look() {
    std::vector<Drift> drifts;
    for (Entry& entry : entries_) {
        if (entry.cpus_told || entry.rank.planned.cpus.empty())
            continue;
        auto what = find_cpu_drift(threads_of(entry.rank.pid), entry.rank.planned);
        entry.cpus_told = what.has_value();
        if (what)
            drifts.push_back({entry.rank.rank, entry.rank.local_rank, std::move(*what)});
    }
    if (!drifts.empty())
        on_drift_(drifts);
    if (++looks_ == 2)
        look_at_memory();
    wait(times_.between);
}

void PlacementWatch::look_at_memory() {
    memory_drifts_.clear();
    read_memory_of(0);
}

/// A piece at a time, and between them whatever else there is to do.
void PlacementWatch::read_memory_of(std::size_t index) {
    while (index < entries_.size() && entries_[index].rank.planned.memory_nodes.empty())
        ++index;
    if (index == entries_.size()) {
        if (!memory_drifts_.empty())
            on_drift_(std::exchange(memory_drifts_, {}));
        return;
    }
    const Watched& rank = entries_[index].rank;
    if (!reader_)
        reader_ = std::make_unique<NumaMapsReader>(rank.pid);
    if (reader_->read_some()) {
        if (auto what = find_memory_drift(reader_->bytes(), rank.planned))
            memory_drifts_.push_back({rank.rank, rank.local_rank, std::move(*what)});
        reader_.reset();
        ++index;
    }
    asio::post(timer_.get_executor(), [this, index, alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            read_memory_of(index);
    });
}

}  // namespace autolaunch::launcher
