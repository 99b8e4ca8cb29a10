# What tests that start MPI ranks share. Source it.

# The tests are about our use of MPI, not about fabrics: probing for them takes most of MPI_Init.
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Open MPI is not instrumented, keeps memory until exit, and unloads its plugins before, so that a leak of its own cannot
# be told by name. Leaks of ours show on the other backends, where this is not set; races in our code still show here.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
# TSan also sees Open MPI take its own locks in different orders.
export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}ignore_noninstrumented_modules=1:detect_deadlocks=0
