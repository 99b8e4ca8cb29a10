// The house rules that a compiler does not check: includes point downwards only, each third-party
// library has one room, no call of std::filesystem throws its own exception, every source on disk
// is built, every test is listed, and the map is true.

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace structure_test {

namespace fs = std::filesystem;
using autolaunch::read_file;

namespace {

const fs::path kRoot = AUTOLAUNCH_SOURCE_DIR;

// What each room may include, besides itself. DESIGN's order, written out: whatever is not here is
// forbidden.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"lib/base", {}},
    {"lib/store", {"lib/base"}},
    {"lib/flight", {"lib/base"}},
    {"lib/session", {"lib/base", "lib/flight", "lib/store"}},
    {"lib/comm", {"lib/base", "lib/flight", "lib/store", "lib/session"}},
    {"lib/fsdp", {"lib/base", "lib/comm"}},
    {"lib/torch", {"lib/base", "lib/comm", "lib/fsdp"}},
    {"lib/web", {"lib/base"}},
    {"lib/checkpoint", {"lib/base", "lib/store", "lib/session", "lib/comm", "lib/fsdp", "lib/web"}},
    {"lib/data", {"lib/base", "lib/session"}},
    {"launcher/exit_codes", {"lib/base"}},
    {"launcher/causes", {"lib/base", "launcher/exit_codes"}},
    {"launcher/secrets", {"lib/base"}},
    {"launcher/spec", {"lib/base", "launcher/causes", "launcher/secrets"}},
    {"launcher/restart_policy", {"lib/base", "launcher/causes", "launcher/spec"}},
    {"launcher/succession", {"lib/base", "launcher/restart_policy"}},
    {"launcher/allocation", {"lib/base", "lib/session"}},
    {"launcher/stopping",
     {"lib/base", "launcher/exit_codes", "launcher/spec", "launcher/allocation"}},
    {"launcher/manifests",
     {"lib/base", "launcher/exit_codes", "launcher/secrets", "launcher/spec", "launcher/stopping"}},
    {"launcher/site",
     {"lib/base", "launcher/exit_codes", "launcher/secrets", "launcher/spec",
      "launcher/allocation"}},
    {"launcher/policy",
     {"lib/base", "launcher/exit_codes", "launcher/secrets", "launcher/spec", "launcher/allocation",
      "launcher/site"}},
    {"launcher/render",
     {"lib/base", "launcher/exit_codes", "launcher/secrets", "launcher/spec", "launcher/manifests",
      "launcher/site"}},
    {"launcher/audit",
     {"lib/base", "lib/checkpoint", "launcher/exit_codes", "launcher/secrets", "launcher/spec",
      "launcher/allocation", "launcher/site"}},
    {"launcher/at_rest", {"lib/base", "lib/checkpoint", "launcher/spec", "launcher/site"}},
    {"launcher/sweep", {"lib/base", "launcher/spec"}},
    {"launcher/lint",
     {"lib/base", "launcher/exit_codes", "launcher/spec", "launcher/allocation",
      "launcher/stopping", "launcher/sweep"}},
    {"launcher/submission",
     {"lib/base", "launcher/exit_codes", "launcher/secrets", "launcher/spec", "launcher/allocation",
      "launcher/stopping", "launcher/sweep", "launcher/lint"}},
    {"launcher/topology", {"lib/base"}},
    {"launcher/binding", {"lib/base", "launcher/topology"}},
    {"launcher/topology_view", {"lib/base", "launcher/topology"}},
    {"launcher/nccl_env",
     {"lib/base", "launcher/spec", "launcher/topology", "launcher/allocation"}},
    {"launcher/plan",
     {"lib/base", "lib/session", "lib/fsdp", "launcher/secrets", "launcher/spec",
      "launcher/allocation", "launcher/topology", "launcher/binding", "launcher/nccl_env",
      "launcher/restart_policy", "launcher/site"}},
    {"launcher/ledger", {"lib/base"}},
    {"launcher/progress", {"lib/base"}},
    {"launcher/hang_evidence", {"lib/base"}},
    {"launcher/readings", {"lib/base", "launcher/topology"}},
    {"launcher/exposition", {"lib/base", "launcher/readings"}},
    {"launcher/report",
     {"lib/base", "launcher/causes", "launcher/exit_codes", "launcher/secrets", "launcher/ledger"}},
    {"launcher/idle", {"lib/base", "launcher/ledger", "launcher/readings", "launcher/report"}},
    {"launcher/logs", {"lib/base", "launcher/spec", "launcher/report"}},
    {"launcher/control",
     {"lib/base", "lib/flight", "lib/session", "launcher/causes", "launcher/exit_codes",
      "launcher/spec", "launcher/allocation", "launcher/progress", "launcher/readings"}},
    {"launcher/rendezvous",
     {"lib/base", "lib/session", "launcher/exit_codes", "launcher/spec", "launcher/allocation",
      "launcher/control"}},
    {"launcher/quorum",
     {"lib/base", "launcher/exit_codes", "launcher/restart_policy", "launcher/succession",
      "launcher/control", "launcher/rendezvous"}},
    {"launcher/rank_services",
     {"lib/base", "lib/session", "lib/store", "launcher/spec", "launcher/plan",
      "launcher/control"}},
    {"launcher/flight_view", {"lib/base", "lib/flight", "launcher/control"}},
    {"launcher/spawn", {"lib/base"}},
    {"launcher/sampler",
     {"lib/base", "launcher/spec", "launcher/plan", "launcher/site", "launcher/topology",
      "launcher/report", "launcher/readings", "launcher/exposition", "launcher/spawn"}},
    {"launcher/secret_sources", {"lib/base", "launcher/exit_codes", "launcher/spawn"}},
    {"launcher/vault",
     {"lib/base", "lib/web", "lib/checkpoint", "launcher/exit_codes", "launcher/spec",
      "launcher/secret_sources", "launcher/site"}},
    {"launcher/job_secrets",
     {"lib/base", "lib/session", "launcher/exit_codes", "launcher/spec", "launcher/plan",
      "launcher/control", "launcher/spawn", "launcher/secret_sources", "launcher/vault"}},
    {"launcher/kerberos", {"lib/base", "launcher/allocation", "launcher/spawn"}},
    {"launcher/oidc", {"lib/base", "lib/web", "lib/checkpoint"}},
    {"launcher/hand_over", {"lib/base", "launcher/control", "launcher/spawn"}},
    {"launcher/stage_cache", {"lib/base", "launcher/exit_codes"}},
    {"launcher/archives", {"lib/base", "launcher/exit_codes", "launcher/stage_cache"}},
    {"launcher/remote_data",
     {"lib/base", "lib/web", "lib/checkpoint", "launcher/exit_codes", "launcher/stage_cache"}},
    {"launcher/staging",
     {"lib/base", "lib/session", "lib/checkpoint", "launcher/exit_codes", "launcher/spec",
      "launcher/plan", "launcher/report", "launcher/control", "launcher/hand_over",
      "launcher/stage_cache", "launcher/remote_data", "launcher/archives"}},
    {"launcher/stage_out",
     {"lib/base", "lib/checkpoint", "launcher/exit_codes", "launcher/spec", "launcher/plan",
      "launcher/report", "launcher/control", "launcher/hand_over", "launcher/stage_cache",
      "launcher/remote_data", "launcher/staging"}},
    {"launcher/remains", {"lib/base", "lib/session", "launcher/spawn"}},
    {"launcher/tasks", {"lib/base", "launcher/spawn"}},
    {"launcher/input",
     {"lib/base", "launcher/spec", "launcher/allocation", "launcher/plan", "launcher/control",
      "launcher/rank_services"}},
    {"launcher/placement_watch", {"lib/base", "launcher/topology", "launcher/spawn"}},
    {"launcher/pmi",
     {"lib/base", "lib/session", "launcher/allocation", "launcher/plan", "launcher/control",
      "launcher/spawn"}},
    {"launcher/stdio", {"lib/base", "launcher/plan", "launcher/spawn", "launcher/pmi"}},
    {"launcher/python_start",
     {"lib/base", "lib/session", "launcher/spec", "launcher/plan", "launcher/spawn", "launcher/pmi",
      "launcher/stdio", "launcher/hand_over"}},
    {"launcher/warm_processes", {"lib/base", "lib/session", "launcher/spawn"}},
    {"launcher/python_module", {"lib/base", "launcher/plan"}},
    {"launcher/containers",
     {"lib/base", "lib/checkpoint", "launcher/spec", "launcher/allocation", "launcher/plan",
      "launcher/python_module"}},
    {"launcher/post_mortem",
     {"lib/base", "launcher/exit_codes", "launcher/causes", "launcher/plan", "launcher/spawn",
      "launcher/tasks", "launcher/placement_watch", "launcher/control", "launcher/logs",
      "launcher/report"}},
    {"launcher/standstill",
     {"lib/base", "lib/session", "launcher/allocation", "launcher/restart_policy", "launcher/plan",
      "launcher/progress", "launcher/hang_evidence", "launcher/spawn", "launcher/control",
      "launcher/flight_view", "launcher/logs", "launcher/report"}},
    {"launcher/generation",
     {"lib/base",
      "lib/session",
      "launcher/exit_codes",
      "launcher/allocation",
      "launcher/causes",
      "launcher/stopping",
      "launcher/plan",
      "launcher/spawn",
      "launcher/remains",
      "launcher/tasks",
      "launcher/input",
      "launcher/secrets",
      "launcher/job_secrets",
      "launcher/placement_watch",
      "launcher/sampler",
      "launcher/pmi",
      "launcher/python_start",
      "launcher/warm_processes",
      "launcher/containers",
      "launcher/hand_over",
      "launcher/staging",
      "launcher/stage_out",
      "launcher/progress",
      "launcher/control",
      "launcher/flight_view",
      "launcher/rank_services",
      "launcher/logs",
      "launcher/report",
      "launcher/post_mortem"}},
    {"launcher/supervise",
     {"lib/base",
      "launcher/exit_codes",
      "launcher/spec",
      "launcher/allocation",
      "launcher/stopping",
      "launcher/plan",
      "launcher/spawn",
      "launcher/remains",
      "launcher/control",
      "launcher/flight_view",
      "launcher/rendezvous",
      "launcher/rank_services",
      "launcher/report",
      "launcher/causes",
      "launcher/restart_policy",
      "launcher/post_mortem",
      "launcher/standstill",
      "launcher/ledger",
      "launcher/readings",
      "launcher/sampler",
      "launcher/generation",
      "launcher/hand_over",
      "launcher/staging",
      "launcher/stage_out",
      "launcher/secrets",
      "launcher/job_secrets",
      "launcher/succession",
      "launcher/sweep",
      "launcher/quorum"}},
    {"launcher/doctor",
     {"lib/base", "launcher/exit_codes", "launcher/spec", "launcher/spawn", "launcher/allocation",
      "launcher/topology", "launcher/nccl_env", "launcher/plan", "launcher/report",
      "launcher/control", "launcher/rendezvous"}},
    {"launcher/checkpoints",
     {"lib/base", "lib/comm", "lib/fsdp", "lib/checkpoint", "launcher/exit_codes", "launcher/spec",
      "launcher/report", "launcher/vault"}},
    {"launcher/run_report",
     {"lib/base", "launcher/exit_codes", "launcher/secrets", "launcher/topology", "launcher/ledger",
      "launcher/readings", "launcher/report", "launcher/idle"}},
    {"launcher/accounting",
     {"lib/base", "launcher/exit_codes", "launcher/allocation", "launcher/report", "launcher/idle",
      "launcher/run_report"}},
    {"launcher/quota", {"lib/base", "launcher/allocation", "launcher/report"}},
    {"launcher/retention",
     {"lib/base", "lib/checkpoint", "launcher/exit_codes", "launcher/allocation",
      "launcher/control", "launcher/report", "launcher/run_report", "launcher/stage_cache",
      "launcher/stage_out", "launcher/stopping"}},
    {"launcher/top", {"lib/base", "launcher/secrets", "launcher/readings", "launcher/report"}},
    {"launcher/alerts",
     {"lib/base", "lib/web", "launcher/exit_codes", "launcher/secrets", "launcher/spec",
      "launcher/spawn", "launcher/secret_sources", "launcher/site", "launcher/readings",
      "launcher/report", "launcher/top"}},
    {"launcher/run",
     {"lib/base",
      "launcher/alerts",
      "launcher/exit_codes",
      "launcher/spec",
      "launcher/allocation",
      "launcher/topology",
      "launcher/nccl_env",
      "launcher/plan",
      "launcher/control",
      "launcher/rendezvous",
      "launcher/rank_services",
      "launcher/spawn",
      "launcher/kerberos",
      "launcher/quota",
      "launcher/remains",
      "launcher/tasks",
      "launcher/placement_watch",
      "launcher/input",
      "launcher/job_secrets",
      "launcher/pmi",
      "launcher/stdio",
      "launcher/python_module",
      "launcher/containers",
      "launcher/staging",
      "launcher/stage_out",
      "launcher/python_start",
      "launcher/logs",
      "launcher/report",
      "launcher/stopping",
      "launcher/restart_policy",
      "launcher/supervise",
      "launcher/idle",
      "launcher/run_report",
      "launcher/doctor"}},
    {"launcher/cli",
     {"lib/base",
      "launcher/exit_codes",
      "launcher/secrets",
      "launcher/spec",
      "launcher/allocation",
      "launcher/lint",
      "launcher/submission",
      "launcher/site",
      "launcher/policy",
      "launcher/render",
      "launcher/at_rest",
      "launcher/accounting",
      "launcher/alerts",
      "launcher/oidc",
      "launcher/topology",
      "launcher/topology_view",
      "launcher/plan",
      "launcher/report",
      "launcher/doctor",
      "launcher/checkpoints",
      "launcher/run_report",
      "launcher/top",
      "launcher/run",
      "launcher/audit",
      "launcher/manifests",
      "launcher/sampler",
      "launcher/sweep",
      "launcher/retention",
      "launcher/staging",
      "launcher/stage_out",
      "launcher/stopping"}},
};

// Third-party headers that only these rooms may include.
const std::multimap<std::string, std::string> kOnlyIncluder = {
    {"yaml-cpp/", "launcher/spec"},
    {"CLI/", "launcher/cli"},
    {"hwloc", "launcher/topology"},
    {"infiniband/", "launcher/topology"},
    {"mpi.h", "lib/comm"},
    {"nccl.h", "lib/comm"},
    {"xxhash.h", "lib/base"},
    {"pmix", "launcher/pmi"},
    {"openssl/", "launcher/control"},
    {"openssl/", "lib/checkpoint"},
    {"curl/", "lib/web"},
    {"munge.h", "launcher/control"},
    {"expat.h", "launcher/topology"},
    {"liburing.h", "lib/base"},
    {"archive.h", "launcher/archives"},
    {"archive_entry.h", "launcher/archives"},
    {"ncursesw/", "launcher/top"},
    {"torch/", "lib/torch"},
};

std::vector<fs::path> sources_under(const fs::path& folder,
                                    const std::set<std::string>& extensions) {
    std::vector<fs::path> found;
    if (!fs::exists(folder))
        return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file() && extensions.contains(entry.path().extension().string()))
            found.push_back(entry.path());
    return found;
}

