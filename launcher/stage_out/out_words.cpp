#include "stage_out/out_words.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <array>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr int kDeepestWord = 4;
constexpr std::array<const char*, 4> kEnds = {"unknown", "succeeded", "failed", "requeued"};

std::string out_line(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Make>
auto parse_out(std::string_view text, Make make) {
    const auto fail = [](const std::string& why) {
        throw Error(ErrorCode::corrupt, "what is said of storage.stage_out makes no sense" + why);
    };
    if (!nests_at_most(std::string(text), kDeepestWord))
        fail({});
    try {
        return make(Json::parse(text));
    } catch (const Json::exception& error) {
        fail(std::string(": ") + error.what());
    }
    return decltype(make(Json()))();
}

std::int64_t count_in(const Json& json, const char* key) {
    const auto count = whole_number<std::int64_t>(json.at(key));
    if (count < 0)
        throw Error(ErrorCode::corrupt, std::string("storage.stage_out: fewer than no ") + key);
    return count;
}

std::string word_in(const Json& json, const char* key) { return json.at(key).get<std::string>(); }

Json json_of(const OutDone& done) {
    return {{"name", done.name},
            {"files", done.files},
            {"bytes", done.bytes},
            {"found_files", done.found_files},
            {"left_files", done.left_files},
            {"left_bytes", done.left_bytes},
            {"code", done.exit_code},
            {"what", done.what},
            {"hint", done.hint},
            {"ms", done.took.count()}};
}

OutDone done_in(const Json& json) {
    return {.name = word_in(json, "name"),
            .files = count_in(json, "files"),
            .bytes = count_in(json, "bytes"),
            .found_files = count_in(json, "found_files"),
            .left_files = count_in(json, "left_files"),
            .left_bytes = count_in(json, "left_bytes"),
            .exit_code = whole_number<int>(json.at("code")),
            .what = word_in(json, "what"),
            .hint = word_in(json, "hint"),
            .took = std::chrono::milliseconds(count_in(json, "ms"))};
}

}  // namespace

std::string as_text(const OutOrder& order) {
    Json entries = Json::array();
    for (const OutEntry& entry : order.entries)
        entries.push_back({{"name", entry.name},
                           {"to", entry.to},
                           {"when", entry.on_success ? "success" : "always"},
                           {"layout", entry.by_node ? "node" : "flat"},
                           {"overwrite", entry.may_overwrite}});
    return out_line({{"autolaunch", "stage_out 1"},
                     {"run_id", order.run_id},
                     {"node", order.node},
                     {"run_dir", order.run_dir},
                     {"nodes", order.nodes},
                     {"bytes_per_second", order.bytes_per_second},
                     {"timeout_ms", order.timeout.count()},
                     {"entries", entries}}) +
           '\n';
}

OutOrder parse_out_order(std::string_view text) {
    return parse_out(text, [](const Json& json) {
        if (word_in(json, "autolaunch") != "stage_out 1")
            throw Error(ErrorCode::corrupt, "it is of another version of autolaunch");
        OutOrder order{.run_id = word_in(json, "run_id"),
                       .node = word_in(json, "node"),
                       .run_dir = word_in(json, "run_dir"),
                       .nodes = whole_number<int>(json.at("nodes")),
                       .bytes_per_second = count_in(json, "bytes_per_second"),
                       .timeout = std::chrono::milliseconds(count_in(json, "timeout_ms")),
                       .entries = {}};
        for (const Json& entry : json.at("entries"))
            order.entries.push_back({.name = word_in(entry, "name"),
                                     .to = word_in(entry, "to"),
                                     .on_success = word_in(entry, "when") == "success",
                                     .by_node = word_in(entry, "layout") == "node",
                                     .may_overwrite = entry.at("overwrite").get<bool>()});
        return order;
    });
}

std::string as_line(const CopyOrder& order) {
    return out_line({{"folder", order.folder}, {"names", order.names}, {"removes", order.removes}});
}

CopyOrder parse_copy_order(std::string_view line) {
    return parse_out(line, [](const Json& json) {
        return CopyOrder{word_in(json, "folder"), json.at("names").get<std::vector<std::string>>(),
                         json.at("removes").get<bool>()};
    });
}

std::string as_line(const OutWord& word) {
    Json json = {{"over", word.over}, {"notes", word.notes}, {"folder", word.folder}};
    for (const OutProgress& progress : word.progress)
        json["progress"].push_back(
            {{"name", progress.name}, {"bytes", progress.bytes}, {"of", progress.of}});
    for (const OutDone& done : word.done)
        json["done"].push_back(json_of(done));
    return out_line(json);
}

OutWord parse_out_word(std::string_view line) {
    return parse_out(line, [](const Json& json) {
        OutWord word;
        word.over = json.at("over").get<bool>();
        word.folder = word_in(json, "folder");
        word.notes = json.at("notes").get<std::vector<std::string>>();
        for (const Json& progress : json.value("progress", Json::array()))
            word.progress.push_back(
                {word_in(progress, "name"), count_in(progress, "bytes"), count_in(progress, "of")});
        for (const Json& done : json.value("done", Json::array()))
            word.done.push_back(done_in(done));
        return word;
    });
}

const char* name_of(OutEnd end) { return kEnds.at(static_cast<std::size_t>(end)); }

OutEnd out_end_of(std::string_view name) {
    for (std::size_t i = 0; i < kEnds.size(); ++i)
        if (name == kEnds[i])
            return static_cast<OutEnd>(i);
    return OutEnd::unknown;
}

std::string as_line(const OutAsk& ask) {
    return out_line({{"end", name_of(ask.end)}, {"within_ms", ask.within.count()}});
}

bool is_out_ask(std::string_view line) { return line.starts_with("{\"end\":"); }

OutAsk parse_out_ask(std::string_view line) {
    return parse_out(line, [](const Json& json) {
        return OutAsk{out_end_of(word_in(json, "end")),
                      std::chrono::milliseconds(count_in(json, "within_ms"))};
    });
}

}  // namespace autolaunch::launcher
