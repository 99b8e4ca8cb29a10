#pragma once
#include "cli/argument_splitter.hpp"
#include "cli/options.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The options of one subcommand, as CLI11 knows them. Lives while one list of arguments is parsed.
class OptionParser {
public:
    explicit OptionParser(Command command);

    OptionShapes shapes() const;
    /// Options as split_arguments() writes them; throws UsageError.
    void parse(const std::vector<std::string>& options, CommandLine& into);
    bool help_wanted() const { return help_; }
    bool version_wanted() const { return version_; }
    std::string help() const { return app_.help(); }
    const JobOptions& job_options() const { return job_; }
    const std::string& completion_wanted() const { return shell_; }

private:
    void add_lint_options();
    void add_job_options();
    void add_debug_options();
    void add_output_options();
    void add_rendezvous_options();
    void add_foreign_options();
    void add_idle_options();
    void add_doctor_options();
    void add_checkpoint_options();
    void add_key_options();
    void add_report_options();
    void add_clean_options();
    CLI::Option* text(const std::string& names, std::optional<std::string>& value,
                      const std::string& description);
    CLI::Option* flag(const std::string& names, std::optional<bool>& value,
                      const std::string& description);

    CLI::App app_;
    JobOptions job_;
    std::string config_;
    std::string idle_value_;  ///< of options without effect
    bool idle_flag_ = false;
    std::string shell_;  ///< of --print-completion
    bool help_ = false;
    bool version_ = false;
    bool json_ = false;
    bool show_secrets_ = false;
    bool svg_ = false;
    std::string topology_;
    Command command_;
    bool markdown_ = false;
    bool rules_ = false;
    std::string kind_;
    std::string slurm_conf_;
    DoctorOptions doctor_;
    CheckpointRequest checkpoints_;
    std::string only_;        ///< of checkpoints
    std::string recipients_;  ///< of checkpoints
    std::string html_file_, job_id_;
    bool dry_run_ = false, drain_ = false;
};

}  // namespace autolaunch::launcher