// lib/src/session/x.cpp and lib/include/autolaunch/session.hpp are both of the room lib/session.
std::string room_of(const fs::path& file) {
    std::vector<std::string> parts;
    for (const auto& part : fs::relative(file, kRoot))
        parts.push_back(part.string());
    if (parts[0] == "launcher")
        return parts.size() == 2 ? "launcher/cli" : "launcher/" + parts[1];
    if (parts[0] == "lib" && parts[1] == "src")
        return "lib/" + parts[2];
    if (parts[0] == "lib" && parts.size() == 5)
        return "lib/" + parts[3];
    const std::string stem = file.stem();
    if (stem == "borrowed" || stem == "cxx20" || stem == "digest" || stem == "error" ||
        stem == "export")
        return "lib/base";
    return "lib/" + stem;
}

// The room that a quoted or <autolaunch/...> include names; empty for everything that is not ours.
std::string room_of_include(const std::string& include, const fs::path& from) {
    if (include.starts_with("autolaunch/"))
        return room_of(kRoot / "lib/include" / include);
    for (const char* base : {"lib/src", "launcher"})
        if (fs::exists(kRoot / base / include))
            return room_of(kRoot / base / include);
    if (fs::exists(from.parent_path() / include))
        return room_of(fs::weakly_canonical(from.parent_path() / include));
    return {};
}

