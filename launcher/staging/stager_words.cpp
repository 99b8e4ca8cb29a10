#include "staging/stager_words.hpp"

#include "staging/node_words.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 6;

std::string line_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Make>
auto parse(std::string_view line, Make make) {
    if (!nests_at_most(std::string(line), kDeepest))
        throw Error(ErrorCode::corrupt, "what the stager and its agent say makes no sense");
    try {
        return make(Json::parse(line));
    } catch (const Json::exception& error) {
        throw Error(ErrorCode::corrupt, std::string("what the stager and its agent say makes no "
                                                    "sense: ") +
                                            error.what());
    }
}

std::int64_t number(const Json& json, const char* key) {
    return whole_number<std::int64_t>(json.at(key));
}
std::string text(const Json& json, const char* key) { return json.at(key).get<std::string>(); }

Json json_of(const std::vector<SeenSource>& sources) {
    Json list = Json::array();
    for (const SeenSource& source : sources)
        list.push_back({{"item", source.item},
                        {"key", source.key},
                        {"address", source.address},
                        {"listing", source.listing},
                        {"folder", source.folder},
                        {"only", source.only},
                        {"bytes", source.bytes}});
    return list;
}

std::vector<SeenSource> sources_in(const Json& list) {
    std::vector<SeenSource> sources;
    for (const Json& json : list)
        sources.push_back({.item = whole_number<int>(json.at("item")),
                           .key = text(json, "key"),
                           .address = text(json, "address"),
                           .listing = text(json, "listing"),
                           .folder = text(json, "folder"),
                           .only = text(json, "only"),
                           .bytes = number(json, "bytes")});
    return sources;
}

Json json_of(const std::vector<WantedFiles>& wanted) {
    Json list = Json::array();
    for (const WantedFiles& one : wanted)
        list.push_back({{"item", one.item},
                        {"copies", one.copies},
                        {"paths", one.paths},
                        {"sizes", one.sizes},
                        {"prepared", one.is_prepared},
                        {"times", one.times},
                        {"modes", one.modes}});
    return list;
}

std::vector<WantedFiles> wanted_in(const Json& list) {
    std::vector<WantedFiles> wanted;
    for (const Json& json : list) {
        wanted.push_back({.item = whole_number<int>(json.at("item")),
                          .copies = text(json, "copies"),
                          .paths = json.at("paths").get<std::vector<std::string>>(),
                          .sizes = {},
                          .is_prepared = json.value("prepared", false)});
        for (const Json& size : json.at("sizes"))
            wanted.back().sizes.push_back(whole_number<std::int64_t>(size));
        for (const Json& time : json.value("times", Json::array()))
            wanted.back().times.push_back(whole_number<std::int64_t>(time));
        for (const Json& mode : json.value("modes", Json::array()))
            wanted.back().modes.push_back(whole_number<unsigned>(mode));
        const std::size_t files = wanted.back().paths.size(), times = wanted.back().times.size();
        if (wanted.back().sizes.size() != files || wanted.back().modes.size() != times ||
            (times != 0 && times != files))
            throw Error(ErrorCode::corrupt, "files without sizes");
    }
    return wanted;
}

Json json_of(const std::vector<HandedFiles>& handed) {
    Json list = Json::array();
    for (const HandedFiles& one : handed)
        list.push_back({{"item", one.item}, {"copies", one.copies}});
    return list;
}

std::vector<HandedFiles> handed_in(const Json& list) {
    std::vector<HandedFiles> handed;
    for (const Json& one : list) {
        handed.push_back({.item = whole_number<int>(one.at("item")), .copies = {}});
        for (const Json& copy : one.at("copies"))
            handed.back().copies.emplace_back(copy.at(0).get<std::string>(),
                                              copy.at(1).get<std::string>());
    }
    return handed;
}

StagingFailure failure_in(const Json& json) {
    return {whole_number<int>(json.at("code")), text(json, "what"), text(json, "hint")};
}

Json json_of(const StagingFailure& failure) {
    return {{"code", failure.exit_code}, {"what", failure.what}, {"hint", failure.hint}};
}

}  // namespace

StagingWord parse_node_word(std::string_view said) {
    return parse(said, [](const Json& json) {
        StagingWord word;
        if (json.contains("item"))
            word.item = whole_number<int>(json.at("item"));
        word.asks = json.contains("ask");
        word.sources = sources_in(json.value("sources", Json::array()));
        if (json.contains("failed"))
            word.failed.push_back(failure_in(json.at("failed")));
        return word;
    });
}

std::string node_word_ask() { return line_of({{"ask", true}}); }

std::string node_word_sources(const std::vector<SeenSource>& sources) {
    return line_of({{"sources", json_of(sources)}});
}

std::string node_word_failed(const StagingFailure& failure) {
    return line_of({{"failed", json_of(failure)}});
}

