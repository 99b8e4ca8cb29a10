#pragma once

namespace autolaunch::bench {

/// Floating-point operations a second of one thread whose f32 multiply-adds never leave the
/// registers, in the widest vectors of this CPU: what no matrix product can exceed. The best of
/// several short runs, about 0.1 s together.
double fma_peak();

}  // namespace autolaunch::bench
