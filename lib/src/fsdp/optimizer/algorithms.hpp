#pragma once
#include "fsdp/optimizer/algorithm.hpp"

#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/sgd.hpp>

#include <cstdint>
#include <memory>

namespace autolaunch::fsdp {

AUTOLAUNCH_API std::unique_ptr<Algorithm> adamw_algorithm();
AUTOLAUNCH_API std::unique_ptr<Algorithm> sgd_algorithm(const SGDOptions& options);
AUTOLAUNCH_API std::unique_ptr<Algorithm> lion_algorithm();

AUTOLAUNCH_API AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps,
                                          double weight_decay, std::int64_t step,
                                          double gradient_scale);

}  // namespace autolaunch::fsdp