std::string as_line(const StagerOrder& order) {
    Json items = Json::array();
    for (const StagerItem& item : order.items)
        items.push_back({{"name", item.name},
                         {"from", item.from},
                         {"verify", item.verify},
                         {"unpack", item.unpack},
                         {"streams", item.streams},
                         {"for_all", item.for_all}});
    return line_of({{"role", static_cast<int>(order.role)},
                    {"scratch", order.scratch},
                    {"most_bytes", order.most_bytes},
                    {"bytes_per_second", order.bytes_per_second},
                    {"timeout_ms", order.timeout.count()},
                    {"keep_s", order.keep_s},
                    {"streams", order.streams},
                    {"items", items},
                    {"shared",
                     {{"folder", order.shared.folder},
                      {"owner", order.shared.owner},
                      {"fills", order.shared.fills}}}});
}

StagerOrder parse_order(std::string_view line) {
    return parse(line, [](const Json& json) {
        StagerOrder order{.role = static_cast<StagerRole>(whole_number<int>(json.at("role"))),
                          .scratch = text(json, "scratch"),
                          .most_bytes = number(json, "most_bytes"),
                          .bytes_per_second = number(json, "bytes_per_second"),
                          .timeout = std::chrono::milliseconds(number(json, "timeout_ms")),
                          .keep_s = number(json, "keep_s"),
                          .streams = text(json, "streams"),
                          .items = {}};
        for (const Json& item : json.at("items"))
            order.items.push_back({text(item, "name"), text(item, "from"), text(item, "verify"),
                                   text(item, "unpack"), item.at("streams").get<bool>(),
                                   item.at("for_all").get<bool>()});
        const Json& shared = json.at("shared");
        order.shared = {text(shared, "folder"), text(shared, "owner"),
                        shared.at("fills").get<bool>()};
        return order;
    });
}

std::string as_line(const AgentWord& word) {
    return line_of({{"sources", json_of(word.sources)},
                    {"handed", json_of(word.handed)},
                    {"came", json_of(word.came)},
                    {"prepare", word.prepare},
                    {"deserted", word.deserted}});
}

AgentWord parse_agent_word(std::string_view line) {
    return parse(line, [](const Json& json) {
        AgentWord word;
        word.sources = sources_in(json.at("sources"));
        word.deserted = json.at("deserted").get<bool>();
        for (const Json& item : json.at("prepare"))
            word.prepare.push_back(whole_number<int>(item));
        word.handed = handed_in(json.at("handed"));
        word.came = handed_in(json.at("came"));
        return word;
    });
}

std::string as_line(const StagerWord& word) {
    Json json = {{"done", word.done},
                 {"notes", word.notes},
                 {"sources", json_of(word.sources)},
                 {"wanted", json_of(word.wanted)},
                 {"offered", json_of(word.offered)},
                 {"prepared", word.prepared}};
    for (const StagedData& data : word.staged)
        json["staged"].push_back({{"name", data.name},
                                  {"entry", data.entry},
                                  {"path", data.path},
                                  {"bytes", data.bytes},
                                  {"files", data.files},
                                  {"read_bytes", data.read_bytes},
                                  {"unchecked_files", data.unchecked_files},
                                  {"was_here", data.was_here},
                                  {"ms", data.took.count()},
                                  {"shared_owner", data.shared_owner}});
    for (const StreamBegun& stream : word.streams)
        json["streams"].push_back({{"name", stream.name},
                                   {"path", stream.path},
                                   {"bytes", stream.bytes},
                                   {"files", stream.files}});
    for (const StagingProgress& progress : word.progress)
        json["progress"].push_back(
            {{"name", progress.name}, {"bytes", progress.bytes}, {"of", progress.of}});
    for (const StagingFailure& failure : word.failed)
        json["failed"].push_back(json_of(failure));
    return line_of(json);
}

StagerWord parse_word(std::string_view line) {
    return parse(line, [](const Json& json) {
        StagerWord word;
        word.done = json.at("done").get<bool>();
        word.notes = json.at("notes").get<std::vector<std::string>>();
        word.sources = sources_in(json.at("sources"));
        word.wanted = wanted_in(json.at("wanted"));
        word.offered = wanted_in(json.at("offered"));
        for (const Json& item : json.at("prepared"))
            word.prepared.push_back(whole_number<int>(item));
        for (const Json& data : json.value("staged", Json::array()))
            word.staged.push_back({.name = text(data, "name"),
                                   .entry = text(data, "entry"),
                                   .path = text(data, "path"),
                                   .bytes = number(data, "bytes"),
                                   .files = number(data, "files"),
                                   .read_bytes = number(data, "read_bytes"),
                                   .unchecked_files = number(data, "unchecked_files"),
                                   .was_here = data.at("was_here").get<bool>(),
                                   .took = std::chrono::milliseconds(number(data, "ms")),
                                   .shared_owner = number(data, "shared_owner")});
        for (const Json& stream : json.value("streams", Json::array()))
            word.streams.push_back({text(stream, "name"), text(stream, "path"),
                                    number(stream, "bytes"), number(stream, "files")});
        for (const Json& progress : json.value("progress", Json::array()))
            word.progress.push_back(
                {text(progress, "name"), number(progress, "bytes"), number(progress, "of")});
        for (const Json& failure : json.value("failed", Json::array()))
            word.failed.push_back(failure_in(failure));
        return word;
    });
}

std::string key_words(const std::string& from, const std::string& verify) {
    return verify.empty() ? from : from + "\nverified by " + verify;
}

}  // namespace autolaunch::launcher
