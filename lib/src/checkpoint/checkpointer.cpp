#include <autolaunch/checkpoint/checkpointer.hpp>

#include "checkpoint/engine.hpp"

#include <autolaunch/session.hpp>

namespace autolaunch {

class Checkpointer::Impl {
public:
    Impl(Session& session, Communicator world, const CheckpointOptions& options)
        : engine(make_posix_storage(), std::move(world), options,
                 {[&session](std::int64_t step, const std::filesystem::path& path, double stall_seconds) {
                      session.report_checkpoint(step, path, stall_seconds);
                  },
                  [&session](const std::string& text) { session.report_message(text); }},
                 {session.info().run_id, session.info().generation}) {}

    CheckpointEngine engine;
};

Checkpointer::Checkpointer(Session& session, Communicator world, const CheckpointOptions& options)
    : impl_(std::make_unique<Impl>(session, std::move(world), options)) {}

Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;
Checkpointer::~Checkpointer() = default;

CheckpointInfo Checkpointer::save(std::int64_t step, const fsdp::State& state, const SaveOptions& options) {
    return impl_->engine.save(step, state, options);
}

void Checkpointer::save_async(std::int64_t step, const fsdp::State& state, const SaveOptions& options) {
    impl_->engine.save_async(step, state, options);
}

void Checkpointer::prepare_async(const fsdp::State& state) { impl_->engine.prepare_async(state); }
void Checkpointer::wait_copied() { impl_->engine.wait_copied(); }
std::optional<CheckpointInfo> Checkpointer::finish() { return impl_->engine.finish(); }
std::optional<SaveProgress> Checkpointer::progress() const { return impl_->engine.progress(); }

std::optional<CheckpointInfo> Checkpointer::latest(std::int64_t before) { return impl_->engine.latest(before); }

std::vector<std::string> Checkpointer::load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                            const LoadOptions& options) {
    return impl_->engine.load(checkpoint, state, options);
}

std::optional<CheckpointInfo> Checkpointer::load_latest(const fsdp::State& state, const LoadOptions& options) {
    return impl_->engine.load_latest(state, options);
}

std::vector<std::string> Checkpointer::load_opaque(const CheckpointInfo& checkpoint, const std::string& name) {
    return impl_->engine.load_opaque(checkpoint, name);
}

}  // namespace autolaunch
