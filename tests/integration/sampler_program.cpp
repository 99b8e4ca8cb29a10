// What `autolaunch --internal-sampler` is, and nothing else: the program whose process is killed,
// stopped and crashed by node_sampler_test.cpp.
#include "sampler/sampler.hpp"

int main() { autolaunch::launcher::run_sampler(); }
