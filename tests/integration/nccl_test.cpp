// Backend nccl on CUDA streams and GPU memory, with a fake CUDA driver and a fake NCCL, of both
// kinds: 2.28.9 and 2.18.5. Every rank is a process. nccl_failure_test.cpp has what goes wrong.
#include "../conformance/expect.hpp"
#include "../conformance/forked_ranks.hpp"
#include "nccl_ranks.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace nccl_test {

using namespace autolaunch;
using namespace autolaunch::conformance;

namespace {

constexpr std::chrono::seconds kPlenty{60};

/// Runs `body` on `size` ranks with each fake, and sees that nothing is left behind.
void run_ranks(int size,
               const std::function<void(Communicator&, CudaDevice&, FakeGpuControl&)>& body) {
    for (const std::string library : {FAKE_GPU, FAKE_GPU_218}) {
        CAPTURE(library);
        const FolderStore store;
        const auto statuses = run_forked_ranks(size, [&](int rank) {
            FakeGpuControl& control = fake_control(library);
            {
                auto device = CudaDevice::open(library, rank);
                Communicator comm(NcclBackend::create(store.rendezvous(), "world", rank, size,
                                                      fake_options(library, rank, kPlenty)));
                body(comm, *device, control);
            }
            for (int i = 0; i < 1000 && control.contexts != 0; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            expect(control.wrong_uses == 0, "NCCL is used as it wants to be");
            expect(control.communicators == 0 && control.registrations == 0,
                   "nothing stays registered");
        });
        CHECK(statuses == std::vector<int>(static_cast<std::size_t>(size), 0));
    }
}

void run_ranks(int size, const std::function<void(Communicator&, CudaDevice&)>& body) {
    run_ranks(size,
              [&](Communicator& comm, CudaDevice& device, FakeGpuControl&) { body(comm, device); });
}

/// GPU memory of `count` elements, and the way in and out of it.
template <class T>
class GpuArray {
public:
    GpuArray(CudaDevice& device, std::size_t count) : device_(device), count_(count) {
        const CudaDevice::Current current(device);
        memory_ = device.allocate(count * sizeof(T));
    }
    T* data() const { return static_cast<T*>(memory_.get()); }
    // The fake's GPU memory is the CPU's.
    void fill(const std::function<T(std::size_t)>& value) {
        for (std::size_t i = 0; i < count_; ++i)
            data()[i] = value(i);
    }
    std::vector<T> values() const { return {data(), data() + count_}; }

private:
    CudaDevice& device_;
    std::size_t count_;
    std::shared_ptr<void> memory_;
};

class TestStream {
public:
    explicit TestStream(CudaDevice& device) : device_(device) {
        const CudaDevice::Current current(device);
        stream_ = device.make_stream();
    }
    operator Stream() const { return Stream::cuda(device_.index(), stream_.get()); }

private:
    CudaDevice& device_;
    CudaDevice::Stream stream_;
};

std::vector<std::size_t> ragged_counts(int size) {
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < size; ++rank)
        counts.push_back(rank == 1 ? 0 : static_cast<std::size_t>(rank) * 5 + 3);
    return counts;
}

std::size_t offset_of(const std::vector<std::size_t>& counts, int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

}  // namespace

TEST_CASE("collectives on a stream return before they are done, and end in order") {
    run_ranks(3, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        GpuArray<float> sum(device, 1000);
        sum.fill(
            [&](std::size_t i) { return static_cast<float>(i) + static_cast<float>(comm.rank()); });
        std::vector<Work> works;
        for (int i = 0; i < 5; ++i)
            works.push_back(
                comm.all_reduce(sum.data(), sum.data(), 1000, f32, ReduceOp::sum, stream));
        works.back().wait();
        for (Work& work : works)
            expect(work.is_completed(), "what came before is done, too");
        expect(sum.values()[7] == (3 * 7 + 3) * 81.0f, "five sums over three ranks");
    });
}

TEST_CASE("a call that waits for its peers says that it is not done") {
    run_ranks(2, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        GpuArray<float> data(device, 8);
        if (comm.rank() == 0) {
            Work work = comm.recv(data.data(), 8, f32, 1, stream);
            expect(!work.is_completed(), "nothing was sent");
            expect(!work.wait_for(std::chrono::milliseconds(50)), "nor is it in a while");
            comm.barrier();
            work.wait();
            expect(work.is_completed(), "now it is");
        } else {
            // The barrier of rank 0 waits for its recv, so this is sent before.
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            comm.send(data.data(), 8, f32, 0, stream).wait();
            comm.barrier();
        }
    });
}