std::vector<std::string> includes_of(const fs::path& file) {
    static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
    std::vector<std::string> includes;
    for (const auto& line : autolaunch::split(read_file(file), '\n')) {
        std::smatch match;  // a search costs microseconds, and there are 150,000 lines
        if (line.find('#') != line.npos && std::regex_search(line, match, kInclude))
            includes.push_back(match[1]);
    }
    return includes;
}

}  // namespace

TEST_CASE("includes point downwards only") {
    std::vector<fs::path> files = sources_under(kRoot / "lib", {".cpp", ".hpp", ".cu"});
    for (const auto& file : sources_under(kRoot / "launcher", {".cpp", ".hpp"}))
        files.push_back(file);
    REQUIRE(files.size() > 20);
    for (const auto& file : files) {
        const std::string room = room_of(file);
        if (file.filename() == "autolaunch.hpp")
            continue;  // the umbrella
        INFO("in ", fs::relative(file, kRoot).string());
        REQUIRE_MESSAGE(kMayInclude.contains(room),
                        "a new room: say in kMayInclude what it may include: ", room);
        for (const auto& include : includes_of(file)) {
            const std::string target = room_of_include(include, file);
            if (target.empty() || target == room)
                continue;
            CHECK_MESSAGE(kMayInclude.at(room).contains(target), room, " must not include ",
                          include);
        }
    }
}

