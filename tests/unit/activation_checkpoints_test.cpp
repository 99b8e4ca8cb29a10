#include <autolaunch/fsdp/activation_checkpoints.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace activation_checkpoints_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

// A net whose layer i makes 3 x + i of x. Its backward needs x, which it takes from its slot.
struct Net {
    Net(int layers, int every)
        : kept(layers, every), slots(static_cast<std::size_t>(kept.slot_count())) {}

    long forward(int layer, long x) {
        calls += std::to_string(layer) + " ";
        slots[static_cast<std::size_t>(kept.slot(layer))] = {layer, x};
        return 3 * x + layer;
    }
    long run(long x) {
        for (int i = 0; i < kept.layers(); ++i) {
            kept.enter(i) = x;
            x = forward(i, kept.input(i));
        }
        calls += "| ";
        return x;
    }
    // The inputs that backward saw, the last layer's first.
    std::vector<long> backward() {
        std::vector<long> seen;
        for (int i = kept.layers(); i-- > 0;) {
            kept.restore(i, [&](int layer) {
                const long y = forward(layer, kept.input(layer));
                if (!kept.ends_segment(layer))
                    kept.input(layer + 1) = y;
            });
            const auto& slot = slots[static_cast<std::size_t>(kept.slot(i))];
            CHECK(slot.layer == i);
            CHECK(kept.input(i) == slot.input);
            seen.push_back(slot.input);
        }
        return seen;
    }

    struct Slot {
        int layer = -1;
        long input = 0;
    };
    ActivationCheckpoints<long> kept;
    std::vector<Slot> slots;
    std::string calls;
};

}  // namespace

TEST_CASE("backward sees every layer's input, however few activations are kept") {
    for (int layers = 1; layers < 9; ++layers) {
        Net all(layers, 0);
        const long output = all.run(5);
        const auto seen = all.backward();
        for (int every = 1; every <= layers; ++every) {
            CAPTURE(layers);
            CAPTURE(every);
            Net net(layers, every);
            CHECK(net.kept.slot_count() == every);
            CHECK(net.kept.input_count() == (layers + every - 1) / every + every - 1);
            for (int step = 0; step < 2; ++step) {
                CHECK(net.run(5) == output);
                CHECK(net.backward() == seen);
            }
        }
    }
}

TEST_CASE("each layer is computed twice at most, those of the last segment once") {
    Net net(5, 2);
    net.run(1);
    net.backward();
    CHECK(net.calls == "0 1 2 3 4 | 2 3 0 1 ");
    Net each(3, 1);
    each.run(1);
    each.backward();
    CHECK(each.calls == "0 1 2 | 1 0 ");
    Net none(3, 0);
    none.run(1);
    none.backward();
    CHECK(none.calls == "0 1 2 | ");
}

TEST_CASE("segments that no model has are refused") {
    CHECK_THROWS_AS(ActivationCheckpoints<int>(0, 1), Error);
    CHECK_THROWS_AS(ActivationCheckpoints<int>(4, 5), Error);
    CHECK_THROWS_AS(ActivationCheckpoints<int>(4, -1), Error);
}

}  // namespace activation_checkpoints_test
