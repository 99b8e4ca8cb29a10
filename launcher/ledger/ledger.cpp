#include "ledger/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace autolaunch::launcher {

namespace {

struct KindName {
    const char* key;
    const char* words;
};
constexpr std::array<KindName, kLedgerKinds> kKindNames = {{
    {"queue", "queue"},
    {"launch", "launch"},
    {"initialisation", "initialisation"},
    {"steps", "steps"},
    {"checkpoint_stall", "checkpoint stall"},
    {"detection", "detection"},
    {"recovery", "recovery"},
    {"lost_work", "lost work"},
    {"idle", "idle"},
}};

constexpr double kLeastShown = 0.005;

double share(std::int64_t part, std::int64_t whole) {
    return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::int64_t held_ms(const Ledger& ledger) {
    return total_ms(ledger) - ledger.of(LedgerKind::queue);
}

}  // namespace

const char* ledger_key(LedgerKind kind) {
    return kKindNames.at(static_cast<std::size_t>(kind)).key;
}

const char* ledger_words(LedgerKind kind) {
    return kKindNames.at(static_cast<std::size_t>(kind)).words;
}

std::int64_t total_ms(const Ledger& ledger) {
    return std::accumulate(ledger.unit_ms.begin(), ledger.unit_ms.end(), std::int64_t{0});
}

double goodput(const Ledger& ledger) {
    return share(ledger.of(LedgerKind::steps), held_ms(ledger));
}

double share_used(const Ledger& ledger) {
    return share(ledger.of(LedgerKind::steps) + ledger.of(LedgerKind::lost_work), held_ms(ledger));
}

std::optional<std::chrono::milliseconds> mean_time_to_failure(const Ledger& ledger) {
    if (ledger.failures == 0)
        return std::nullopt;
    return std::chrono::milliseconds(ledger.running_ms / ledger.failures);
}

std::string ledger_line(const Ledger& ledger) {
    std::array<LedgerKind, kLedgerKinds> kinds{};
    for (std::size_t i = 0; i < kLedgerKinds; ++i)
        kinds.at(i) = static_cast<LedgerKind>(i);
    std::stable_sort(kinds.begin(), kinds.end(), [&](LedgerKind one, LedgerKind other) {
        return ledger.of(one) > ledger.of(other);
    });
    const std::int64_t total = total_ms(ledger);
    std::string line;
    for (const LedgerKind kind : kinds) {
        const double part = share(ledger.of(kind), total);
        if (part >= kLeastShown)
            line += fmt::format("{:.0f}% {} · ", part * 100, ledger_words(kind));
    }
    return line + fmt::format("goodput {:.0f}%", goodput(ledger) * 100);
}

}  // namespace autolaunch::launcher