// Every place that parses JSON or CBOR, and what bounds its depth: the library's parser itself does
// not recurse, but what it makes is copied, compared and printed by recursion.
const std::map<std::string, std::string> kJsonReaders = {
    {"launcher/allocation/machine_counts.cpp", "nests_at_most"},
    {"launcher/audit/audit_line.cpp", "nests_at_most"},
    {"launcher/audit/read_anchors.cpp", "nests_at_most"},
    {"launcher/alerts/incident_book.cpp", "nests_at_most"},
    {"launcher/audit/s3_anchor.cpp", "nests_at_most"},
    {"launcher/audit/trail_record.cpp", "nests_at_most"},
    {"launcher/doctor/finding.cpp", "nests_at_most"},
    {"launcher/doctor/rails.cpp", "nests_at_most"},
    {"launcher/causes/failure_evidence.cpp", "nests_at_most"},
    {"launcher/checkpoints/place_list.cpp", "our own text"},
    {"launcher/hand_over/hand_over.cpp", "nests_at_most"},
    {"launcher/hand_over/mover/main.cpp", "nests_at_most"},
    {"launcher/hand_over/shared_file.cpp", "nests_at_most"},
    {"launcher/staging/stager_words.cpp", "nests_at_most"},
    {"launcher/stage_out/out_words.cpp", "nests_at_most"},
    {"launcher/hang_evidence/torch_recorder.cpp", "nests_at_most"},
    {"launcher/ledger/ledger_json.cpp", "nests_at_most"},
    {"launcher/python_start/preload_record.cpp", "nests_at_most"},
    {"launcher/remains/job_record.cpp", "nests_at_most"},
    {"launcher/remains/other_users.cpp", "nests_at_most"},
    {"launcher/readings/sample_json.cpp", "nests_at_most"},
    {"launcher/restart_policy/restart_history.cpp", "nests_at_most"},
    {"launcher/control/head_record_text.cpp", "nests_at_most"},
    {"launcher/retention/left_run.cpp", "nests_at_most"},
    {"launcher/report/ledger_entry.cpp", "nests_at_most"},
    {"launcher/report/screen.cpp", "our own text"},
    {"launcher/run_report/record_builder.cpp", "nests_at_most"},
    {"launcher/sampler/sampler_messages.cpp", "nests_at_most"},
    {"launcher/spec/schema_export.cpp", "our own text"},
    {"launcher/stopping/save_times.cpp", "nests_at_most"},
    {"launcher/submission/code_state.cpp", "nests_at_most"},
    {"launcher/submission/data_nodes.cpp", "nests_at_most"},
    {"launcher/submission/sweep_command.cpp", "nests_at_most"},
    {"launcher/sweep/element_record.cpp", "nests_at_most"},
    {"launcher/top/job_model.cpp", "nests_at_most"},
    {"launcher/vault/vault_answer.cpp", "nests_at_most"},
    {"launcher/vault/wrapped_identity.cpp", "nests_at_most"},
    {"lib/src/checkpoint/checkpoint_engine.cpp", "only accepted"},
    {"lib/src/checkpoint/commit/info_text.hpp", "parse_of_rank"},
    {"lib/src/checkpoint/commit/lineage.cpp", "nests_at_most"},
    {"lib/src/checkpoint/format/json.hpp", "nests_at_most"},
    {"lib/src/checkpoint/memory/contents.cpp", "ShallowOnly"},
    {"lib/src/checkpoint/memory/memory_copies.cpp", "only accepted"},
    {"lib/src/data/reader_state.cpp", "nests_at_most"},
    {"lib/src/session/checkpoint_settings.cpp", "nests_at_most"},
    {"lib/src/session/session_protocol.cpp", "nests_at_most"},
};

TEST_CASE("no reader of JSON goes as deep as somebody else's file wants") {
    static const std::regex kParses(
        R"(\b[jJ]son::(parse|accept|sax_parse|from_cbor|from_bson|from_msgpack|from_ubjson)\()");
    std::vector<fs::path> files = sources_under(kRoot / "lib", {".cpp", ".hpp"});
    for (const auto& file : sources_under(kRoot / "launcher", {".cpp", ".hpp"}))
        files.push_back(file);
    std::set<std::string> found;
    for (const auto& file : files) {
        const std::string text = read_file(file);
        if (text.find("son::") == text.npos || !std::regex_search(text, kParses))
            continue;
        const std::string name = fs::relative(file, kRoot).string();
        found.insert(name);
        CAPTURE(name);
        const auto bound = kJsonReaders.find(name);
        REQUIRE_MESSAGE(bound != kJsonReaders.end(), "say in kJsonReaders what bounds its depth");
        const bool is_word = bound->second.find(' ') == std::string::npos;
        CHECK((!is_word || text.find(bound->second) != std::string::npos));
        CHECK_MESSAGE(
            (bound->second != "only accepted" || text.find("json::parse(") == std::string::npos),
            "accept() makes nothing, parse() does");
    }
    for (const auto& [name, bound] : kJsonReaders)
        CHECK_MESSAGE(found.contains(name), name, " reads no JSON");
}

