#include "staging/stager_words.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 5;

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

}  // namespace

std::string as_line(const StagerOrder& order) {
    Json items = Json::array();
    for (const StagerItem& item : order.items)
        items.push_back({{"name", item.name}, {"from", item.from}, {"verify", item.verify}});
    return line_of({{"scratch", order.scratch},
                    {"most_bytes", order.most_bytes},
                    {"bytes_per_second", order.bytes_per_second},
                    {"timeout_ms", order.timeout.count()},
                    {"items", items}});
}

StagerOrder parse_order(std::string_view line) {
    return parse(line, [](const Json& json) {
        StagerOrder order{.scratch = text(json, "scratch"),
                          .most_bytes = number(json, "most_bytes"),
                          .bytes_per_second = number(json, "bytes_per_second"),
                          .timeout = std::chrono::milliseconds(number(json, "timeout_ms")),
                          .items = {}};
        for (const Json& item : json.at("items"))
            order.items.push_back({text(item, "name"), text(item, "from"), text(item, "verify")});
        return order;
    });
}

std::string as_line(const StagerWord& word) {
    Json json = {{"done", word.done}, {"notes", word.notes}};
    for (const StagedData& data : word.staged)
        json["staged"].push_back({{"name", data.name},
                                  {"entry", data.entry},
                                  {"path", data.path},
                                  {"bytes", data.bytes},
                                  {"files", data.files},
                                  {"read_bytes", data.read_bytes},
                                  {"was_here", data.was_here},
                                  {"ms", data.took.count()}});
    for (const StagingProgress& progress : word.progress)
        json["progress"].push_back(
            {{"name", progress.name}, {"bytes", progress.bytes}, {"of", progress.of}});
    for (const StagingFailure& failure : word.failed)
        json["failed"].push_back(
            {{"code", failure.exit_code}, {"what", failure.what}, {"hint", failure.hint}});
    return line_of(json);
}

StagerWord parse_word(std::string_view line) {
    return parse(line, [](const Json& json) {
        StagerWord word;
        word.done = json.at("done").get<bool>();
        word.notes = json.at("notes").get<std::vector<std::string>>();
        for (const Json& data : json.value("staged", Json::array()))
            word.staged.push_back({.name = text(data, "name"),
                                   .entry = text(data, "entry"),
                                   .path = text(data, "path"),
                                   .bytes = number(data, "bytes"),
                                   .files = number(data, "files"),
                                   .read_bytes = number(data, "read_bytes"),
                                   .was_here = data.at("was_here").get<bool>(),
                                   .took = std::chrono::milliseconds(number(data, "ms"))});
        for (const Json& progress : json.value("progress", Json::array()))
            word.progress.push_back(
                {text(progress, "name"), number(progress, "bytes"), number(progress, "of")});
        for (const Json& failure : json.value("failed", Json::array()))
            word.failed.push_back({whole_number<int>(failure.at("code")), text(failure, "what"),
                                   text(failure, "hint")});
        return word;
    });
}

std::string key_words(const std::string& from, const std::string& verify) {
    return verify.empty() ? from : from + "\nverified by " + verify;
}

}  // namespace autolaunch::launcher
