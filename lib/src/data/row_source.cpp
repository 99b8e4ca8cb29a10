#include "data/row_source.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

namespace autolaunch::data {

std::byte* ReadMemory::take(std::size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes > bytes_) {
        memory_.reset();
        bytes_ = 0;
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
        if (!memory_)
            throw std::bad_alloc();
        bytes_ = bytes;
    }
    return memory_.get();
}

void ReadMemory::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

void place_rows(RowMemory& rows) {
    const ReadPlan& plan = rows.plan;
    const auto start_of = [&](const RowPart& part) {
        return rows.extents[part.extent] + (part.begin - plan.extents[part.extent].begin);
    };
    const auto parts_of = [&](std::size_t row) {
        return std::span(plan.parts)
            .subspan(plan.first_part[row], plan.first_part[row + 1] - plan.first_part[row]);
    };
    std::size_t joined = 0;
    for (std::size_t row = 0; row < plan.rows(); ++row)
        if (const auto parts = parts_of(row); parts.size() > 1)
            for (const RowPart& part : parts)
                joined += part.bytes;
    rows.joined.resize(joined);
    rows.starts.clear();
    std::byte* next = rows.joined.data();
    for (std::size_t row = 0; row < plan.rows(); ++row) {
        const auto parts = parts_of(row);
        rows.starts.push_back(parts.size() == 1 ? start_of(parts[0]) : next);
        if (parts.size() == 1)
            continue;
        for (const RowPart& part : parts) {
            std::memcpy(next, start_of(part), part.bytes);
            next += part.bytes;
        }
    }
}

bool RowSource::is_there(const ReadPlan& plan) const {
    return std::all_of(plan.extents.begin(), plan.extents.end(), [this](const Extent& extent) {
        return set_->arrivals->is_there(extent.shard);
    });
}

void require_size(int fd, const TokenShard& shard) {
    struct stat facts = {};
    if (::fstat(fd, &facts) != 0)
        throw SystemError(errno, "look at " + shard.path.string());
    if (!S_ISREG(facts.st_mode) || static_cast<std::uint64_t>(facts.st_size) != shard.bytes)
        throw Error(ErrorCode::corrupt,
                    shard.path.string() + " had " + std::to_string(shard.bytes) +
                        " bytes when the reader was made, and has " + std::to_string(facts.st_size),
                    "leave the data as it is while it is read; a copy of each node's own is made "
                    "by storage.stage_in");
}

}  // namespace autolaunch::data