// nlohmann's get<int>() takes any number: 2^32 + 1 for 1, and of 1e99 the conversion is undefined.
// base/whole_number.hpp has what to call instead.
TEST_CASE("whole numbers of JSON are some, and fit") {
    static const std::regex kTakesAny(
        R"(\.(template )?get<(std::)?(u?int(8|16|32|64)?(_t)?|long|unsigned|size_t|[pu]id_t)( long| int)*>\()"
        R"(|\.get<std::(vector|set|map|array|pair)<.*\b(u?int|long|size_t))"
        R"(|\.value\("\w+", *-?[0-9]+\))");
    const std::set<std::string> ask_before = {
        "launcher/control/head_record_text.cpp", "lib/src/base/whole_number.hpp",
        "lib/src/checkpoint/format/json.hpp", "lib/src/session/session_protocol.cpp"};
    int files = 0;
    for (const char* folder : {"lib", "launcher"})
        for (const auto& file : sources_under(kRoot / folder, {".cpp", ".hpp"})) {
            const std::string name = fs::relative(file, kRoot), text = read_file(file);
            std::smatch found;
            if (text.find("son") == text.npos)
                continue;
            ++files;
            if (!ask_before.contains(name) && std::regex_search(text, found, kTakesAny))
                FAIL_CHECK(name, ": ", found.str(), ": take whole_number()");
        }
    CHECK(files > 100);
}

TEST_CASE("each third-party library has one room") {
    std::vector<fs::path> files = sources_under(kRoot / "lib", {".cpp", ".hpp"});
    for (const auto& file : sources_under(kRoot / "launcher", {".cpp", ".hpp"}))
        files.push_back(file);
    for (const auto& file : files)
        for (const auto& include : includes_of(file)) {
            bool restricted = false, allowed = false;
            for (const auto& [prefix, room] : kOnlyIncluder)
                if (include.starts_with(prefix)) {
                    restricted = true;
                    allowed = allowed || room_of(file) == room;
                }
            if (restricted)
                CHECK_MESSAGE(allowed, fs::relative(file, kRoot).string(), " includes ", include);
        }
}

TEST_CASE(
    "public headers include nothing but the standard library and each other, and torch.hpp "
    "libtorch") {
    for (const auto& file : sources_under(kRoot / "lib/include", {".hpp"}))
        for (const auto& include : includes_of(file)) {
            const bool standard =
                include.find('/') == std::string::npos && include.find('.') == std::string::npos;
            const bool is_torch = room_of(file) == "lib/torch" && include.starts_with("torch/");
            CHECK_MESSAGE((standard || is_torch || include.starts_with("autolaunch/")),
                          fs::relative(file, kRoot).string(), " includes ", include);
        }
}

namespace {

/// Where the comment or literal that begins at `at` ends; `at` itself where none begins.
std::size_t end_of_no_code(const std::string& text, std::size_t at) {
    const auto past = [&](const std::string& end, std::size_t from) {
        const std::size_t found = text.find(end, from);
        return found == text.npos ? text.size() : found + end.size();
    };
    const bool in_word = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
    if (text.compare(at, 2, "//") == 0)
        return past("\n", at);
    if (text.compare(at, 2, "/*") == 0)
        return past("*/", at + 2);
    if (text.compare(at, 2, "R\"") == 0 && !in_word) {
        const std::string mark = text.substr(at + 2, text.find('(', at) - at - 2);
        return past(')' + mark + '"', at);
    }
    // In a word ' is the separator of 1'000'000.
    if (text[at] != '"' && (text[at] != '\'' || in_word))
        return at;
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != text[at])
        end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
}

/// Without comments, and with one word for each literal.
std::string code_of(const std::string& text) {
    std::string code;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = end_of_no_code(text, at);
        code += end == at ? text.substr(at, 1) : text[at] == '/' ? "\n" : " literal ";
        at = std::max(end, at + 1);
    }
    return code;
}

/// The last argument of the call whose opening parenthesis is at `open`.
std::string last_argument(const std::string& code, std::size_t open) {
    int depth = 0;
    std::size_t start = open + 1;
    for (std::size_t i = open; i < code.size(); ++i) {
        const char c = code[i];
        depth += c == '(' || c == '{' || c == '[';
        depth -= c == ')' || c == '}' || c == ']';
        if (c == ',' && depth == 1)
            start = i + 1;
        if (depth == 0)
            return std::string(autolaunch::trim(code.substr(start, i - start)));
    }
    return {};
}

// Of std::filesystem: all that take an error_code, and throw where they get none.
constexpr const char* kFunctions =
    "absolute|canonical|weakly_canonical|relative|proximate|copy|copy_file|"
    "copy_symlink|create_directory|create_directories|"
    "create_directory_symlink|create_hard_link|create_symlink|current_path|"
    "equivalent|exists|file_size|hard_link_count|is_block_file|"
    "is_character_file|is_directory|is_empty|is_fifo|is_other|"
    "is_regular_file|is_socket|is_symlink|last_write_time|permissions|"
    "read_symlink|remove|remove_all|rename|resize_file|space|status|"
    "symlink_status|temp_directory_path";

