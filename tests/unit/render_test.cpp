// What other programs get from `autolaunch render`: golden texts, names that somebody exports,
// alerts that are shown to fire, dashboards that Grafana can load, and no file over another.

#include "render/alert_rules.hpp"
#include "render/alertmanager_files.hpp"
#include "render/channels.hpp"
#include "render/grafana_files.hpp"
#include "render/prometheus_files.hpp"
#include "render/render_command.hpp"
#include "render/slurm_scripts.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "base/workspace.hpp"
#include "exit_codes/exit_error.hpp"
#include "lint/dcgm_fields.hpp"
#include "spec/yaml_reader.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace render_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

const SlurmScriptPlaces kPlaces = {"/usr/bin/autolaunch", "/var/lib/prometheus/node-exporter",
                                   "/run/autolaunch/gpu-jobs"};

SiteSettings settings_with(const std::string& text) {
    std::vector<SpecError> errors;
    const Value root = read_yaml("alerting:\n" + text, "s.yaml", errors);
    SiteSettings settings = read_site_settings(root, SiteSource::administrator, errors);
    REQUIRE(errors.empty());
    return settings;
}

const char* const kChannels =
    "  channels:\n"
    "    - {type: email, recipients: [hpc@example.org, night@example.org]}\n"
    "    - {type: slack, webhook_url: \"${SLACK_WEBHOOK_URL}\", channel: \"#hpc\"}\n"
    "    - {type: webhook, url: \"https://pager.example.org/in\", token_file: /etc/pager, "
    "severity: critical}\n"
    "    - {type: email, recipients: [x@example.org], smarthost: \"mail.example.org:587\", from: "
    "am@example.org, auth_username: am, auth_password_file: /etc/am}\n";

std::vector<RenderedFile> all_files() {
    std::vector<std::string> notes;
    std::vector<RenderedFile> files = prometheus_files(alert_groups());
    for (auto& more : {alertmanager_files(read_channels(settings_with(kChannels), notes)),
                       grafana_files(), slurm_scripts(kPlaces)})
        files.insert(files.end(), more.begin(), more.end());
    return files;
}

std::string refusal(const std::string& channels) {
    std::vector<std::string> notes;
    try {
        read_channels(settings_with(channels), notes);
    } catch (const Error& error) {
        return std::string(error.what()) + " | " + error.hint();
    }
    return "it was accepted";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
    const std::regex expression(pattern);
    std::set<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
        found.insert(at->str());
    return found;
}

std::vector<Json> loaded_dashboards() {
    std::vector<Json> loaded;
    for (const RenderedFile& file : grafana_files())
        if (file.name.ends_with(".json"))
            loaded.push_back(Json::parse(file.text));
    return loaded;
}

}  // namespace

// To renew them after a wanted change: AUTOLAUNCH_UPDATE_GOLDEN=1 unit_request_tests -tc="the texts
// are*", and read the difference.
TEST_CASE("the texts are as they were read and approved") {
    const fs::path golden = fs::path(AUTOLAUNCH_SOURCE_DIR) / "tests/data/render";
    for (const RenderedFile& file : all_files()) {
        // The tests follow from the table of alerts, which promtool reads; of dashboards see below.
        if (file.name.ends_with(".json") || file.name.ends_with(".test.yml"))
            continue;
        if (std::getenv("AUTOLAUNCH_UPDATE_GOLDEN") != nullptr)
            write_file(golden / file.name, file.text);
        CAPTURE(file.name);
        CHECK(read_file(golden / file.name) == file.text);
    }
}

TEST_CASE("the names of metrics are those that somebody exports") {
    const std::set<std::string> listed =
        matches(read_file(fs::path(AUTOLAUNCH_SOURCE_DIR) / "docs/metrics.md"),
                R"(\n\| `autolaunch_[a-z0-9_]+`)");
    // Labels of the targets that jobs write.
    std::set<std::string> known = {"autolaunch_job", "autolaunch_node"};
    for (const std::string& row : listed)
        known.insert(row.substr(row.find('`') + 1, row.rfind('`') - row.find('`') - 1));
    REQUIRE(known.size() > 50);
    const std::regex part("_(bucket|count|sum)$");
    for (const RenderedFile& file : all_files()) {
        CAPTURE(file.name);
        // Of Slurm's scripts they are names of files.
        const std::string& text = file.is_program ? "" : file.text;
        for (const std::string& name : matches(text, R"(\bautolaunch_[a-z0-9_]+)")) {
            CAPTURE(name);
            const std::string whole = std::regex_replace(name, part, "");
            CHECK((known.contains(name) || known.contains(whole) ||
                   known.contains(name + "_total")));  // what is recorded of a counter
        }
        for (const std::string& name : matches(file.text, R"(\bDCGM_(FI|EXP)_[A-Z0-9_]+)")) {
            CAPTURE(name);
            CHECK(is_dcgm_field(name));
        }
    }
}

