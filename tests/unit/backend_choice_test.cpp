#include "comm/backend_choice.hpp"
#include "comm/gpu_place.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>

namespace backend_choice_test {

using namespace autolaunch;

namespace {

RankInfo place(LaunchedBy launched_by, int world_size, int local_world_size, int node_count) {
    RankInfo info;
    info.launched_by = launched_by;
    info.world_size = world_size;
    info.local_world_size = local_world_size;
    info.node_count = node_count;
    return info;
}

const RankInfo kAlone = place(LaunchedBy::nobody, 1, 1, 1);
const RankInfo kOneNode = place(LaunchedBy::autolaunch, 8, 8, 1);
const RankInfo kTwoNodes = place(LaunchedBy::autolaunch, 16, 8, 2);
const RankInfo kMpiTwoNodes = place(LaunchedBy::mpi, 16, 8, 2);

RankInfo served(RankInfo info) {
    info.serves_mpi = true;
    return info;
}

Error refusal(std::string_view wanted, const RankInfo& info, bool mpi_built_in) {
    try {
        choose_backend(wanted, info, mpi_built_in);
    } catch (const Error& error) {
        return error;
    }
    throw std::runtime_error("nothing was refused");
}

}  // namespace

TEST_CASE("auto takes self for one rank, shm on one node, shm+mpi on several") {
    CHECK(choose_backend("auto", kAlone, true) == BackendChoice::self);
    CHECK(choose_backend("auto", place(LaunchedBy::mpi, 1, 1, 1), true) == BackendChoice::self);
    CHECK(choose_backend("auto", kOneNode, true) == BackendChoice::shm);
    CHECK(choose_backend("auto", served(kOneNode), true) == BackendChoice::shm);
    CHECK(choose_backend("auto", place(LaunchedBy::mpi, 4, 4, 1), true) == BackendChoice::shm);
    CHECK(choose_backend("auto", place(LaunchedBy::mpi, 4, 4, 1), false) == BackendChoice::shm);
    CHECK(choose_backend("auto", kMpiTwoNodes, true) == BackendChoice::shm_mpi);
    CHECK(choose_backend("auto", served(kTwoNodes), true) == BackendChoice::shm_mpi);
}

TEST_CASE("MPI that nobody serves is refused before it makes N jobs of one rank") {
    const Error error = refusal("mpi", kTwoNodes, true);
    CHECK(error.code() == ErrorCode::unsupported);
    CHECK(error.hint().find("trainer.mpi") != std::string::npos);
}

TEST_CASE("several nodes without MPI are refused, with what to do") {
    const Error with_mpi = refusal("auto", kTwoNodes, true);
    CHECK(with_mpi.code() == ErrorCode::unsupported);
    CHECK(with_mpi.hint().find("mpi") != std::string::npos);
    const Error without_mpi = refusal("auto", kMpiTwoNodes, false);
    CHECK(without_mpi.code() == ErrorCode::unsupported);
    CHECK(without_mpi.hint().find("AUTOLAUNCH_WITH_MPI") != std::string::npos);
}

TEST_CASE("a named backend must be able to serve the ranks") {
    CHECK(choose_backend("mpi", served(kTwoNodes), true) == BackendChoice::mpi);
    CHECK(choose_backend("mpi", served(kOneNode), true) == BackendChoice::mpi);
    CHECK(choose_backend("shm+mpi", served(kTwoNodes), true) == BackendChoice::shm_mpi);
    CHECK(choose_backend("shm+mpi", served(kOneNode), true) == BackendChoice::shm);
    CHECK(choose_backend("shm", kAlone, true) == BackendChoice::shm);
    CHECK(refusal("self", kOneNode, true).code() == ErrorCode::unsupported);
    CHECK(refusal("shm", kTwoNodes, true).code() == ErrorCode::unsupported);
    CHECK(refusal("mpi", kOneNode, false).code() == ErrorCode::unsupported);
    CHECK(refusal("shm+mpi", kMpiTwoNodes, false).code() == ErrorCode::unsupported);
}

TEST_CASE("an unknown backend is refused with the valid names and the one that was meant") {
    const Error error = refusal("smh", kOneNode, true);
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(error.hint().find("auto, cpu, self, shm, mpi, shm+mpi, nccl") != std::string::npos);
    CHECK(std::string(error.what()).find("did you mean shm?") != std::string::npos);
}

TEST_CASE("auto takes nccl where it is built in and every rank has a GPU, and cpu never does") {
    const NcclFacts both{.built_in = true, .has_own_gpu = true};
    CHECK(choose_backend("auto", kOneNode, true, both) == BackendChoice::nccl);
    CHECK(choose_backend("auto", kAlone, true, both) == BackendChoice::nccl);
    CHECK(choose_backend("auto", kTwoNodes, false, both) == BackendChoice::nccl);
    CHECK(choose_backend("auto", kOneNode, true, {.built_in = true, .has_own_gpu = false}) ==
          BackendChoice::shm);
    CHECK(choose_backend("auto", kOneNode, true, {.built_in = false, .has_own_gpu = true}) ==
          BackendChoice::shm);
    CHECK(choose_backend("cpu", kOneNode, true, both) == BackendChoice::shm);
    CHECK(choose_backend("cpu", kAlone, true, both) == BackendChoice::self);
}

TEST_CASE("nccl by name needs no more than that it is built in") {
    CHECK(choose_backend("nccl", kOneNode, true, {.built_in = true, .has_own_gpu = false}) ==
          BackendChoice::nccl);
    const Error error = refusal("nccl", kOneNode, true);
    CHECK(error.code() == ErrorCode::unsupported);
    CHECK(error.hint().find("AUTOLAUNCH_WITH_NCCL") != std::string::npos);
}

TEST_CASE("a rank's GPU is told from the environment") {
    const auto rank_of_8 = [](int local_rank) {
        RankInfo info = kOneNode;
        info.local_rank = local_rank;
        return info;
    };
    SUBCASE("no mask: LOCAL_RANK counts the installed GPUs") {
        CHECK(place_on_gpu(nullptr, 8, rank_of_8(5)).index == 5);
        CHECK(place_on_gpu(nullptr, 8, rank_of_8(5)).is_own);
        CHECK_FALSE(place_on_gpu(nullptr, 4, rank_of_8(5)).is_own);
        CHECK(place_on_gpu(nullptr, 4, rank_of_8(5)).index == 1);
    }
    SUBCASE("a mask of one is the rank's own") {
        CHECK(place_on_gpu("7", 8, rank_of_8(5)).index == 0);
        CHECK(place_on_gpu("MIG-c0ffee", 1, rank_of_8(5)).is_own);
        CHECK(place_on_gpu("GPU-c0ffee", 1, rank_of_8(5)).index == 0);
    }
    SUBCASE("a mask of several is counted, as far as CUDA reads it") {
        CHECK(place_on_gpu("0,1,2,3,4,5,6,7", 8, rank_of_8(7)).index == 7);
        CHECK_FALSE(place_on_gpu("0,1,-1,3", 8, rank_of_8(3)).is_own);
        CHECK(place_on_gpu("0,1,-1,3", 8, rank_of_8(3)).index == 1);
    }
    SUBCASE("none: not its own, but by name LOCAL_RANK is tried") {
        for (const char* none : {"", "-1", "NoDevFiles"}) {
            CHECK_FALSE(place_on_gpu(none, 8, rank_of_8(2)).is_own);
            CHECK(place_on_gpu(none, 8, rank_of_8(2)).index == 2);
        }
        CHECK_FALSE(place_on_gpu(nullptr, 0, rank_of_8(2)).is_own);
    }
}

}  // namespace backend_choice_test
