#include "plan/hidden_values.hpp"
#include "plan/launch_plan.hpp"
#include "plan/rank_secrets.hpp"
#include "plan/store_exposure.hpp"
#include "secrets/json_text.hpp"
#include "site/site_text.hpp"
#include "topology/path_class.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {
namespace {

// docs/plan-json.md describes this form; raise the number when a field changes its meaning or goes
// away.
constexpr int kFormatVersion = 1;

using Json = nlohmann::ordered_json;

void put_choices(JsonText& json, const std::vector<VariableChoice>& choices) {
    json.array(choices, [&](const VariableChoice& choice) {
        json.object([&] {
            json.member("name", choice.name);
            json.member("value", choice.value);
            json.member("reason", choice.reason);
            if (!choice.source.empty())
                json.member("source", choice.source);
        });
    });
}

void put_excluded(JsonText& json, const std::vector<VariableChoice>& hcas) {
    json.array(hcas, [&](const VariableChoice& hca) {
        json.object([&] {
            json.member("name", hca.name);
            json.member("reason", hca.reason);
        });
    });
}

void put_gpu(JsonText& json, const RankPlan& rank) {
    if (!rank.gpu)
        return json.put(nullptr);
    json.object([&] {
        json.member("ordinal", rank.binding.gpu);
        json.member("bdf", rank.gpu->bdf);
        json.member("uuid", rank.gpu->uuid);
        json.member("model", rank.gpu->model);
        json.member("vendor", rank.gpu->vendor);
        json.member("partition_of", rank.gpu->partition_of);
        json.member("numa_node", rank.gpu->numa_node);
        json.member("numa_source", rank.gpu->numa_source);
    });
}

void put_hca(JsonText& json, const RankPlan& rank) {
    if (!rank.hca)
        return json.put(nullptr);
    json.object([&] {
        json.member("name", rank.hca->name);
        json.member("bdf", rank.hca->bdf);
        json.member("path", path_class_name(rank.hca->path));
        json.member("reason", rank.hca->reason);
        json.member("further", rank.hca->further);
    });
}

void put_rank(JsonText& json, const RankPlan& rank) {
    json.object([&] {
        json.member("rank", rank.rank);
        json.member("local_rank", rank.local_rank);
        json.member("argv", rank.argv);
        json.member("wrap", rank.wrap);
        json.member("gpu", [&] { put_gpu(json, rank); });
        json.member("hca", [&] { put_hca(json, rank); });
        json.member("cpus", rank.binding.cpus);
        json.member("memory_nodes", rank.binding.memory_nodes);
        json.member("physical_cores", rank.binding.physical_cores);
        json.member("reason", rank.binding.reason);
        json.member("environment", [&] { put_choices(json, rank.environment); });
        json.member("secrets", rank.secrets);
    });
}

void put_given_secrets(JsonText& json, const std::vector<SecretSpec>& secrets) {
    json.array(secrets, [&](const SecretSpec& secret) {
        json.object([&] {
            json.member("name", secret.name);
            json.member("as", secret.as == SecretSpec::As::file ? "file" : "environment");
            json.member("from", describe_source(secret));
            json.member("for", describe_receivers(secret));
        });
    });
}

void put_staging(JsonText& json, const StagingChoice& staging) {
    json.object([&] {
        json.member("scratch", staging.scratch);
        json.member("reason", staging.reason);
        if (!staging.shared.folder.empty())
            json.object("shared_cache", [&] {
                json.member("folder", staging.shared.folder);
                json.member("owner", staging.shared.owner);
                json.member("fills", staging.shared.fills);
            });
        json.member("items", [&] {
            json.array(staging.items, [&](const StagedItem& item) {
                json.object([&] {
                    json.member("name", item.name);
                    json.member("variable", item.variable);
                    json.member("from", item.shown);
                    json.member("verify", item.verify);
                    json.member("unpack", item.unpack);
                    json.member("start", item.streams ? "streaming" : "all");
                    json.member("found", item.found);
                });
            });
        });
        json.member("out_seconds", std::chrono::duration<double>(staging.out_time).count());
        json.member("out", [&] {
            json.array(staging.out, [&](const OutItem& item) {
                json.object([&] {
                    json.member("name", item.name);
                    json.member("variable", item.variable);
                    json.member("to", item.to);
                    json.member("when", item.on_success ? "success" : "always");
                    json.member("layout", item.by_node ? "node" : "flat");
                    json.member("overwrite", item.may_overwrite);
                    json.member("found", item.found);
                });
            });
        });
    });
}

void put_nccl(JsonText& json, const NcclEnvironment& nccl) {
    json.object([&] {
        json.member("profile", nccl.profile);
        json.member("set", [&] { put_choices(json, nccl.set); });
        json.member("kept", [&] { put_choices(json, nccl.kept); });
        json.member("left", [&] { put_choices(json, nccl.left); });
        json.member("at_start", [&] { put_choices(json, nccl.at_start); });
        json.member("compute_hcas", nccl.compute_hcas);
        json.member("excluded_hcas", [&] { put_excluded(json, nccl.excluded_hcas); });
        json.member("warnings", nccl.warnings);
    });
}

void put_container(JsonText& json, const ContainerChoice& container) {
    if (container.runtime.empty())
        return json.put(nullptr);
    json.object([&] {
        json.member("runtime", container.runtime);
        json.member("program", container.program);
        json.member("image", container.image);
        json.member("file_digest", container.file_digest);
        json.member("workdir", container.workdir);
        json.member("reason", container.reason);
        json.member("binds", [&] {
            json.array(container.binds, [&](const ContainerBind& bind) {
                json.object([&] {
                    json.member("source", bind.source);
                    json.member("target", bind.target);
                    json.member("writable", bind.writable);
                    json.member("reason", bind.reason);
                });
            });
        });
        json.member("options", container.options);
    });
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

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
            {"mostly", fsdp::what_dominates(plan, options.strategy)},
            {"limit",
             limit.bytes == 0 ? Json(nullptr) : Json{{"bytes", limit.bytes}, {"of", limit.of}}},
            {"assumptions", assumptions}};
}

}  // namespace