TEST_CASE("each alert is shown to fire and to be silent, and says what it is about") {
    std::set<std::string> names;
    for (const AlertGroup& group : alert_groups())
        for (const AlertRule& rule : group.rules) {
            CAPTURE(rule.name);
            CHECK(names.insert(rule.name).second);
            CHECK(std::set<std::string>{"critical", "warning", "info"}.contains(rule.severity));
            CHECK_FALSE(rule.example.broken.empty());
            CHECK_FALSE(rule.example.sound.empty());
            std::set<std::string> known = {"{value}"};
            for (const auto& [label, value] : rule.example.labels)
                known.insert("{" + label + "}");
            for (const std::string& word :
                 matches(rule.summary + rule.description, R"(\{[a-z_]+\})"))
                CHECK_MESSAGE(known.contains(word), word);
            const bool tells_value = has(rule.summary + rule.description, "{value}");
            CHECK(tells_value == !rule.example.value.empty());
        }
    CHECK(names.size() > 20);
}

TEST_CASE("inhibitions name alerts that there are") {
    std::string names;
    for (const AlertGroup& group : alert_groups())
        for (const AlertRule& rule : group.rules)
            names += rule.name + "\n";
    std::vector<std::string> notes;
    const std::string text =
        alertmanager_files(read_channels(settings_with(kChannels), notes)).front().text;
    for (const std::string& matcher : matches(text, R"(alertname(=|!=|=~)[^\n]+)"))
        for (const std::string& name : matches(matcher, R"(\b(Autolaunch|Gpu|Node)[A-Za-z]+)")) {
            CAPTURE(name);
            CHECK(has("\n" + names, "\n" + name));
        }
}

TEST_CASE("dashboards are such as Grafana's provisioning loads") {
    std::set<std::string> uids;
    const auto dashboards = loaded_dashboards();
    CHECK(dashboards.size() == 4);
    for (const Json& dashboard : dashboards) {
        const std::string uid = dashboard.at("uid");
        CAPTURE(uid);
        CHECK(uids.insert(uid).second);
        CHECK(uid.size() <= 40);
        CHECK(std::regex_match(uid, std::regex("[a-zA-Z0-9_-]+")));
        CHECK(dashboard.at("schemaVersion").get<int>() >= 36);
        CHECK_FALSE(dashboard.contains("__inputs"));
        CHECK_FALSE(dashboard.contains("id"));
        std::set<std::string> variables = {"__rate_interval"};
        for (const Json& variable : dashboard.at("templating").at("list"))
            variables.insert(variable.at("name").get<std::string>());
        CHECK(variables.contains("datasource"));
        std::set<int> ids;
        std::set<std::pair<int, int>> taken;
        for (const Json& panel : dashboard.at("panels")) {
            CHECK(ids.insert(panel.at("id").get<int>()).second);
            CHECK(panel.at("datasource").at("uid") == "${datasource}");
            CHECK_FALSE(panel.at("targets").empty());
            const Json& at = panel.at("gridPos");
            CHECK(at.at("x").get<int>() + at.at("w").get<int>() <= 24);
            bool free = true;
            for (int x = at.at("x"); x < at.at("x").get<int>() + at.at("w").get<int>(); ++x)
                for (int y = at.at("y"); y < at.at("y").get<int>() + at.at("h").get<int>(); ++y)
                    free = taken.emplace(x, y).second && free;
            CHECK_MESSAGE(free, "panel ", panel.at("title"), " lies over another");
            for (const Json& target : panel.at("targets")) {
                CHECK(target.at("datasource").at("uid") == "${datasource}");
                for (const std::string& used :
                     matches(target.at("expr").get<std::string>(), R"(\$[a-z_]+)"))
                    CHECK_MESSAGE(variables.contains(used.substr(1)), used);
            }
        }
    }
}

