#include "data/read_plan.hpp"

#include <algorithm>

namespace autolaunch::data {

void plan_reads(ReadPlan& plan, RowList& list, std::int64_t first, std::int64_t count,
                std::uint64_t header_bytes, std::uint64_t token_bytes) {
    std::vector<Piece> pieces;
    for (std::int64_t row = first; row < first + count; ++row) {
        list.find(row, pieces);
        for (const Piece& piece : pieces) {
            const std::uint64_t begin =
                header_bytes + static_cast<std::uint64_t>(piece.first) * token_bytes;
            const std::uint64_t bytes = static_cast<std::uint64_t>(piece.count) * token_bytes;
            Extent* last = plan.extents.empty() ? nullptr : &plan.extents.back();
            if (last && last->shard == piece.shard && last->begin <= begin && begin <= last->end)
                last->end = std::max(last->end, begin + bytes);
            else
                plan.extents.push_back({piece.shard, begin, begin + bytes});
            plan.parts.push_back({plan.extents.size() - 1, begin, bytes});
        }
        plan.first_part.push_back(plan.parts.size());
    }
}

}  // namespace autolaunch::data
