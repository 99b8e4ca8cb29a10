// What must compile without a warning, narrowing and conversions included.
#include <autolaunch/autolaunch.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

enum { kRows = 3 };

std::size_t use(al::Session& session, al::Communicator& world, std::size_t rows, unsigned columns,
                std::int32_t layers, const std::vector<std::int64_t>& shape) {
    fsdp::ShardedModel model(world, {.find_dangling = true});
    fsdp::Unit& unit = model.add_unit("h.0", {{"w", {rows, columns}},
                                              {"b", {3 * columns}},
                                              {"s", {kRows, layers}},
                                              {"t", shape},
                                              {.name = "u", .shape = {rows}, .trainable = false},
                                              {"scalar"}});
    model.finalize();
    const fsdp::ParameterSpec& spec = unit.parameters()[0];
    const std::vector<std::int64_t>& extents = spec.shape;
    fsdp::StateTensor tensor;
    tensor.shape = {rows, columns};
    const auto params = unit.unshard();
    float* w = params["w"].data();
    const auto* halves = params["b"].data<const al::bfloat16>();
    unit.grad("w").data()[0] += w[0] + static_cast<float>(halves[0]);
    const al::CommunicatorBuffer buffer = world.allocate(rows);
    const std::string hint = al::Error(al::ErrorCode::system, "what", "hint").hint();
    session.report_step({.step = 1, .loss = 0.5});  // what is not known is left out
    const al::StoreOptions store{.port = 1};
    if (session.stop_requested() || store.port == 0)
        return 0;
    return extents.size() + buffer.as<float>().size() + tensor.shape.size() + hint.size();
}

// Everything of a trainer in one struct that is there before its parts are.
struct Trainer {
    std::optional<al::Session> session;
    std::optional<al::Communicator> world;
    std::optional<fsdp::ShardedModel> model;
    std::optional<fsdp::AdamW> optimizer;
    std::optional<al::Checkpointer> checkpoint;
};

void start(Trainer& trainer) {
    trainer.session = al::Session::from_environment();
    trainer.world = al::Communicator::world(*trainer.session);
    trainer.model = fsdp::ShardedModel(*trainer.world);
    trainer.optimizer = fsdp::AdamW(*trainer.model);
    trainer.checkpoint = al::Checkpointer(*trainer.session, *trainer.world, {.directory = "saved"});
}
