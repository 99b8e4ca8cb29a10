#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/kernels.hpp"
#include "fsdp/unit_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace adamw_test {

using namespace autolaunch::fsdp;

namespace {

struct GoldenCase {
    std::string name;
    double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, max_grad_norm = 0;
    std::vector<float> parameter, expected_parameter, expected_exp_avg, expected_exp_avg_sq;
    std::vector<std::vector<float>> gradients;
};

double number(std::istream& in) {
    std::string word;
    in >> word;
    return std::strtod(word.c_str(), nullptr);
}

std::vector<float> numbers(std::istream& in, std::size_t count, const std::string& label) {
    std::string found;
    in >> found;
    REQUIRE(found == label);
    std::vector<float> values(count);
    for (float& value : values)
        value = static_cast<float>(number(in));
    return values;
}

std::vector<GoldenCase> read_golden() {
    std::ifstream in(AUTOLAUNCH_SOURCE_DIR "/tests/data/adamw_golden.txt");
    REQUIRE(in.good());
    std::vector<GoldenCase> cases;
    for (std::string word; in >> word;) {
        REQUIRE(word == "case");
        GoldenCase golden;
        in >> golden.name;
        for (double* field : {&golden.lr, &golden.beta1, &golden.beta2, &golden.eps,
                              &golden.weight_decay, &golden.max_grad_norm})
            *field = number(in);
        std::size_t steps = 0, count = 0;
        in >> steps >> count;
        golden.parameter = numbers(in, count, "p");
        for (std::size_t i = 0; i < steps; ++i)
            golden.gradients.push_back(numbers(in, count, "g"));
        golden.expected_parameter = numbers(in, count, "p");
        golden.expected_exp_avg = numbers(in, count, "m");
        golden.expected_exp_avg_sq = numbers(in, count, "v");
        cases.push_back(std::move(golden));
    }
    return cases;
}

// Within rounding: a few units in the last place, and of the summands where they nearly cancel.
void check_near(const std::vector<float>& got, const std::vector<float>& expected,
                float cancelled) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(std::abs(got[i] - expected[i]) <= 4e-7f * std::abs(expected[i]) + cancelled);
}

double norm_of(const std::vector<float>& gradient) {
    double sum = 0;
    for (const float value : gradient)
        sum += static_cast<double>(value) * value;
    return std::sqrt(sum);
}

}  // namespace

TEST_CASE("the AdamW kernel does what torch.optim.AdamW does") {
    const auto cases = read_golden();
    CHECK(cases.size() == 4);
    for (const GoldenCase& golden : cases) {
        CAPTURE(golden.name);
        auto parameter = golden.parameter;
        std::vector<float> exp_avg(parameter.size()), exp_avg_sq(parameter.size());
        std::int64_t step = 0;
        for (const auto& gradient : golden.gradients) {
            double clip = 1;
            if (golden.max_grad_norm > 0)
                clip = std::min(1.0, golden.max_grad_norm / (norm_of(gradient) + 1e-6));
            const auto factors = adamw_factors(golden.lr, golden.beta1, golden.beta2, golden.eps,
                                               golden.weight_decay, ++step, clip);
            optimizer_kernels().adamw(factors, {gradient.data(), parameter.data(), exp_avg.data(),
                                                exp_avg_sq.data(), parameter.size()});
        }
        check_near(parameter, golden.expected_parameter, 2e-8f);
        check_near(exp_avg, golden.expected_exp_avg, 1e-8f);
        check_near(exp_avg_sq, golden.expected_exp_avg_sq, 0);
    }
}

TEST_CASE("the first step's order is recorded and every later step must repeat it") {
    UnitOrder order;
    const UnitEvent gather0{UnitAction::gather, 0}, reduce0{UnitAction::reduce, 0},
        step{UnitAction::step, 0};
    for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(order.observe(gather0));
        CHECK_FALSE(order.observe(reduce0));
        CHECK_FALSE(order.observe(step));
        CHECK(order.frozen());
    }
    CHECK(order.observe(reduce0) == gather0);
    CHECK_FALSE(order.observe(gather0));
    CHECK(order.observe(step) == reduce0);

    UnitOrder other;
    CHECK_FALSE(other.observe(gather0));
    CHECK_FALSE(other.observe(step));
    CHECK(other.hash() != order.hash());
}

}  // namespace adamw_test
