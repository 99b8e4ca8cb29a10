#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct PanelQuery {
    std::string expression, legend;
};

struct Panel {
    enum class Kind { graph, number, table };
    std::string title;
    Kind kind = Kind::graph;
    std::string unit;  ///< as Grafana names units: "s", "percentunit", "bytes", "short"
    std::vector<PanelQuery> queries;
    std::string description;  ///< how to read it
};

/// What the reader chooses at the top; `$name` in queries.
struct DashboardChoice {
    std::string name, label;
    std::string metric, source_label;  ///< its values: those of this label of this metric
    bool several = true;               ///< more than one, or all
};

struct Dashboard {
    std::string uid;  ///< at most 40 characters
    std::string title;
    std::vector<DashboardChoice> choices;
    std::vector<Panel> panels;
};

/// A job, a node, the cluster, a user.
std::vector<Dashboard> dashboards();

}  // namespace autolaunch::launcher