TEST_CASE("calls go into a CUDA graph, and happen with its launches") {
    run_ranks(2, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        const auto handle = static_cast<CUstream>(static_cast<Stream>(stream).handle());
        GpuArray<float> sum(device, 100), all(device, 200);
        sum.fill([&](std::size_t) { return 1.0f + static_cast<float>(comm.rank()); });
        const CudaDevice::Current current(device);
        device.begin_capture(handle);
        comm.all_reduce(sum.data(), sum.data(), 100, f32, ReduceOp::avg, stream).wait();
        comm.all_gather(sum.data(), all.data(), 100, f32, stream).wait();
        const CudaDevice::Graph graph = device.end_capture(handle);
        expect(sum.values()[99] == 1.0f + static_cast<float>(comm.rank()),
               "nothing has happened yet");
        for (int i = 0; i < 3; ++i)
            device.launch(graph, handle);
        const CudaDevice::Event end = device.record(handle);
        while (!device.is_over(end))
            std::this_thread::yield();
        expect(sum.values()[99] == 1.5f && all.values()[199] == 1.5f, "the mean, and everybody's");
        comm.all_reduce(sum.data(), sum.data(), 100, f32, ReduceOp::sum, stream).wait();
        expect(sum.values()[0] == 3.0f, "calls after it are watched again");
    });
}

TEST_CASE("avg divides the sum, in every type") {
    run_ranks(3, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        const auto check = [&]<class T>(T low, T wanted) {
            GpuArray<T> data(device, 33), part(device, 11);
            // low, low + 1, low + 1 over the ranks
            data.fill([&](std::size_t) {
                return static_cast<T>(static_cast<double>(low) + (comm.rank() == 0 ? 0 : 1));
            });
            comm.reduce_scatter(data.data(), part.data(), 11, data_type_of<T>, ReduceOp::avg,
                                stream)
                .wait();
            expect(part.values().back() == wanted, "reduce_scatter's avg");
            comm.all_reduce(data.data(), data.data(), 33, data_type_of<T>, ReduceOp::avg, stream)
                .wait();
            expect(data.values().back() == wanted, "all_reduce's avg");
        };
        check(1.0f, 5.0f / 3);
        check(1.0, 5.0 / 3);
        check(std::int8_t{-3}, std::int8_t{-2});  // -7 / 3
        check(std::uint8_t{1}, std::uint8_t{1});  // 5 / 3
        check(std::int32_t{-3}, std::int32_t{-2});
        check(std::uint64_t{1}, std::uint64_t{1});
        GpuArray<bfloat16> rounded(device, 5);
        rounded.fill([&](std::size_t) { return bfloat16(comm.rank() == 0 ? 1.0f : 2.0f); });
        comm.all_reduce(rounded.data(), rounded.data(), 5, bf16, ReduceOp::avg, stream).wait();
        expect(rounded.values()[4].bits == bfloat16(5.0f / 3).bits, "bf16 is rounded once");
    });
}

TEST_CASE("pre_multiplied_sum brings every rank's own factor") {
    for (const int size : {1, 3}) {
        run_ranks(size, [](Communicator& comm, CudaDevice& device) {
            const TestStream stream(device);
            GpuArray<float> data(device, 10);
            data.fill([](std::size_t i) { return static_cast<float>(i); });
            const auto op = ReduceOp::pre_multiplied_sum(0.5 + comm.rank());
            comm.all_reduce(data.data(), data.data(), 10, f32, op, stream).wait();
            const float factors = comm.size() == 1 ? 0.5f : 4.5f;
            expect(data.values()[4] == 4 * factors, "the sum of factors times 4");
            GpuArray<std::int32_t> whole(device, 3);
            whole.fill([](std::size_t) { return 7; });
            comm.all_reduce(whole.data(), whole.data(), 3, i32, ReduceOp::pre_multiplied_sum(2),
                            stream)
                .wait();
            expect(whole.values()[2] == 14 * comm.size(), "factors of integers");
        });
    }
}

