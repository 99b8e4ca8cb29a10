#pragma once
#include <optional>
#include <string>

namespace autolaunch::launcher {

// How many machines the value of a variable speaks of, in the forms that schedulers and operators
// give it. Nothing where it has another form. All are pure.

std::optional<long long> count_as_number(const std::string& value);
/// Different words of "node1 node1 node2": LSF's LSB_HOSTS.
std::optional<long long> count_words(const std::string& value);
/// Different hosts of "node1 8 node2 8": LSF's LSB_MCPU_HOSTS.
std::optional<long long> count_hosts_with_slots(const std::string& value);
/// Different first words of the lines of a host file.
std::optional<long long> count_lines(const std::string& text);
/// "10.0.0.4,10.0.0.5": the hosts of a TPU slice.
std::optional<long long> count_between_commas(const std::string& value);
/// "10.0.0.4;10.0.0.5": Azure Batch.
std::optional<long long> count_between_semicolons(const std::string& value);
/// ["algo-1","algo-2"], or an object whose "hosts" is that: SageMaker.
std::optional<long long> count_json_hosts(const std::string& value);
/// {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": …}: TensorFlow's TF_CONFIG and
/// Vertex AI's CLUSTER_SPEC. Evaluators do not train.
std::optional<long long> count_cluster_members(const std::string& value);

}  // namespace autolaunch::launcher