/// Calls of std::filesystem that would throw a filesystem_error, as "name(" and the last argument.
std::vector<std::string> throwing_calls(const std::string& text) {
    static const std::regex kCall(R"(\b(?:fs|filesystem)::()" + std::string(kFunctions) +
                                  R"()\s*\()");
    static const std::regex kErrorCode(R"(\bstd::error_code&?\s+(\w+))");
    // Names that hide where a function comes from.
    static const std::regex kHidden(
        R"(\busing (?:namespace )?(?:std::)?(?:filesystem|fs)(?:::\w+)?;|\bnamespace (?!fs )\w+ = (?:::)?std::filesystem;)");
    if (text.find("fs::") == text.npos && text.find("filesystem") == text.npos)
        return {};
    const std::string code = code_of(text);
    std::set<std::string> error_codes;
    for (std::sregex_iterator found(code.begin(), code.end(), kErrorCode), end; found != end;
         ++found)
        error_codes.insert((*found)[1]);
    std::vector<std::string> calls;
    for (std::sregex_iterator found(code.begin(), code.end(), kCall), end; found != end; ++found) {
        const auto open = static_cast<std::size_t>(found->position() + found->length() - 1);
        if (const auto last = last_argument(code, open); !error_codes.contains(last))
            calls.push_back((*found)[1].str() + "(… " + last + ")");
    }
    for (std::sregex_iterator found(code.begin(), code.end(), kHidden), end; found != end; ++found)
        calls.push_back(found->str());
    return calls;
}

/// Iterators of folders throw when they go on, in a range-for and by ++, and entries when they are
/// asked what they are.
bool uses_folder_iterators(const std::string& text) {
    static const std::regex kIterator(R"(\b(?:recursive_)?directory_(?:iterator|entry)\b)");
    return text.find("directory_") != text.npos && std::regex_search(code_of(text), kIterator);
}

}  // namespace

TEST_CASE("what a call of std::filesystem that throws looks like") {
    CHECK(
        throwing_calls("std::error_code error;\nif (fs::exists(path / \"a, b\", error))").empty());
    CHECK(throwing_calls("f(std::error_code& e) { fs::remove(p(a, b),\n  e); }").empty());
    CHECK(throwing_calls("fs::path p; fs::path(q); p.remove_filename(); storage.rename(a, b);")
              .empty());
    CHECK(throwing_calls("// fs::exists(path)\n/* fs::exists(a)\n*/ \"fs::exists(b)\"").empty());
    CHECK(throwing_calls("n = 1'000; if (fs::exists(path)) n = 2'000;").size() == 1);
    CHECK(throwing_calls("if (std::filesystem::exists (path))").size() == 1);
    CHECK(throwing_calls("std::error_code e; fs::rename(a, b); fs::exists(e.x)").size() == 2);
    CHECK(throwing_calls("x = std::filesystem::current_path();").size() == 1);
    CHECK(throwing_calls("using std::filesystem::exists;").size() == 1);
    CHECK(throwing_calls("using namespace std::filesystem;").size() == 1);
    CHECK(throwing_calls("namespace files = std::filesystem;").size() == 1);
    CHECK(throwing_calls("namespace fs = std::filesystem;").empty());
    CHECK(
        uses_folder_iterators("for (const auto& e : fs::recursive_directory_iterator(p, error))"));
    CHECK_FALSE(uses_folder_iterators("// no directory_iterator"));
}

// A filesystem_error is no autolaunch::Error: it would end an agent, or be called a bug.
// base/file_system.hpp has what to call instead.
TEST_CASE("no call of std::filesystem throws an exception of its own") {
    const std::set<fs::path> may_iterate = {"lib/src/base/file_system.cpp",
                                            "examples/gpt/text_data.cpp"};
    int files = 0;
    for (const char* folder : {"lib", "launcher", "examples"})
        for (const auto& file : sources_under(kRoot / folder, {".cpp", ".hpp", ".cu"})) {
            const fs::path name = fs::relative(file, kRoot);
            const std::string text = read_file(file);
            ++files;
            for (const auto& call : throwing_calls(text))
                FAIL_CHECK(name.string(), ": ", call, " takes no std::error_code");
            if (!may_iterate.contains(name))
                CHECK_MESSAGE(!uses_folder_iterators(text), name.string(),
                              " iterates over a folder: take list_folder()");
        }
    CHECK(files > 500);
}

// Two headers of one namespace with types of one name break the one-definition rule, which no
// linker tells.
TEST_CASE("no two headers define one type") {
    static const std::regex kNamespace(R"(^namespace ([A-Za-z_:]+) \{)");
    static const std::regex kType(
        R"(^(?:struct|class|enum class) (?:[A-Z_]+_API )?([A-Z][A-Za-z0-9]+)(?: final)?(?: :.*)? \{)");
    std::map<std::string, fs::path> defined_in;
    for (const char* folder : {"lib", "launcher"})
        for (const auto& file : sources_under(kRoot / folder, {".hpp"})) {
            std::string space;
            for (const auto& line : autolaunch::split(read_file(file), '\n')) {
                std::smatch match;
                if (std::regex_search(line, match, kNamespace))
                    space = match[1];
                if (!std::regex_search(line, match, kType))
                    continue;
                const auto [first, is_new] =
                    defined_in.emplace(space + "::" + match[1].str(), file);
                CHECK_MESSAGE(is_new, first->first, " is in ", first->second.string(), " and ",
                              file.string());
            }
        }
    CHECK(defined_in.size() > 300);
}

namespace {

/// Whether a CMakeLists.txt in the file's folder or the one above names it.
bool is_named_above(const fs::path& file) {
    for (const auto& folder : {file.parent_path(), file.parent_path().parent_path()}) {
        const fs::path list = folder / "CMakeLists.txt";
        if (fs::exists(list) && read_file(list).find(file.filename().string()) != std::string::npos)
            return true;
    }
    return false;
}

// This program is in tests/unit of it.
fs::path build_folder() {
    return fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
}

}  // namespace

