#pragma once
// What a trainer in C calls: the part of the library that it needs, in C's words. A function that
// returns 0 or a pointer has failed with -1 or NULL, and sharding_error() says why.
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sharding;  // the ranks, the model that is cut over them, and its optimizer

const char* sharding_error(void);
struct sharding* sharding_begin(void);
void sharding_end(struct sharding* all);
int sharding_rank(const struct sharding* all);
int sharding_ranks(const struct sharding* all);
/// A unit of one tensor, zeros at first. All units, then sharding_ready().
int sharding_add(struct sharding* all, const char* unit, size_t rows, size_t columns);
int sharding_ready(struct sharding* all);
/// The tensor, whole until sharding_release().
float* sharding_use(struct sharding* all, const char* unit);
int sharding_release(struct sharding* all, const char* unit);
/// Its gradient, to be added to, until sharding_reduce(), which sums it over the ranks.
float* sharding_gradient(struct sharding* all, const char* unit);
int sharding_reduce(struct sharding* all, const char* unit);
int sharding_step(struct sharding* all, double learning_rate);
/// `value` becomes the ranks' mean.
int sharding_mean(struct sharding* all, double* value);

#ifdef __cplusplus
}
#endif
