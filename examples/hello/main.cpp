// The smallest trainer: every rank says who it is and what the ranks add up to.
//
// In a project of its own, with autolaunch installed:
//     cmake_minimum_required(VERSION 3.25)
//     project(hello LANGUAGES CXX)
//     find_package(autolaunch REQUIRED)
//     add_executable(hello main.cpp)
//     target_link_libraries(hello PRIVATE autolaunch::comm)
#include <autolaunch/autolaunch.hpp>
#include <cstdio>

int main() {
    auto session = autolaunch::Session::from_environment();
    auto world = autolaunch::Communicator::world(session);
    const int sum = world.all_reduce_value(session.rank());
    std::printf("rank %d of %d, local rank %d on node %d: the ranks add up to %d\n", session.rank(),
                world.size(), session.local_rank(), session.info().node_rank, sum);
}
