#pragma once
// The rank environment: every variable name that the launcher sets and the library reads. This is
// the contract between the two halves; docs/rank-environment.md says what each means.

namespace autolaunch::env {

// torchrun's names, with torchrun's meanings.
inline constexpr char kRank[] = "RANK";
inline constexpr char kLocalRank[] = "LOCAL_RANK";
inline constexpr char kWorldSize[] = "WORLD_SIZE";
inline constexpr char kLocalWorldSize[] = "LOCAL_WORLD_SIZE";
inline constexpr char kGroupRank[] = "GROUP_RANK";
inline constexpr char kGroupWorldSize[] = "GROUP_WORLD_SIZE";
inline constexpr char kNodeRank[] = "NODE_RANK";  // not torchrun's: composer reads it
inline constexpr char kRoleRank[] = "ROLE_RANK";
inline constexpr char kRoleName[] = "ROLE_NAME";
inline constexpr char kRoleWorldSize[] = "ROLE_WORLD_SIZE";
inline constexpr char kMasterAddr[] = "MASTER_ADDR";
inline constexpr char kMasterPort[] = "MASTER_PORT";
inline constexpr char kRestartCount[] = "TORCHELASTIC_RESTART_COUNT";
inline constexpr char kMaxRestarts[] = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr char kRunId[] = "TORCHELASTIC_RUN_ID";
inline constexpr char kUseAgentStore[] = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr char kErrorFile[] = "TORCHELASTIC_ERROR_FILE";
inline constexpr char kSignalsToHandle[] = "TORCHELASTIC_SIGNALS_TO_HANDLE";

inline constexpr char kOmpNumThreads[] = "OMP_NUM_THREADS";
inline constexpr char kCudaDeviceOrder[] = "CUDA_DEVICE_ORDER";
inline constexpr char kCudaVisibleDevices[] = "CUDA_VISIBLE_DEVICES";

// Ours.
inline constexpr char kSocket[] = "AUTOLAUNCH_SOCKET";          // path of the agent's Unix socket
inline constexpr char kGeneration[] = "AUTOLAUNCH_GENERATION";  // attempt number, from 0
inline constexpr char kStore[] = "AUTOLAUNCH_STORE";  // host:port of this node's way to the store
inline constexpr char kStoreToken[] =
    "AUTOLAUNCH_STORE_TOKEN";  // what keys of ours begin with: who has it is of the job
inline constexpr char kRunDir[] = "AUTOLAUNCH_RUN_DIR";  // absolute path of the run directory
inline constexpr char kSpecDigest[] =
    "AUTOLAUNCH_SPEC_DIGEST";  // 16 digits: of all that the job's spec was read from
inline constexpr char kSigningKey[] =
    "AUTOLAUNCH_SIGNING_KEY";  // a file: the key that signs checkpoints (checkpoint.signing_key)
inline constexpr char kWorkspace[] =
    "AUTOLAUNCH_WORKSPACE";  // how checkpoints are made: mode=0750,group=2001 (base/workspace.hpp)
inline constexpr char kStdout[] =
    "AUTOLAUNCH_STDOUT";  // DEVICE:INODE of the rank's log, for autolaunch-lines.so
inline constexpr char kTrainerConfig[] =
    "AUTOLAUNCH_TRAINER_CONFIG";                  // path of the JSON file with the free-form part
inline constexpr char kMpi[] = "AUTOLAUNCH_MPI";  // "pmix" or "pmi1": MPI is served; else unset
inline constexpr char kTrueLocalRank[] =
    "AUTOLAUNCH_LOCAL_RANK";  // where --virtual-local-rank makes LOCAL_RANK 0
inline constexpr char kWithin[] =
    "AUTOLAUNCH_WITHIN";  // which launchers started the agent (nesting.hpp)
inline constexpr char kNcclBlocking[] =
    "AUTOLAUNCH_NCCL_BLOCKING";  // "1": backend nccl makes blocking communicators

inline constexpr char kStreams[] = "AUTOLAUNCH_STREAMS";  // a folder: what of the ranks' data still
                                                          // comes (base/stream_listing.hpp)

inline constexpr char kSpare[] =
    "AUTOLAUNCH_SPARE";  // a descriptor: this process waits there until it becomes a rank

inline constexpr char kDebugRank[] =
    "AUTOLAUNCH_DEBUG_RANK";  // the rank that is debugged, for whom the others wait for hours

// The rest of the spec's section `checkpoint`, for the library (checkpoint_settings.hpp).
inline constexpr char kCheckpoint[] = "AUTOLAUNCH_CHECKPOINT";  // JSON

// How checkpoints are encrypted where the trainer's code does not say it (docs/encryption.md).
inline constexpr char kCheckpointRecipients[] =
    "AUTOLAUNCH_CHECKPOINT_RECIPIENTS";  // public keys of age, with commas
inline constexpr char kCheckpointIdentityFile[] =
    "AUTOLAUNCH_CHECKPOINT_IDENTITY_FILE";  // path of the secret key that opens them
inline constexpr char kCheckpointMacFile[] =
    "AUTOLAUNCH_CHECKPOINT_AUTHENTICATION_FILE";  // path of the secret that proves who wrote them
inline constexpr char kCheckpointEncryption[] =
    "AUTOLAUNCH_CHECKPOINT_ENCRYPTION";                    // kEncryptionRequired, or unset
inline constexpr char kEncryptionRequired[] = "required";  // none is written without recipients

// The launcher's own; no rank gets them.
inline constexpr char kJobKey[] =
    "AUTOLAUNCH_JOB_KEY";  // the secret that proves who belongs to the job
inline constexpr char kMungeSocket[] =
    "AUTOLAUNCH_MUNGE_SOCKET";  // of munged, where it is not at its usual place

}  // namespace autolaunch::env
