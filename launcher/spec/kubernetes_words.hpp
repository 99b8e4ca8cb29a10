#pragma once
#include "spec/kubernetes_spec.hpp"
#include "spec/spec_error.hpp"
#include "spec/value.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// The keys of the section `kubernetes` that are neither text nor numbers. Each reader returns false
// where the value is not of its kind at all, and adds errors at the places of what is wrong in it.

bool read_tolerations(const Value& value, const std::string& path,
                      std::vector<KubernetesToleration>& field, std::vector<SpecError>& errors);
bool read_spread(const Value& value, const std::string& path, std::vector<KubernetesSpread>& field,
                 std::vector<SpecError>& errors);
bool read_volumes(const Value& value, const std::string& path, std::vector<KubernetesVolume>& field,
                  std::vector<SpecError>& errors);
bool read_counted_resources(const Value& value, const std::string& path,
                            std::map<std::string, int>& field, std::vector<SpecError>& errors);
bool read_hugepages(const Value& value, const std::string& path,
                    std::map<std::string, std::int64_t>& field, std::vector<SpecError>& errors);
bool read_secret_key(const Value& value, KubernetesSecretKey& field);
bool read_secret_keys(const Value& value, const std::string& path,
                      std::map<std::string, KubernetesSecretKey>& field,
                      std::vector<SpecError>& errors);

/// "rdma/hca": a name of an extended resource, with its domain.
bool is_resource_name(std::string_view text);
/// "train-7": what a name of an object or of a host may be, and no longer than `longest`.
bool is_dns_label(std::string_view text, std::size_t longest = 63);
/// The same, of several labels with dots between: what most objects may be called.
bool is_dns_name(std::string_view text);

}  // namespace autolaunch::launcher