TEST_CASE("ragged collectives") {
    run_ranks(4, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        const auto counts = ragged_counts(comm.size());
        const std::size_t total = offset_of(counts, comm.size());
        const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
        const std::size_t at = offset_of(counts, comm.rank());
        const auto element = [](std::size_t index) {
            return static_cast<std::int32_t>(index * 7 + 1);
        };

        GpuArray<std::int32_t> all(device, total), part(device, own), mine(device, own);
        all.fill([](std::size_t) { return -1; });
        mine.fill([&](std::size_t i) { return element(at + i); });
        comm.all_gather_v(mine.data(), all.data(), counts, i32, stream).wait();
        for (std::size_t i = 0; i < total; ++i)
            expect(all.values()[i] == element(i), "all_gather_v");

        GpuArray<std::int32_t> in_place(device, total);
        in_place.fill([&](std::size_t i) { return i >= at && i < at + own ? element(i) : -1; });
        comm.all_gather_v(in_place.data() + at, in_place.data(), counts, i32, stream).wait();
        expect(in_place.values() == all.values(), "all_gather_v in place");

        comm.reduce_scatter_v(all.data(), part.data(), counts, i32, ReduceOp::sum, stream).wait();
        for (std::size_t i = 0; i < own; ++i)
            expect(part.values()[i] == 4 * element(at + i), "reduce_scatter_v");
        comm.reduce_scatter_v(all.data(), part.data(), counts, i32, ReduceOp::avg, stream).wait();
        for (std::size_t i = 0; i < own; ++i)
            expect(part.values()[i] == element(at + i), "its average");

        for (const int root : {0, 3}) {
            GpuArray<std::int32_t> gathered(device, total);
            gathered.fill([](std::size_t) { return -1; });
            comm.gather_v(mine.data(), gathered.data(), counts, i32, root, stream).wait();
            if (comm.rank() == root)
                expect(gathered.values() == all.values(), "gather_v");
            part.fill([](std::size_t) { return -1; });
            comm.scatter_v(gathered.data(), part.data(), counts, i32, root, stream).wait();
            expect(part.values() == mine.values(), "scatter_v");
        }
    });
}

TEST_CASE("gather, scatter, reduce and all_to_all, apart and in place") {
    run_ranks(3, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        const auto rank = static_cast<std::size_t>(comm.rank());
        GpuArray<std::int64_t> whole(device, 12), block(device, 4);
        block.fill([&](std::size_t i) { return static_cast<std::int64_t>(rank * 4 + i); });
        const auto is_whole = [&] {
            for (std::size_t i = 0; i < 12; ++i)
                if (whole.values()[i] != static_cast<std::int64_t>(i))
                    return false;
            return true;
        };
        comm.gather(block.data(), whole.data(), 4, i64, 1, stream).wait();
        if (comm.rank() == 1)
            expect(is_whole(), "gather");
        comm.scatter(whole.data(), comm.rank() == 1 ? whole.data() + 4 : block.data(), 4, i64, 1,
                     stream)
            .wait();
        if (comm.rank() == 1)
            expect(is_whole(), "scatter in place leaves the root's block");
        if (comm.rank() != 1)
            expect(block.values()[3] == static_cast<std::int64_t>(rank * 4 + 3), "scatter");
        comm.gather(comm.rank() == 1 ? whole.data() + 4 : block.data(), whole.data(), 4, i64, 1,
                    stream)
            .wait();
        if (comm.rank() == 1)
            expect(is_whole(), "gather in place at the root");

        whole.fill([&](std::size_t i) { return static_cast<std::int64_t>(i); });
        comm.reduce(whole.data(), comm.rank() == 2 ? whole.data() : nullptr, 12, i64, ReduceOp::avg,
                    2, stream)
            .wait();
        expect(is_whole(), "the average of equals, at the root and elsewhere");

        GpuArray<std::int64_t> swapped(device, 12);
        whole.fill([&](std::size_t i) { return static_cast<std::int64_t>(rank * 100 + i); });
        comm.all_to_all(whole.data(), swapped.data(), 4, i64, stream).wait();
        comm.all_to_all(whole.data(), whole.data(), 4, i64, stream).wait();
        for (std::size_t i = 0; i < 12; ++i)
            expect(swapped.values()[i] == static_cast<std::int64_t>(i / 4 * 100 + rank * 4 + i % 4),
                   "all_to_all");
        expect(whole.values() == swapped.values(), "all_to_all in place");

        // Rank a sends a + b elements to b.
        std::vector<std::size_t> counts;
        for (std::size_t peer = 0; peer < 3; ++peer)
            counts.push_back(rank + peer);
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        GpuArray<std::int64_t> out(device, total), in(device, total);
        out.fill([&](std::size_t) { return static_cast<std::int64_t>(rank); });
        comm.all_to_all_v(out.data(), counts, in.data(), counts, i64, stream).wait();
        std::size_t i = 0;
        for (std::size_t peer = 0; peer < 3; ++peer)
            for (std::size_t k = 0; k < counts[peer]; ++k, ++i)
                expect(in.values()[i] == static_cast<std::int64_t>(peer), "all_to_all_v");
    });
}

