#include "supervise/job_supervisor.hpp"

#include "ledger/ledger.hpp"

#include <cstddef>

// What nodes measure, and what the job is besides, for who looks at it from outside.

namespace autolaunch::launcher {

namespace {

// As docs/metrics.md has them.
const char* word_of(JobState state) {
    switch (state) {
        case JobState::starting:
            return "starting";
        case JobState::running:
            return "running";
        case JobState::stopping:
        case JobState::failing:
            return "stopping";
        case JobState::restarting:
        case JobState::waiting:
            return "restarting";
        case JobState::finished:
            break;
    }
    return "ended";
}

}  // namespace

void JobSupervisor::on(int node, control::NodeMeasured&& measured) {
    if (node >= 0 && static_cast<std::size_t>(node) < roster_.nodes.size())
        measures_.add(name_of(node), measured.measures, std::chrono::steady_clock::now());
}

JobFacts JobSupervisor::facts() const {
    JobFacts facts{.nodes = plan_.node_count, .world_size = plan_.world_size};
    facts.state = word_of(state_);
    facts.restarts = restarts_by_cause_;
    const Ledger ledger = reporter_.ledger();
    facts.unit = ledger.unit;
    for (std::size_t kind = 0; kind < kLedgerKinds; ++kind)
        facts.unit_ms.emplace(ledger_key(static_cast<LedgerKind>(kind)), ledger.unit_ms.at(kind));
    std::vector<std::string> nodes;
    for (const RosterNode& node : roster_.nodes)
        if (node.ranks > 0)
            nodes.push_back(node.name);
    facts.measured = measures_.sample(nodes, std::chrono::steady_clock::now());
    return facts;
}

}  // namespace autolaunch::launcher