TEST_CASE("secrets are in files, and what is wrong with a channel is said at its place") {
    std::vector<std::string> notes;
    const auto channels = read_channels(settings_with(kChannels), notes);
    REQUIRE(channels.size() == 4);
    CHECK(channels[1].url_file == "/etc/prometheus/secrets/slack-webhook-url");
    REQUIRE(notes.size() == 1);
    CHECK(has(notes[0], "the value of SLACK_WEBHOOK_URL into that file"));
    const std::string text = alertmanager_files(channels).front().text;
    CHECK_FALSE(has(text, "SLACK_WEBHOOK_URL"));
    CHECK(has(text, "auth_password_file: /etc/am"));
    CHECK(has(text, "credentials_file: /etc/pager"));

    CHECK(has(refusal("  enabled: true\n"), "there is no alerting.channels"));
    const std::string literal =
        "  channels: [{type: slack, webhook_url: "
        "\"https://hooks.slack.com/services/T0/B0/abcdef\"}]\n";
    CHECK(has(refusal(literal), "s.yaml:2"));
    CHECK(has(refusal(literal), "webhook_url_file: /etc/prometheus/secrets"));
    CHECK_FALSE(has(refusal(literal), "abcdef"));
    CHECK(has(refusal("  channels: [{type: pager}]\n"), "expected email, slack or webhook"));
    CHECK(has(refusal("  channels: [{recipients: [a@b.c]}]\n"), "has no type"));
    CHECK(has(refusal("  channels: [{type: email, recipients: all}]\n"), "a list of addresses"));
    CHECK(has(refusal("  channels: [{type: email, recipients: [\"a@b.c, d@e.f\"]}]\n"),
              "a list of addresses"));
    CHECK(has(refusal("  channels: [{type: email, recipients: [a@b.c], auth_username: a}]\n"),
              "go together"));
    CHECK(has(refusal("  channels: [{type: email, recipients: [a@b.c], smarthost: mail}]\n"),
              "HOST:PORT"));
    CHECK(has(refusal("  channels: [{type: webhook, url: \"https://u:p@x/\"}]\n"), "token_file"));
    CHECK(has(refusal("  channels: [{type: webhook, url: ftp://x}]\n"), "http:// or https://"));
    CHECK(has(refusal("  channels: [{type: webhook, url: \"http://x\", token_file: t}]\n"),
              "a file's whole path"));
    CHECK(has(refusal("  channels: [{type: email, recipients: [a@b.c], colour: red}]\n"),
              "colour: unknown key; expected type"));
    CHECK(has(refusal("  channels: [{type: email, recipients: [a@b.c], severity: info}]\n"),
              "expected critical"));
    // All at once.
    const std::string both = refusal("  channels:\n    - {type: pager}\n    - {type: mail}\n");
    CHECK(has(both, "s.yaml:3"));
    CHECK(has(both, "s.yaml:4"));
}

TEST_CASE("a path that a shell would take apart is refused") {
    for (const char* path : {"", "relative", "/a b", "/a'b", "/a$b", "/a\nb", "/a;b"}) {
        CAPTURE(path);
        SlurmScriptPlaces places = kPlaces;
        places.gpu_jobs = path;
        CHECK_THROWS_AS(slurm_scripts(places), Error);
    }
}

TEST_CASE("files are written whole or not at all, and none over another content by itself") {
    const fs::path folder = fs::temp_directory_path() / ("autolaunch-render-" + random_hex(8));
    RenderRequest request;
    request.target = RenderTarget::slurm;
    request.folder = folder / "new";
    const auto code_of = [&] {
        try {
            run_render_command(request);
        } catch (const Error& error) {
            return exit_code_of(error);
        }
        return 0;
    };
    CHECK(code_of() == 0);
    struct stat status = {};
    REQUIRE(::stat((folder / "new/autolaunch-prolog.sh").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0755);
    REQUIRE(::stat((folder / "new/slurm.conf.lines").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0644);
    CHECK(has(run_render_command(request).text, "slurm.conf.lines: what slurm.conf needs"));
    CHECK(has(run_render_command(request).text, "(was there already)"));

    fs::remove(folder / "new/autolaunch-epilog.sh");
    write_file(folder / "new/slurm.conf.lines", "mine\n");
    CHECK(code_of() == 73);
    CHECK(read_file(folder / "new/slurm.conf.lines") == "mine\n");
    CHECK_FALSE(fs::exists(folder / "new/autolaunch-epilog.sh"));
    request.overwrite = true;
    CHECK(has(run_render_command(request).text,
              "slurm.conf.lines: what slurm.conf needs for "
              "them (replaced)"));
    CHECK(fs::exists(folder / "new/autolaunch-epilog.sh"));

    request.folder = folder / "new/slurm.conf.lines";  // a file
    CHECK(code_of() == 73);
    request.folder.clear();
    request.files = {"slurm.conf.lines"};
    CHECK(run_render_command(request).text.starts_with("# For slurm.conf"));
    request.files = {"slurm.conf"};
    CHECK(code_of() == 64);
    request.files.clear();
    CHECK(has(run_render_command(request).text, "\n==> autolaunch-health.sh <==\n#!/bin/sh\n"));
    request.json = true;
    const Json json = Json::parse(run_render_command(request).text);
    CHECK(json.at("files").size() == 4);
    CHECK(json.at("files")[0].at("executable") == true);
    CHECK(json.at("folder").is_null());
    fs::remove_all(folder);
    set_workspace({});
}

}  // namespace render_test
