#include "checkpoints/checkpoint_command.hpp"

#include "checkpoints/commands.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

std::string made_json(const char* command, nlohmann::ordered_json facts) {
    using Json = nlohmann::ordered_json;
    Json json = {{"format", 1}, {"command", command}};
    json.update(facts);
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

CheckpointOutcome run_checkpoint_command(const CheckpointRequest& request) {
    switch (request.action) {
        case CheckpointAction::list:
            return list_checkpoints(request);
        case CheckpointAction::show:
            return show_checkpoint(request);
        case CheckpointAction::verify:
            return verify_checkpoints(request);
        case CheckpointAction::diff:
            return diff_checkpoints(request);
        case CheckpointAction::export_tensors:
            return export_checkpoint(request);
        case CheckpointAction::reshard:
            return reshard_checkpoint(request);
        case CheckpointAction::prune:
            return prune_checkpoints(request);
        case CheckpointAction::convert:
            return convert_to_checkpoint(request);
        case CheckpointAction::new_key:
            return make_key(request);
    }
    return {};
}

}  // namespace autolaunch::launcher
