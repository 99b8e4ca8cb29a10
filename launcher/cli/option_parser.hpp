#pragma once
#include "cli/argument_splitter.hpp"
#include "cli/option_declaration.hpp"
#include "cli/options.hpp"

#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The options of one subcommand, which CLI11 reads. Lives while one list of arguments is parsed.
class OptionParser {
public:
    explicit OptionParser(Command command);
    OptionParser(const OptionParser&) = delete;  // the declarations refer to the members
    OptionParser& operator=(const OptionParser&) = delete;

    const OptionShapes& shapes() const { return shapes_; }
    /// Options as split_arguments() writes them; throws UsageError.
    void parse(const std::vector<std::string>& options, CommandLine& into);
    bool help_wanted() const { return help_; }
    bool version_wanted() const { return version_; }
    std::string help() const;
    const JobOptions& job_options() const { return job_; }
    const std::string& completion_wanted() const { return shell_; }

private:
    void declare_all();
    OptionShapes shapes_of_all() const;
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
    void add_gc_options();
    void add_stage_out_options();
    void add_stage_in_options();
    void add_call_options();
    void add_policy_options();
    void add_render_options();
    void add_audit_options();
    void add_login_options();
    void add_submit_options();
    void add_sweep_options();
    OptionDeclaration& declare(const char* names, bool takes_value, const char* description,
                               OptionDeclaration::Tell tell) {
        return declared_.emplace_back(names, takes_value, description, std::move(tell));
    }
    template <class T>
    OptionDeclaration& option(const char* names, T& value, const char* description) {
        return declare(names, true, description,
                       [&value](CLI::App& app, const OptionDeclaration& declared) {
                           return app.add_option(declared.names(), value, declared.description());
                       });
    }
    OptionDeclaration& flag(const char* names, bool& value, const char* description) {
        return declare(names, false, description,
                       [&value](CLI::App& app, const OptionDeclaration& declared) {
                           return app.add_flag(declared.names(), value, declared.description());
                       });
    }
    OptionDeclaration& flag(const char* names, std::optional<bool>& value, const char* description);

    std::vector<OptionDeclaration> declared_;
    OptionShapes shapes_;
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
    PolicyRequest policy_;
    RenderRequest render_;
    AuditRequest audit_;
    AccountsRequest accounts_;
    oidc::LoginRequest login_;
    SubmitOptions submit_;
    std::string only_;        ///< of checkpoints
    std::string recipients_;  ///< of checkpoints
    std::string html_file_, job_id_, secret_file_;
    GcOptions gc_;
    StageOutOptions stage_out_;
    StageInOptions stage_in_;
    bool dry_run_ = false, drain_ = false, take_back_ = false, once_ = false, replay_ = false;
};

}  // namespace autolaunch::launcher
