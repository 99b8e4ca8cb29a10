// The library has no interface for C: it throws, and hands out scopes. This one is a trainer's own,
// made of what that trainer calls (docs/guides/long-runs.md).
#include "sharding.h"

#include <autolaunch/autolaunch.hpp>

#include <exception>
#include <map>
#include <optional>
#include <string>

namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

// [wrap]
struct sharding {
    al::Session session = al::Session::from_environment();
    al::Communicator world = al::Communicator::world(session, {.backend = "cpu"});
    fsdp::ShardedModel model{world};
    std::optional<fsdp::AdamW> optimizer;
    std::map<std::string, fsdp::UnshardedParameters> used;  // the scopes that C has not
};

static thread_local std::string last_error;

// Nothing may be thrown through C: what() and hint() are kept for sharding_error().
template <class Answer, class Call>
static Answer answer(Answer failed, Call call) noexcept {
    try {
        return call();
    } catch (const al::Error& error) {
        last_error = std::string(error.what()) + "; " + error.hint();
    } catch (const std::exception& error) {
        last_error = error.what();
    }
    return failed;
}

float* sharding_use(sharding* all, const char* unit) {
    return answer<float*>(nullptr, [&] {
        auto& params = all->used.try_emplace(unit, all->model.unit(unit).unshard()).first->second;
        return params["w"].data();
    });
}
int sharding_release(sharding* all, const char* unit) {
    return all->used.erase(unit) == 1 ? 0 : -1;
}
// [/wrap]

const char* sharding_error(void) { return last_error.c_str(); }

sharding* sharding_begin(void) {
    return answer<sharding*>(nullptr, [] { return new sharding; });
}
void sharding_end(sharding* all) { delete all; }
int sharding_rank(const sharding* all) { return all->world.rank(); }
int sharding_ranks(const sharding* all) { return all->world.size(); }

int sharding_add(sharding* all, const char* unit, size_t rows, size_t columns) {
    return answer(-1, [&] {
        all->model.add_unit(unit, {{"w", {rows, columns}}});
        return 0;
    });
}
int sharding_ready(sharding* all) {
    return answer(-1, [&] {
        all->model.finalize();
        all->optimizer.emplace(all->model, fsdp::AdamWOptions{.weight_decay = 0});
        return 0;
    });
}
float* sharding_gradient(sharding* all, const char* unit) {
    return answer<float*>(nullptr, [&] { return all->model.unit(unit).grad("w").data(); });
}
int sharding_reduce(sharding* all, const char* unit) {
    return answer(-1, [&] {
        all->model.unit(unit).reduce_grads();
        return 0;
    });
}
int sharding_step(sharding* all, double learning_rate) {
    return answer(-1, [&] {
        all->optimizer.value().step({.lr = learning_rate});
        return 0;
    });
}
int sharding_mean(sharding* all, double* value) {
    return answer(-1, [&] {
        *value = all->world.all_reduce_value(*value) / all->world.size();
        return 0;
    });
}
