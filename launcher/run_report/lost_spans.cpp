#include "run_report/lost_spans.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// The end of what the failure left of its generation.
RecordTime safe_until(const RunRecord& record, const RecordFailure& failure) {
    RecordTime safe{};
    for (const RecordCheckpoint& saved : record.checkpoints)
        if (saved.at <= failure.at)
            safe = std::max(safe, saved.at);
    return safe;
}

std::vector<RecordSpan> cut(const RecordSpan& span, RecordTime safe) {
    RecordSpan kept = span, lost = span;
    kept.to = lost.from = std::clamp(safe, span.from, span.to);
    lost.kind = LedgerKind::lost_work;
    std::vector<RecordSpan> parts;
    for (const RecordSpan& part : {kept, lost})
        if (part.from < part.to)
            parts.push_back(part);
    return parts;
}

}  // namespace

void mark_lost_work(RunRecord& record) {
    for (const RecordFailure& failure : record.failures) {
        const RecordTime safe = safe_until(record, failure);
        std::vector<RecordSpan> spans;
        for (const RecordSpan& span : std::exchange(record.spans, {}))
            if (span.kind == LedgerKind::steps && span.generation == failure.generation &&
                span.from < failure.at) {
                const auto parts = cut(span, safe);
                spans.insert(spans.end(), parts.begin(), parts.end());
            } else {
                spans.push_back(span);
            }
        record.spans = std::move(spans);
    }
}

}  // namespace autolaunch::launcher
