#pragma once
#include "math.hpp"
#include "parameters.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <string>

namespace gpt {

/// Multiplications and additions that training takes for a token, 6 N + 12 L H Q T (Chowdhery et
/// al., "PaLM", 2022, appendix B): N parameters that are multiplied with (the blocks' and the
/// head's weights; a lookup in a table is none), L layers, H heads of width Q, T tokens of context.
/// Attention counts in full though half of it is masked, and what is computed twice counts once, so
/// that figures compare with others'.
double flops_per_token(const ModelConfig& config);

/// What the device could do, and how that is known.
struct Peak {
    double per_second = 0;  ///< multiplications and additions, of products of T
    std::string source;     ///< "data sheet" or "measured"
};
/// The data sheet's; where there is none, that of the Math's own product of matrices, the best of
/// several sizes, which takes some 50 ms.
template <class T>
Peak peak_flops(Math<T>& math);
/// The sum over the ranks: the data sheets' where all have one, or what they multiply all at once,
/// for they may share CPUs; the best of some windows, 150 ms in all. Collective.
template <class T>
Peak peak_flops(Math<T>& math, autolaunch::Communicator& world);

}  // namespace gpt