TEST_CASE("groups: messages side by side, then collectives in order") {
    run_ranks(3, [](Communicator& comm, CudaDevice& device) {
        const TestStream stream(device);
        const int next = (comm.rank() + 1) % 3;
        const int previous = (comm.rank() + 2) % 3;
        GpuArray<float> out(device, 50'000), in(device, 50'000), sum(device, 50'000);
        out.fill([&](std::size_t) { return static_cast<float>(comm.rank()); });
        comm.group_start();
        comm.all_reduce(in.data(), sum.data(), 50'000, f32, ReduceOp::sum,
                        stream);  // of what is received below
        comm.send(out.data(), 50'000, f32, next);
        comm.recv(in.data(), 50'000, f32, previous);
        comm.group_end().wait();
        expect(in.values().back() == static_cast<float>(previous), "a ring in a group");
        expect(sum.values().back() == 3, "the collective comes after the messages");

        GpuArray<float> a(device, 10), b(device, 10);
        a.fill([](std::size_t) { return 1.0f; });
        b.fill([](std::size_t) { return 2.0f; });
        comm.group_start();
        comm.all_reduce(a.data(), a.data(), 10, f32, ReduceOp::avg);
        comm.all_reduce(b.data(), b.data(), 10, f32, ReduceOp::max);
        comm.group_end(stream).wait();
        expect(a.values()[9] == 1 && b.values()[9] == 2, "two collectives");
        comm.group_start();
        comm.all_reduce(a.data(), b.data(), 10, f32, ReduceOp::sum, stream);
        comm.all_reduce(b.data(), b.data(), 10, f32, ReduceOp::sum);
        comm.group_end().wait();
        expect(b.values()[9] == 9, "the second takes the first's result");
    });
}

TEST_CASE("calls without a stream take host memory, GPU memory, or one of each") {
    run_ranks(2, [](Communicator& comm, CudaDevice& device) {
        expect(comm.all_reduce_value(1.5) == 3, "a value");
        expect(comm.any_rank(comm.rank() == 1), "a flag");
        GpuArray<float> there(device, 100);
        std::vector<float> here(100, 2);
        comm.all_reduce(here.data(), there.data(), 100, f32, ReduceOp::sum);
        expect(there.values()[99] == 4, "from host to GPU");
        comm.all_reduce(there.data(), here.data(), 100, f32, ReduceOp::max);
        expect(here[99] == 4, "from GPU to host");
        comm.group_start();
        std::vector<float> other(100);
        comm.send(here.data(), 100, f32, 1 - comm.rank());
        comm.recv(other.data(), 100, f32, 1 - comm.rank());
        comm.group_end();
        expect(other == here, "a group on host memory");
    });
}

TEST_CASE(
    "a group's messages from host memory take room on the GPU for one a peer, and large ones "
    "none") {
    run_ranks(3, [](Communicator& comm, CudaDevice&, FakeGpuControl& control) {
        const auto word = [](int from, int to, std::size_t message) {
            return static_cast<std::uint32_t>(from * 1000 + to * 100) +
                   static_cast<std::uint32_t>(message);
        };
        const auto exchange = [&](std::size_t messages, std::size_t count) {
            std::vector<std::vector<std::uint32_t>> sent, received;
            for (int peer = 0; peer < comm.size(); ++peer)
                for (std::size_t i = 0; i < messages; ++i) {
                    sent.emplace_back(count, word(comm.rank(), peer, i));
                    received.emplace_back(count);
                }
            std::uint32_t sum = 1;
            comm.group_start();
            for (int peer = 0; peer < comm.size(); ++peer) {
                if (peer == comm.rank())
                    continue;
                for (std::size_t i = 0; i < messages; ++i) {
                    const std::size_t at = static_cast<std::size_t>(peer) * messages + i;
                    comm.send(sent[at].data(), count, DataType::u32, peer);
                    comm.recv(received[at].data(), count, DataType::u32, peer);
                }
            }
            comm.all_reduce(&sum, &sum, 1, DataType::u32, ReduceOp::sum);
            comm.group_end();
            for (int peer = 0; peer < comm.size(); ++peer)
                for (std::size_t i = 0; i < messages && peer != comm.rank(); ++i) {
                    const auto& got = received[static_cast<std::size_t>(peer) * messages + i];
                    expect(got.front() == word(peer, comm.rank(), i) && got.back() == got.front(),
                           "in order");
                }
            expect(sum == 3, "then the collectives");
        };
        const int before = control.allocations;
        exchange(8, 100);
        expect(control.allocations - before <= 4, "one message to and from each");
        const int small = control.allocations;
        exchange(2, std::size_t{5} << 20);
        expect(control.allocations <= small, "nothing large is kept");
    });
}

TEST_CASE("buffers are registered, and go before or after the communicator") {
    const std::string library = FAKE_GPU;
    for (const char* which : {FAKE_GPU, FAKE_GPU_218}) {
        const FolderStore store;
        const bool registers = std::string(which) == library;
        const auto statuses = run_forked_ranks(2, [&](int rank) {
            FakeGpuControl& control = fake_control(which);
            {
                CommunicatorBuffer later;
                {
                    Communicator comm(NcclBackend::create(store.rendezvous(), "world", rank, 2,
                                                          fake_options(which, rank, kPlenty)));
                    const CommunicatorBuffer soon = comm.allocate(10'000);
                    later = comm.allocate(5);
                    expect(reinterpret_cast<std::uintptr_t>(soon.data()) % 4096 == 0,
                           "page-aligned");
                    expect(soon.bytes() == 10'000, "of the size that was asked for");
                    expect(control.registrations == (registers ? 2 : 0),
                           "registered where NCCL can");
                    comm.all_reduce(soon.as<float>());
                }
                expect(control.registrations == (registers ? 1 : 0), "one is left");
            }
            expect(control.registrations == 0, "none is left");
            expect(control.allocations == 0, "and no memory");
            expect(control.wrong_uses == 0, "all in good order");
        });
        CHECK(statuses == std::vector<int>(2, 0));
    }
}

TEST_CASE("a part of one rank has no communicator of NCCL's") {
    const FolderStore store;
    const auto statuses = run_forked_ranks(3, [&](int rank) {
        FakeGpuControl& control = fake_control(FAKE_GPU);
        Communicator comm(NcclBackend::create(store.rendezvous(), "world", rank, 3,
                                              fake_options(FAKE_GPU, rank, kPlenty)));
        auto alone = comm.split(rank, 0);
        expect(control.communicators == 1, "three parts of one rank cost none");
        expect(alone->size() == 1 && alone->all_reduce_value(5) == 5, "and work");
        auto pair = comm.split(rank == 2 ? 1 : 0, -rank);
        expect(control.communicators == (rank == 2 ? 1 : 2), "a pair costs its ranks one");
        expect(pair->all_reduce_value(1) == (rank == 2 ? 1 : 2), "and works");
        expect(rank == 2 || pair->rank() == 1 - rank, "ordered by key");
        expect(!comm.split(-1, 0), "nobody in any part");
        expect(control.wrong_uses == 0, "NCCL is used as it wants to be");
    });
    CHECK(statuses == std::vector<int>(3, 0));
}

TEST_CASE("an initialisation that takes its time") {
    const FolderStore store;
    const auto statuses = run_forked_ranks(2, [&](int rank) {
        FakeGpuControl& control = fake_control(FAKE_GPU);
        control.init_delay_ms = 300;
        control.busy_polls = 50;
        Communicator comm(NcclBackend::create(store.rendezvous(), "world", rank, 2,
                                              fake_options(FAKE_GPU, rank, kPlenty)));
        expect(comm.all_reduce_value(1) == 2, "works in the end");
        expect(control.initialised_with_ids == 1, "from one id");
    });
    CHECK(statuses == std::vector<int>(2, 0));
}

}  // namespace nccl_test
