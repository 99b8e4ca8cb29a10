#include "plan/hidden_values.hpp"
#include "plan/launch_plan.hpp"
#include "plan/store_exposure.hpp"
#include "topology/path_class.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {
namespace {

// docs/plan-json.md describes this form; raise the number when a field changes its meaning or goes
// away.
constexpr int kFormatVersion = 1;

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json choices_json(const std::vector<VariableChoice>& choices) {
    Json list = Json::array();
    for (const VariableChoice& choice : choices) {
        list.push_back({{"name", choice.name}, {"value", choice.value}, {"reason", choice.reason}});
        if (!choice.source.empty())
            list.back()["source"] = choice.source;
    }
    return list;
}

Json excluded_json(const std::vector<VariableChoice>& hcas) {
    Json list = Json::array();
    for (const VariableChoice& hca : hcas)
        list.push_back({{"name", hca.name}, {"reason", hca.reason}});
    return list;
}

Json imports_json(const PreloadChoice& preload) {
    Json list = Json::array();
    for (const PreloadedImport& import : preload.imports)
        list.push_back(import.statement);
    return list;
}

Json gpu_json(const RankPlan& rank) {
    if (!rank.gpu)
        return nullptr;
    return {{"ordinal", or_null(rank.binding.gpu)},
            {"bdf", rank.gpu->bdf},
            {"uuid", rank.gpu->uuid},
            {"model", rank.gpu->model},
            {"vendor", rank.gpu->vendor},
            {"partition_of", rank.gpu->partition_of},
            {"numa_node", or_null(rank.gpu->numa_node)},
            {"numa_source", rank.gpu->numa_source}};
}

Json hca_json(const RankPlan& rank) {
    if (!rank.hca)
        return nullptr;
    return {{"name", rank.hca->name},
            {"bdf", rank.hca->bdf},
            {"path", path_class_name(rank.hca->path)},
            {"reason", rank.hca->reason}};
}

Json rank_json(const RankPlan& rank) {
    return {{"rank", rank.rank},
            {"local_rank", rank.local_rank},
            {"argv", rank.argv},
            {"wrap", rank.wrap},
            {"gpu", gpu_json(rank)},
            {"hca", hca_json(rank)},
            {"cpus", rank.binding.cpus},
            {"memory_nodes", rank.binding.memory_nodes},
            {"physical_cores", rank.binding.physical_cores},
            {"reason", rank.binding.reason},
            {"environment", choices_json(rank.environment)}};
}

Json memory_json(const std::optional<MemoryForecast>& memory) {
    if (!memory)
        return nullptr;
    const auto& [options, model, plan, assumptions, limit, warning] = *memory;
    return {{"strategy", fsdp::name_of(options.strategy)},
            {"ranks", options.ranks},
            {"shard_group", options.shard_group},
            {"bytes_each",
             {{"param", size_of(options.precision.param)},
              {"reduce", size_of(options.precision.reduce)},
              {"accumulate", size_of(options.precision.accumulate)},
              {"master", size_of(options.precision.master)},
              {"optimizer", fsdp::state_bytes_per_parameter(options.optimizer)}}},
            {"parameters", plan.parameters},
            {"masters", plan.masters},
            {"gradients", plan.gradients},
            {"optimizer", plan.optimizer},
            {"gather_slots", plan.gather_slots},
            {"reduce_slots", plan.reduce_slots},
            {"gradient_trees", plan.gradient_trees},
            {"gradient_exchange", plan.gradient_exchange},
            {"on_host", plan.on_host},
            {"padding", plan.padding},
            {"total", plan.total()},
            {"limit",
             limit.bytes == 0 ? Json(nullptr) : Json{{"bytes", limit.bytes}, {"of", limit.of}}},
            {"assumptions", assumptions}};
}

}  // namespace

std::string plan_json(const LaunchPlan& given, Secrets secrets) {
    const LaunchPlan plan = secrets == Secrets::show ? given : without_secrets(given);
    Json ranks = Json::array();
    for (const RankPlan& rank : plan.ranks)
        ranks.push_back(rank_json(rank));
    const StoreExposure store = store_exposure(plan);
    Json whole = {
        {"format", kFormatVersion},
        {"job_name", plan.job_name},
        {"run_id", plan.run_id},
        {"run_dir", plan.run_dir},
        {"workdir", plan.workdir},
        {"hostname", plan.hostname},
        {"saved_machine", plan.saved_machine},
        {"nodes",
         {{"count", plan.node_count}, {"names", plan.node_names}, {"rank", plan.node_rank}}},
        {"world_size", plan.world_size},
        {"binding", binding_mode_name(plan.binding_mode)},
        {"mpi", {{"mode", mpi_mode_name(plan.mpi.mode)}, {"reason", plan.mpi.reason}}},
        {"output",
         {{"stdio", plan.spec.logging.stdio},
          {"line_buffered", plan.output.by_lines},
          {"preload", plan.output.preload},
          {"reason", plan.output.reason}}},
        {"preload", {{"imports", imports_json(plan.preload)}, {"reason", plan.preload.reason}}},
        {"gpu_count", plan.gpu_count},
        {"numa_node_count", plan.numa_node_count},
        {"cpu_quota", or_null(plan.cpu_quota)},
        {"ranks", ranks},
        {"store", {{"listens", store.listens}, {"admits", store.admits}, {"open", store.open}}},
        {"nccl",
         {{"profile", plan.nccl.profile},
          {"set", choices_json(plan.nccl.set)},
          {"kept", choices_json(plan.nccl.kept)},
          {"left", choices_json(plan.nccl.left)},
          {"compute_hcas", plan.nccl.compute_hcas},
          {"excluded_hcas", excluded_json(plan.nccl.excluded_hcas)},
          {"warnings", plan.nccl.warnings}}},
        {"memory", memory_json(plan.memory)},
        {"notes", plan.notes},
        {"warnings", plan.warnings}};
    if (secrets == Secrets::mask)
        mask_texts(whole, plan.spec.secrets);
    // A name from outside need not be UTF-8; it is shown with replacement characters rather than
    // refused.
    return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace autolaunch::launcher
