// Commands over all places of a spec.
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/s3/routed_storage.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "exit_codes/exit_error.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

// A directory that no job has made yet; a bucket is asked.
bool is_there(const std::string& place) {
    std::error_code error;
    return s3::is_s3_url(place) || std::filesystem::exists(place, error) || error;
}

// The nearest of those that have the newest.
std::string place_of_newest(const CheckpointRequest& request) {
    const auto storage = make_routed_storage();
    const AuthenticationKeys keys = AuthenticationKeys::find(encryption_of(request));
    std::string place = request.paths.front();
    std::int64_t newest = -1;
    for (const std::string& one : request.paths)
        if (const auto found = find_newest(*storage, one, INT64_MAX, keys);
            found && found->step > newest) {
            newest = found->step;
            place = one;
        }
    return place;
}

CheckpointOutcome list_each(const CheckpointRequest& request) {
    CheckpointOutcome all;
    Json json = Json::array();
    for (const std::string& place : request.paths) {
        CheckpointRequest one = request;
        one.paths = {place};
        const CheckpointOutcome outcome = run_checkpoint_command(one);
        if (request.json)
            json.push_back(Json::parse(outcome.text));  // our own text
        else
            all.text += (all.text.empty() ? "" : "\n") + place + '\n' + outcome.text;
    }
    if (request.json)
        all.text = json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
    return all;
}

}  // namespace

CheckpointOutcome run_on_places(CheckpointRequest request) {
    std::vector<std::string> there, absent;
    for (std::string& place : request.paths)
        (is_there(place) ? there : absent).push_back(std::move(place));
    if (there.empty())
        throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                        absent.empty() ? "the spec names no place of checkpoints"
                                       : absent.front() +
                                             " is not there, nor another place of the "
                                             "spec that has checkpoints",
                        "name a directory, or set checkpoint.checkpoint_dir");
    request.paths = std::move(there);
    CheckpointOutcome outcome;
    if (request.action == CheckpointAction::list) {
        outcome = list_each(request);
    } else {
        if (request.action == CheckpointAction::show)
            request.paths = {place_of_newest(request)};
        outcome = run_checkpoint_command(request);
    }
    for (const std::string& place : absent)
        outcome.passed_over.push_back(place + ": it is not there");
    return outcome;
}

}  // namespace autolaunch::launcher
