#include "spec/spec_error.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

std::string errors_json(const std::string& spec_file, const std::vector<SpecError>& errors) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const SpecError& error : errors)
        list.push_back({{"file", error.file},
                        {"line", error.line},
                        {"column", error.column},
                        {"key", error.key},
                        {"message", error.message}});
    const Json json = {
        {"format", 1}, {"file", spec_file}, {"valid", errors.empty()}, {"errors", list}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
