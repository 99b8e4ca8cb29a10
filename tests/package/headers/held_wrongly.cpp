// What must not compile. Each line that ends in "// refused" has an error, each that ends in
// "// warned" a warning, and no other line has either: public_headers.sh compares.
#include <autolaunch/autolaunch.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

al::Session session();
al::Communicator world();
fsdp::ShardedModel model();
fsdp::AdamW optimizer();
al::Manifest manifest();

void parameters_of_a_scope_that_is_over(fsdp::Unit& unit) {
    float* values = unit.unshard()["w"].data();                    // refused
    float* same = unit.unshard()["w"].as<float>().data();          // refused
    const fsdp::TensorView view = unit.unshard()["w"];             // refused
    for (const float value : unit.unshard()["w"].as<float>())      // refused
        *values += value + *same + static_cast<float>(view.count);
    unit.unshard();                                                // warned
}

void parts_of_what_is_gone(al::Communicator& comm, fsdp::ShardedModel& own) {
    float* buffer = comm.allocate(64).as<float>().data();          // refused
    void* bytes = comm.allocate(64).data();                        // refused
    const auto label = world().label();                            // refused
    const auto backend = world().backend();                        // refused
    const auto& info = session().info();                           // refused
    const auto& folder = session().run_dir();                      // refused
    al::Store& store = session().store();                          // refused
    fsdp::Unit& unit = model().unit("h.0");                        // refused
    fsdp::Unit& added = model().add_unit("h.0", {{"w", {4}}});     // refused
    const auto units = model().units();                            // refused
    al::Communicator& of_model = model().world();                  // refused
    const auto& options = model().options();                       // refused
    const fsdp::State state = model().state();                     // refused
    const fsdp::State to_save = model().state_to_save();           // refused
    const auto scope = model().evaluation();                       // refused
    const fsdp::State moments = optimizer().state();               // refused
    const fsdp::State kept = optimizer().state_to_save();          // refused
    const auto* tensor = manifest().find("w");                     // refused
    const std::vector<fsdp::ParameterSpec> specs = {{"w", {4}}};
    for (const auto& place : fsdp::ShardLayout(specs, 1).placements())  // refused
        (void)place;
    const auto& place = fsdp::ShardLayout(specs, 1).placement("w");     // refused
    const al::Stream stream = al::CpuQueue().stream();             // refused
    own.evaluation();                                              // warned
}

void answers_that_nobody_reads(al::Session& own, al::Communicator& comm, al::Checkpointer& saves,
                               fsdp::ShardedModel& of_own, fsdp::AdamW& steps) {
    al::Session::from_environment();                               // warned
    al::Communicator::world(own);                                  // warned
    own.checkpoint_requested();                                    // warned
    comm.allocate(64);                                             // warned
    comm.split(0, 0);                                              // warned
    saves.should_save(1);                                          // warned
    saves.latest();                                                // warned
    saves.load_latest(of_own, steps);                              // warned
}

void types_that_are_others(const fsdp::TensorView& view) {
    const fsdp::ParameterSpec fraction = {"w", {2.5}};             // refused
    (void)view, (void)fraction;
}