TEST_CASE("every source on disk is built") {
    const auto commands =
        nlohmann::json::parse(read_file(build_folder() / "compile_commands.json"));
    std::set<fs::path> built;
    for (const auto& command : commands) {
        const fs::path file = command["file"].get<std::string>();
        built.insert(fs::weakly_canonical(file));
        if (file.filename().string().starts_with("unity_"))  // a batch, which includes its sources
            for (const auto& source : includes_of(file))
                built.insert(fs::weakly_canonical(source));
    }
    // Sources of parts that this build was told to leave out.
    const std::map<std::string, bool> optional = {
        {"lib/src/comm/mpi/", AUTOLAUNCH_HAVE_MPI},
        {"lib/src/comm/nccl/", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"lib/src/fsdp/cuda/cuda_", AUTOLAUNCH_HAVE_CUDA_KERNELS},
        {"lib/src/fsdp/cuda/kernel_image", AUTOLAUNCH_HAVE_CUDA_KERNELS},
        {"lib/src/fsdp/cuda/kernels.cu", false},  // nvcc's command is its own
        {"lib/src/fsdp/cuda/no_cuda", !AUTOLAUNCH_HAVE_CUDA_KERNELS},
        {"lib/src/fsdp/cuda/stream_lane", AUTOLAUNCH_HAVE_CUDA_KERNELS},
        {"tests/integration/fsdp_gpu_", AUTOLAUNCH_HAVE_CUDA_KERNELS},
        {"tests/gpu/fsdp_gpu", AUTOLAUNCH_HAVE_CUDA_KERNELS},
        {"tests/integration/fake_kernels", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"bench/gpu_", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/gpu/", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/integration/nccl_", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/integration/gpt_gpu_", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/integration/fake_cuda", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/integration/fake_nccl", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/conformance/comm_nccl", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/unit/nccl_parts", AUTOLAUNCH_HAVE_NCCL_BACKEND},
        {"tests/integration/torch_", AUTOLAUNCH_HAVE_TORCH},
        {"examples/torch_cpp/", AUTOLAUNCH_HAVE_TORCH},
        {"bench/mpi_", AUTOLAUNCH_HAVE_MPI},
        {"launcher/pmi/pmixd/", AUTOLAUNCH_HAVE_PMIX},
        {"tests/integration/pmi_", AUTOLAUNCH_HAVE_TEST_MPI},
        {"tests/integration/mpi_", AUTOLAUNCH_HAVE_TEST_MPI},
        {"tests/conformance/", AUTOLAUNCH_ALL_TESTS},
        {"tests/integration/", AUTOLAUNCH_ALL_TESTS},
        {"tests/simulation/", AUTOLAUNCH_ALL_TESTS},
        {"tests/unit/", AUTOLAUNCH_ALL_TESTS},
        {"tests/package/", false},
        {"tests/real/", false},
        {"tests/faults/", false},
        {"tests/fuzz/", false}};
    for (const char* folder : {"lib", "launcher", "examples", "bench", "tests"})
        for (const auto& file : sources_under(kRoot / folder, {".cpp", ".cu"})) {
            const std::string name = fs::relative(file, kRoot);
            bool left_out = false;
            for (const auto& [prefix, in] : optional)
                left_out |= name.starts_with(prefix) && !in;
            // nvcc is called by commands of our own, which no list of compile commands shows.
            if (file.extension() == ".cu")
                left_out |= is_named_above(file);
            if (!left_out)
                CHECK_MESSAGE(built.contains(fs::weakly_canonical(file)), name, " is in no target");
        }
}

TEST_CASE("every test on disk is listed") {
    const std::set<std::string> kCalledByTests = {"lib.sh", "s3_server.sh", "sanitizer.sh",
                                                  "slurmdbd.sh"};
    for (const char* folder :
         {"unit", "conformance", "integration", "e2e", "e2e/slurm", "gpu", "package"}) {
        const fs::path directory = kRoot / "tests" / folder;
        // A list names x.sh and x.cpp, or just x for x.cpp and x_test.cpp.
        std::set<std::string> listed;
        for (const auto& list : sources_under(directory, {".txt", ".cmake"})) {
            static const std::regex kWord(R"([\w.]+)");
            const std::string text = read_file(list);
            for (std::sregex_iterator word(text.begin(), text.end(), kWord), end; word != end;
                 ++word)
                listed.insert(word->str());
        }
        for (const auto& file : sources_under(directory, {".cpp", ".sh"})) {
            const std::string name = file.filename();
            if (file.parent_path() != directory || kCalledByTests.contains(name))
                continue;
            const std::string test = file.stem().string();
            const bool is_listed =
                listed.contains(name) || (file.extension() == ".cpp" && listed.contains(test)) ||
                (name.ends_with("_test.cpp") && listed.contains(test.substr(0, test.size() - 5)));
            CHECK_MESSAGE(is_listed, "tests/", std::string(folder), "/", name, " is not listed");
        }
    }
}

// Many are compiled as one source: each has names of its own.
TEST_CASE("what a test's source has is in a namespace of its name") {
    for (const auto& file : sources_under(kRoot / "tests", {".cpp"})) {
        const std::string name = file.stem().string();
        if (!name.ends_with("_test"))
            continue;
        const std::string text = read_file(file);
        const auto begin = text.find("\nnamespace " + name + " {\n");
        const auto first = text.find("\nTEST_CASE"), using_first = text.find("\nusing ");
        CHECK_MESSAGE((begin < first && begin < using_first &&
                       text.ends_with("\n}  // namespace " + name + "\n")),
                      file.string(), ": begin with `namespace ", name,
                      " {` behind the includes, and end with `}  // namespace ", name, "`");
    }
}

// Seeds are replayed in every build, and docs/security.md says what a run found.
TEST_CASE(
    "every fuzzer has seeds, a unit test that replays them, and its rows in the threat model") {
    const fs::path folder = kRoot / "tests/fuzz";
    const std::string built = read_file(folder / "CMakeLists.txt"),
                      told = read_file(kRoot / "docs/security.md");
    std::string tests;
    for (const auto& file : sources_under(kRoot / "tests/unit", {".cpp"}))
        tests += read_file(file);
    static const std::regex kBuilt(R"(\nautolaunch_fuzzer\((\w+)_fuzz )"), kTold(R"(`(\w+)_fuzz`)"),
        kRun(R"(\n\| `(\w+)_fuzz` \| [0-9,]+ \| [0-9]+ \| [0-9]+ \| )");
    const auto names_in = [](const std::string& text, const std::regex& pattern) {
        std::multiset<std::string> names;
        for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
            names.insert((*at)[1]);
        return names;
    };
    const auto fuzzers = names_in(built, kBuilt), mentions = names_in(told, kTold),
               runs = names_in(told, kRun);
    for (const std::string& name : fuzzers) {
        CAPTURE(name);
        const fs::path seeds = folder / "seeds" / name;
        CHECK(fs::exists(folder / (name + "_fuzz.cpp")));
        CHECK((fs::is_directory(seeds) && !fs::is_empty(seeds)));
        CHECK_MESSAGE(tests.find("fuzz/" + name + "_check.hpp\"") != tests.npos,
                      "no unit test replays its seeds");
        CHECK_MESSAGE(runs.count(name) == 1, "docs/security.md has no row of its run");
        CHECK_MESSAGE(mentions.count(name) >= 2,
                      "docs/security.md does not say which bytes it is of");
    }
    CHECK(fuzzers.size() > 30);
    for (const std::string& name : mentions)
        CHECK_MESSAGE(fuzzers.contains(name), name, "_fuzz of docs/security.md is not there");
    for (const auto& file : sources_under(folder, {".cpp"})) {
        const std::string stem = file.stem().string();
        CHECK_MESSAGE(fuzzers.contains(stem.substr(0, stem.rfind("_fuzz"))), stem, " is not built");
    }
}

namespace {

/// A room as its CMakeLists.txt tells of it, in three lines: "# NAME: QUESTION?…", "# in: …" and
/// "# out: …".
struct ToldRoom {
    std::string question, in, out;
};

/// The lines of `list` that begin with "# NAME: "; nothing where they are not as they should be.
std::optional<ToldRoom> told_room(const fs::path& list, const std::string& name) {
    const std::vector<std::string> lines = autolaunch::split(read_file(list), '\n');
    const std::string begin = "# " + name + ": ";
    for (size_t i = 0; i + 2 < lines.size(); ++i) {
        if (!lines[i].starts_with(begin))
            continue;
        if (lines[i].find('?') == std::string::npos || !lines[i + 1].starts_with("# in: ") ||
            !lines[i + 2].starts_with("# out: "))
            return std::nullopt;
        return ToldRoom{lines[i].substr(begin.size()), lines[i + 1].substr(6),
                        lines[i + 2].substr(7)};
    }
    return std::nullopt;
}

/// Every room on disk, as the map names it, and the list that tells of it.
std::map<std::string, fs::path> rooms_on_disk() {
    std::map<std::string, fs::path> rooms;
    for (const char* wing : {"lib/src", "launcher"})
        for (const auto& list : sources_under(kRoot / wing, {".txt"}))
            if (list.filename() == "CMakeLists.txt" && list.parent_path() != kRoot / wing)
                rooms[fs::relative(list.parent_path(), kRoot / wing)] = list;
    for (const auto& entry : fs::directory_iterator(kRoot / "lib/src/checkpoint"))
        if (entry.is_directory())
            rooms["checkpoint/" + entry.path().filename().string()] = rooms.at("checkpoint");
    return rooms;
}

std::string output_of(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    REQUIRE(pipe);
    std::string output;
    char buffer[4096];
    for (size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe.get())) > 0;)
        output.append(buffer, got);
    return output;
}

}  // namespace

