#include "supervise/slurm_inquiry.hpp"

#include "stopping/over_time_limit.hpp"
#include "stopping/slurm_job_record.hpp"

#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kSlurmAnswerTime = std::chrono::seconds(30);  // a busy slurmctld; nobody waits

}  // namespace

SlurmInquiry::SlurmInquiry(asio::io_context& io, std::string slurm_job_id, Callbacks callbacks)
    : job_(std::move(slurm_job_id)), callbacks_(std::move(callbacks)), wait_(io) {}

void SlurmInquiry::begin() {
    if (std::exchange(asked_, true) || job_.empty())
        return;
    ask(slurm_job_question(job_), &SlurmInquiry::take_job);
}

void SlurmInquiry::stop() {
    wait_.stop();
    question_.reset();
}

void SlurmInquiry::ask(std::vector<std::string> question,
                       void (SlurmInquiry::*then)(const std::string&)) {
    question_.emplace(std::move(question));
    wait_.begin(
        question_->fd(), [this] { return question_->advance(); }, kSlurmAnswerTime,
        [this, then](bool) {
            const std::string answer = question_->answer();
            question_.reset();
            (this->*then)(answer);
        });
}

void SlurmInquiry::take_job(const std::string& answer) {
    const auto record = parse_slurm_job(answer, job_);
    if (!record)
        return;
    if (const auto waited = time_in_queue(*record))
        callbacks_.waited(*waited);
    partition_ = record->partition;
    if (!partition_.empty())
        ask(partition_question(partition_), &SlurmInquiry::take_partition);
}

void SlurmInquiry::take_partition(const std::string& answer) {
    if (const auto over = partition_over_time(answer, partition_))
        return callbacks_.over_time(*over);
    ask(config_question(), &SlurmInquiry::take_config);
}

void SlurmInquiry::take_config(const std::string& answer) {
    if (const auto over = cluster_over_time(answer))
        callbacks_.over_time(*over);
}

}  // namespace autolaunch::launcher
