#include "render/grafana_files.hpp"

#include "manifests/tree.hpp"
#include "manifests/yaml_text.hpp"
#include "render/dashboards.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 39;  // Grafana 10.4; later ones read it and make it theirs
constexpr int kColumns = 24;        // of Grafana's grid
constexpr char kFolder[] = "/var/lib/grafana/dashboards/autolaunch";

Json source_of_data() { return {{"type", "prometheus"}, {"uid", "${datasource}"}}; }

Json datasource_variable() {
    return {{"name", "datasource"},  {"label", "Prometheus"}, {"type", "datasource"},
            {"query", "prometheus"}, {"refresh", 1},          {"hide", 0}};
}

Json choice_variable(const DashboardChoice& choice) {
    const std::string query = "label_values(" + choice.metric + ", " + choice.source_label + ")";
    return {{"name", choice.name},
            {"label", choice.label},
            {"type", "query"},
            {"datasource", source_of_data()},
            {"query", {{"query", query}, {"refId", "values-of-" + choice.name}}},
            {"definition", query},
            {"refresh", 2},
            {"sort", 1},
            {"multi", choice.several},
            {"includeAll", choice.several},
            {"hide", 0}};
}

struct Shape {
    const char* type;
    int width, height;
};
Shape shape_of(Panel::Kind kind) {
    switch (kind) {
        case Panel::Kind::number:
            return {"stat", 6, 4};
        case Panel::Kind::table:
            return {"table", 12, 8};
        case Panel::Kind::graph:
            break;
    }
    return {"timeseries", 12, 8};
}

/// Places panels from left to right, in rows as high as the highest of them.
class Grid {
public:
    Json place(const Shape& shape) {
        if (x_ + shape.width > kColumns) {
            y_ += row_;
            x_ = row_ = 0;
        }
        Json at = {{"h", shape.height}, {"w", shape.width}, {"x", x_}, {"y", y_}};
        x_ += shape.width;
        row_ = std::max(row_, shape.height);
        return at;
    }

private:
    int x_ = 0, y_ = 0, row_ = 0;
};

Json target(const PanelQuery& query, char letter, Panel::Kind kind) {
    Json json = {{"refId", std::string(1, letter)},
                 {"datasource", source_of_data()},
                 {"expr", query.expression},
                 {"legendFormat", query.legend.empty() ? "__auto" : query.legend}};
    if (kind == Panel::Kind::graph)
        json["range"] = true;
    else
        json.update({{"instant", true}, {"range", false}});
    if (kind == Panel::Kind::table)
        json["format"] = "table";
    return json;
}

Json panel_json(const Panel& panel, int number, Grid& grid) {
    const Shape shape = shape_of(panel.kind);
    Json targets = Json::array();
    for (const PanelQuery& query : panel.queries)
        targets.push_back(
            target(query, static_cast<char>('A' + static_cast<int>(targets.size())), panel.kind));
    Json json = {{"id", number},
                 {"title", panel.title},
                 {"type", shape.type},
                 {"datasource", source_of_data()},
                 {"gridPos", grid.place(shape)},
                 {"targets", std::move(targets)}};
    if (!panel.description.empty())
        json["description"] = panel.description;
    Json defaults = Json::object();
    if (!panel.unit.empty())
        defaults["unit"] = panel.unit;
    if (panel.unit == "percentunit" && panel.kind == Panel::Kind::graph)
        defaults.update({{"min", 0}, {"max", 1}});
    json["fieldConfig"] = {{"defaults", std::move(defaults)}, {"overrides", Json::array()}};
    json["options"] = Json::object();
    return json;
}

// Numbers first, graphs, then tables, whose height differs.
std::vector<Panel> in_order(std::vector<Panel> panels) {
    const auto rank = [](const Panel& panel) {
        return panel.kind == Panel::Kind::number ? 0 : panel.kind == Panel::Kind::graph ? 1 : 2;
    };
    std::stable_sort(panels.begin(), panels.end(),
                     [&](const Panel& a, const Panel& b) { return rank(a) < rank(b); });
    return panels;
}

std::string dashboard_text(const Dashboard& dashboard) {
    Json variables = Json::array({datasource_variable()});
    for (const DashboardChoice& choice : dashboard.choices)
        variables.push_back(choice_variable(choice));
    Json panels = Json::array();
    Grid grid;
    for (const Panel& panel : in_order(dashboard.panels))
        panels.push_back(panel_json(panel, static_cast<int>(panels.size()) + 1, grid));
    const Json json = {{"uid", dashboard.uid},
                       {"title", dashboard.title},
                       {"tags", Json::array({"autolaunch"})},
                       {"schemaVersion", kSchemaVersion},
                       {"version", 1},
                       {"editable", true},
                       {"graphTooltip", 1},
                       {"refresh", "30s"},
                       {"time", {{"from", "now-6h"}, {"to", "now"}}},
                       {"timezone", ""},
                       {"annotations", {{"list", Json::array()}}},
                       {"links", Json::array()},
                       {"templating", {{"list", std::move(variables)}}},
                       {"panels", std::move(panels)}};
    return json.dump(2) + "\n";
}

std::string provider_text() {
    MapNode provider;
    provider.text("name", "autolaunch")
        .text("folder", "autolaunch")
        .text("type", "file")
        .boolean("allowUiUpdates", false)
        .add("options", MapNode().text("path", kFolder));
    MapNode root;
    root.number("apiVersion", 1).add("providers", list_node({provider}));
    return std::string(
               "# For /etc/grafana/provisioning/dashboards; the dashboards themselves go "
               "to the folder that it names.\n") +
           yaml_text(root);
}

}  // namespace

std::vector<RenderedFile> grafana_files() {
    std::vector<RenderedFile> files;
    for (const Dashboard& dashboard : dashboards())
        files.push_back({dashboard.uid + ".json", dashboard_text(dashboard),
                         "the dashboard \"" + dashboard.title + "\", for " + kFolder});
    files.push_back({"autolaunch-dashboards.yaml", provider_text(),
                     "where Grafana finds them, for /etc/grafana/provisioning/dashboards"});
    return files;
}

}  // namespace autolaunch::launcher
