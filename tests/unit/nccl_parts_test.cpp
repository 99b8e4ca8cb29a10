// What backend nccl decides without a GPU. In builds without it there is nothing to test.
#include <doctest/doctest.h>

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "comm/nccl/nccl_calls.hpp"
#include "comm/nccl/nccl_ids.hpp"
#include "comm/nccl/scale_kernels.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace nccl_parts_test {

using namespace autolaunch;

TEST_CASE("one id for every 64 ranks, made by ranks apart") {
    CHECK(nccl_id_count(2, true) == 1);
    CHECK(nccl_id_count(64, true) == 1);
    CHECK(nccl_id_count(65, true) == 2);
    CHECK(nccl_id_count(16'384, true) == 256);
    CHECK(nccl_id_count(16'384, false) == 1);
    for (const int ranks : {1, 63, 65, 100, 1000, 16'384}) {
        const int ids = nccl_id_count(ranks, true);
        std::set<int> makers;
        for (int index = 0; index < ids; ++index)
            makers.insert(nccl_id_maker(index, ids, ranks));
        CHECK(makers.size() == static_cast<std::size_t>(ids));
        CHECK(*makers.begin() == 0);
        CHECK(*makers.rbegin() < ranks);
    }
}

TEST_CASE("factors are one element of the type") {
    const auto first = [](const ScalarBytes& scalar) { return static_cast<int>(scalar.bytes[0]); };
    CHECK(first(scalar_bytes(DataType::i8, -3)) == 0xfd);
    CHECK(first(scalar_bytes(DataType::u32, 7.9)) == 7);
    CHECK(*reinterpret_cast<const float*>(scalar_bytes(DataType::f32, 0.25).bytes) == 0.25f);
    CHECK(*reinterpret_cast<const double*>(scalar_bytes(DataType::f64, 0.1).bytes) == 0.1);
    CHECK(*reinterpret_cast<const std::uint16_t*>(scalar_bytes(DataType::bf16, 1.5).bytes) ==
          0x3fc0);
    CHECK(*reinterpret_cast<const std::uint16_t*>(scalar_bytes(DataType::f16, 1.5).bytes) ==
          0x3e00);
}

TEST_CASE("avg is NCCL's sum") {
    CHECK(nccl_op(ReduceOp::avg) == ncclSum);
    CHECK(nccl_op(ReduceOp::min) == ncclMin);
    CHECK(nccl_op(ReduceOp::max) == ncclMax);
    CHECK(nccl_op(ReduceOp::prod) == ncclProd);
}

TEST_CASE("there is a kernel for each type and operation") {
    const std::string text = scale_kernels_ptx();
    for (int type = 0; type < kDataTypes; ++type)
        for (const Scaling scaling : {Scaling::divide, Scaling::multiply})
            CHECK(text.find(".entry " + scale_kernel_name(scaling, static_cast<DataType>(type)) +
                            "(") != std::string::npos);
}

// The driver compiles the text on the user's machine; NVIDIA's assembler says here whether it
// would.
TEST_CASE("NVIDIA's assembler takes the kernels for old and new GPUs") {
    if (std::system("ptxas --version > /dev/null 2>&1") != 0) {
        MESSAGE("skipped: no ptxas here");
        return;
    }
    char folder[] = "/tmp/autolaunch-ptx-XXXXXX";
    REQUIRE(::mkdtemp(folder) != nullptr);
    const std::string path = std::string(folder) + "/scale.ptx";
    write_file(path, scale_kernels_ptx());
    for (const char* target : {"sm_80", "sm_90", "sm_100"}) {
        CAPTURE(target);
        CHECK(std::system(
                  ("ptxas -Werror -arch=" + std::string(target) + " -o " + path + ".o " + path)
                      .c_str()) == 0);
    }
    std::filesystem::remove_all(folder);
}

}  // namespace nccl_parts_test
