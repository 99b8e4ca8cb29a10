#include "checkpoint/start_place.hpp"

#include "base/text.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/s3/routed_storage.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch {

namespace {

constexpr std::string_view kBucket = "s3://", kStep = "step-";

// A bucket is looked into as a second place is, beside the job's own, which has nothing.
CheckpointOptions options_of(CheckpointOptions options) {
    const std::string place = named_start(options.restore_from).place;
    options.drain = {};
    options.tiers.clear();
    options.node_local = false;
    if (place.starts_with(kBucket))
        options.drain.place = place;
    else
        options.directory = place;
    return options;
}

}  // namespace

NamedStart named_start(const std::string& restore_from) {
    std::string whole = restore_from;
    while (whole.size() > 1 && whole.ends_with('/'))
        whole.pop_back();
    const std::size_t slash = whole.rfind('/');
    const std::string name = slash == whole.npos ? whole : whole.substr(slash + 1);
    long long step = 0;
    if (!name.starts_with(kStep) || !parse_integer(name.substr(kStep.size()), step) || step < 0)
        return {whole, {}};
    if (slash == whole.npos)
        return {".", step};
    return {slash == 0 ? "/" : whole.substr(0, slash), step};
}

StartPlace::StartPlace(const CheckpointOptions& options, const Communicator& world,
                       CheckpointEvents events)
    : named_(options.restore_from),
      step_(named_start(options.restore_from).step),
      engine_(make_routed_storage(), world, options_of(options), std::move(events)) {}

CheckpointInfo StartPlace::find() {
    found_ = engine_.latest(step_ ? *step_ + 1 : INT64_MAX);
    if (!found_ || (step_ && found_->step != *step_))
        throw Error(ErrorCode::system,
                    "restore_from: there is no complete checkpoint " +
                        (step_ ? "of step " + std::to_string(*step_) : std::string("in it")) +
                        ": " + named_,
                    "autolaunch ckpt ls " + named_start(named_).place + " lists what is there");
    return *found_;
}

}  // namespace autolaunch
