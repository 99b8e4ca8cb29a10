# mpi_rank_openmpi and mpi_rank_mpich: tests/integration/mpi_rank.c, compiled with each MPI whose compiler wrapper is there
# (and, for Open MPI, where autolaunch-pmixd is built). The wrappers know what their MPI needs. AUTOLAUNCH_TEST_MPIS lists
# which there are; the programs are built by the targets mpi_rank_<mpi>_built.
find_program(AUTOLAUNCH_MPICC_OPENMPI NAMES mpicc.openmpi)
find_program(AUTOLAUNCH_MPICC_MPICH NAMES mpicc.mpich)
mark_as_advanced(AUTOLAUNCH_MPICC_OPENMPI AUTOLAUNCH_MPICC_MPICH)

function(autolaunch_mpi_program mpi wrapper)
  set(program "${CMAKE_CURRENT_BINARY_DIR}/mpi_rank_${mpi}")
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/integration/mpi_rank.c")
  add_custom_command(OUTPUT "${program}" COMMAND "${wrapper}" -O1 -rdynamic -o "${program}" "${source}" DEPENDS "${source}" VERBATIM)
  add_custom_target(mpi_rank_${mpi}_built ALL DEPENDS "${program}")
endfunction()

set(AUTOLAUNCH_TEST_MPIS "")
if(AUTOLAUNCH_MPICC_OPENMPI AND TARGET autolaunch-pmixd)
  autolaunch_mpi_program(openmpi "${AUTOLAUNCH_MPICC_OPENMPI}")
  add_dependencies(mpi_rank_openmpi_built autolaunch-pmixd)
  list(APPEND AUTOLAUNCH_TEST_MPIS openmpi)
endif()
if(AUTOLAUNCH_MPICC_MPICH)
  autolaunch_mpi_program(mpich "${AUTOLAUNCH_MPICC_MPICH}")
  list(APPEND AUTOLAUNCH_TEST_MPIS mpich)
endif()