std::string plan_json(const LaunchPlan& given, Secrets secrets) {
    const LaunchPlan plan = secrets == Secrets::show ? given : without_secrets(given);
    const StoreExposure store = store_exposure(plan);
    JsonText json(secrets, plan.spec.secrets);
    json.object([&] {
        json.member("format", kFormatVersion);
        json.member("job_name", plan.job_name);
        json.member("run_id", plan.run_id);
        json.member("run_dir", plan.run_dir);
        json.member("workdir", plan.workdir);
        json.member("hostname", plan.hostname);
        json.member("saved_machine", plan.saved_machine);
        json.object("nodes", [&] {
            json.member("count", plan.node_count);
            json.member("names", plan.node_names);
            json.member("spares", plan.spare_nodes);
            json.member("rank", plan.node_rank);
        });
        json.member("world_size", plan.world_size);
        json.member("binding", binding_mode_name(plan.binding_mode));
        json.object("mpi", [&] {
            json.member("mode", mpi_mode_name(plan.mpi.mode));
            json.member("reason", plan.mpi.reason);
        });
        json.object("output", [&] {
            json.member("stdio", plan.spec.logging.stdio);
            json.member("line_buffered", plan.output.by_lines);
            json.member("preload", plan.output.preload);
            json.member("reason", plan.output.reason);
        });
        json.object("preload", [&] {
            json.member("imports", [&] {
                json.array(plan.preload.imports,
                           [&](const PreloadedImport& import) { json.put(import.statement); });
            });
            json.member("reason", plan.preload.reason);
        });
        json.member("container", [&] { put_container(json, plan.container); });
        json.member("gpu_count", plan.gpu_count);
        json.member("unused_gpus", [&] {
            json.array(plan.unused_gpus, [&](const Gpu& gpu) { json.put(gpu.bdf); });
        });
        json.member("numa_node_count", plan.numa_node_count);
        json.member("cpu_quota", [&] { json.put_tree(or_null(plan.cpu_quota)); });
        json.member("ranks", [&] {
            json.array(plan.ranks, [&](const RankPlan& rank) { put_rank(json, rank); });
        });
        json.member("secrets", [&] { put_given_secrets(json, plan.spec.given_secrets); });
        if (!plan.staging.scratch.empty())
            json.member("staging", [&] { put_staging(json, plan.staging); });
        json.object("store", [&] {
            json.member("listens", store.listens);
            json.member("admits", store.admits);
            json.member("open", store.open);
        });
        json.member("in_the_clear", sent_in_the_clear(plan.node_count, plan.spec.rendezvous));
        json.member("nccl", [&] { put_nccl(json, plan.nccl); });
        json.member("memory", [&] { json.put_tree(memory_json(plan.memory)); });
        json.member("site", [&] { put_site(json, plan.spec.site.get()); });
        json.member("notes", plan.notes);
        json.member("warnings", plan.warnings);
    });
    return json.text() + "\n";
}

}  // namespace autolaunch::launcher
