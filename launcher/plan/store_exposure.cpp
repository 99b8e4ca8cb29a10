#include "plan/store_exposure.hpp"

namespace autolaunch::launcher {

StoreExposure store_exposure(const LaunchPlan& plan) {
    const std::string shared =
        "processes of this user on the job's nodes that are not of the job: PyTorch's clients "
        "prove nothing, so only keys of autolaunch have a token";
    if (plan.node_count < 2)
        return {"127.0.0.1 of this machine", "processes of this user, as the kernel tells",
                "processes of this user on this machine that are not of the job: PyTorch's clients "
                "prove nothing, so only keys of autolaunch have a token"};
    if (plan.spec.rendezvous.store == "node")
        return {"127.0.0.1 of each node; between nodes TLS with the job's key",
                "processes of this user, as each node's kernel tells", shared};
    return {"the head's address that the nodes reach; 127.0.0.1 of the others",
            "processes of this user on the job's nodes, for which their agents vouch",
            shared +
                "; what ranks of other nodes say to the head's store goes in the clear "
                "(rendezvous.store: node sends it by TLS)"};
}

std::string sent_in_the_clear(int node_count, const RendezvousSpec& rendezvous) {
    if (node_count < 2)
        return {};
    const bool store = rendezvous.store != "node";
    return std::string("what NCCL, gloo and MPI send") +
           (store ? ", and c10d's store (rendezvous.store: node sends that by TLS)" : "") +
           ": neither encrypted nor authenticated. Give the job a network of its own (autolaunch "
           "policy render nftables), or put WireGuard, IPsec or MACsec below it";
}

}  // namespace autolaunch::launcher
