#pragma once
#include "checkpoint/checkpoint_engine.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/comm/communicator.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

/// Where training goes on from that has no checkpoint of its own yet: another job's, which is only
/// read (CheckpointOptions::restore_from). Owner: the Checkpointer. Threads: one. Blocks: in
/// collectives and in storage.
class StartPlace {
public:
    /// Collective. `options.restore_from` names it.
    StartPlace(const CheckpointOptions& options, const Communicator& world,
               CheckpointEvents events);

    /// Throws Error{system} where it has none, or not the one that is named. Collective.
    CheckpointInfo find();
    /// Of what find() gave. Collective, as the Checkpointer's own.
    std::vector<std::string> load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                  const LoadOptions& options) {
        return engine_.load(checkpoint, state, options);
    }
    std::vector<std::string> load_opaque(const CheckpointInfo& checkpoint,
                                         const std::string& name) {
        return engine_.load_opaque(checkpoint, name);
    }
    bool has(const CheckpointInfo& checkpoint) const {
        return found_ && found_->path == checkpoint.path && found_->step == checkpoint.step;
    }

private:
    std::string named_;
    std::optional<std::int64_t> step_;  ///< where one checkpoint is named, not a place
    std::optional<CheckpointInfo> found_;
    CheckpointEngine engine_;
};

/// A place, and the step where one checkpoint in it is named: "/a/step-00000400" is 400 in "/a".
/// Pure.
struct NamedStart {
    std::string place;
    std::optional<std::int64_t> step = {};
};
NamedStart named_start(const std::string& restore_from);

}  // namespace autolaunch
