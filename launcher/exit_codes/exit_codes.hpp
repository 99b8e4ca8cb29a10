#pragma once

namespace autolaunch::launcher::exit_code {

// autolaunch's own exit codes, after sysexits.h; docs/exit-codes.md lists them. A job whose first
// failing rank exited with C exits with C; one whose first failing rank died of signal N, or that
// was stopped by signal N, with 128 + N.
inline constexpr int kSuccess = 0;
inline constexpr int kFindings =
    1;  // of `autolaunch lint`, `ckpt verify` and `ckpt diff`: they found something
inline constexpr int kWarnings = 1;  // doctor: warnings, where --fail-on warn asks for it
inline constexpr int kUsage = 64;    // the command line makes no sense
inline constexpr int kBadSpec = 65;  // train.yaml is wrong; every error was listed
inline constexpr int kBadData = 65;  // ckpt: a checkpoint or another file is not what it should be
inline constexpr int kNoInput = 66;  // a file that was named cannot be read
inline constexpr int kNoHost = 68;   // the nodes did not come together, or one was lost
inline constexpr int kUnavailable =
    69;  // something needed is not there or not supported by this build
inline constexpr int kInternal = 70;      // a bug of ours; please report it
inline constexpr int kSystem = 71;        // the system refused: no memory, no process slots, …
inline constexpr int kCannotCreate = 73;  // the run directory or a log file cannot be written
inline constexpr int kCannotResume =
    74;  // a rank cannot go on from its checkpoints, and a restart would find the same ones
inline constexpr int kOutputLost = 74;  // --no-prefix: bytes could not be written to stdout
inline constexpr int kRequeue =
    75;  // should be requeued: stopped, and able to go on from a checkpoint
inline constexpr int kUnservedMpi = 76;  // ranks use MPI, and each is a job of its own
inline constexpr int kNotPermitted =
    77;  // no key to prove that the nodes are of one job, or it was refused; or the roles of the
         // administrator's file forbid it
inline constexpr int kUnfit = 78;    // a node is not fit for a job: doctor, or rendezvous.preflight
inline constexpr int kBadSite = 78;  // the administrator's file cannot be relied on
inline constexpr int kHang =
    124;  // the job stood still for restart.hang_after, as timeout(1) has it
inline constexpr int kCannotExecute = 126;  // the program was found but cannot be executed
inline constexpr int kNotFound = 127;       // the program was not found
inline constexpr int kSignalBase = 128;

}  // namespace autolaunch::launcher::exit_code