TEST_CASE("the map is what the rooms say") {
    const std::string map = read_file(kRoot / "docs/map.md");
    CHECK_MESSAGE(output_of("bash '" + (kRoot / "scripts/map").string() + "'") == map,
                  "run scripts/map >docs/map.md");
    const auto rooms = rooms_on_disk();
    REQUIRE(rooms.size() > 40);
    for (const auto& [room, list] : rooms) {
        const bool within = room.starts_with("checkpoint/");
        const auto told = told_room(list, within ? room : fs::path(room).filename().string());
        INFO("room ", room, ", ", list.string());
        REQUIRE_MESSAGE(told, "tell of it: '# NAME: question?', '# in: …', '# out: …'");
        // The map begins a question with a capital letter.
        const std::string row = told->question.substr(1) + " | " + told->in + " | " + told->out;
        CHECK(map.find("| [" + room + "](../") != std::string::npos);
        CHECK(map.find(row + " |\n") != std::string::npos);
    }
}

TEST_CASE("the map is in the order of the layers") {
    const std::string map = read_file(kRoot / "docs/map.md");
    const auto place = [&map](const std::string& room) {
        const std::string folder = room.starts_with("lib/") ? "lib/src/" + room.substr(4) : room;
        return map.find("](../" + folder + ") |");
    };
    for (const auto& [room, below] : kMayInclude) {
        CHECK_MESSAGE(place(room) != std::string::npos, room, " is not on the map");
        for (const auto& target : below)
            CHECK_MESSAGE(place(target) < place(room), target, " comes after ", room);
    }
}

}  // namespace structure_test
