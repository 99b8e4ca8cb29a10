/* A trainer in C: it finds the matrix that made its samples, y = a x, each rank on its own samples.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sharding.h"

enum { ROWS = 12, COLUMNS = 20, SAMPLES = 32, STEPS = 200 };

static void require(int holds) {
    if (holds)
        return;
    fprintf(stderr, "%s\n", sharding_error());
    exit(1);
}

/* The same numbers on any number of ranks: of the step and the sample, not of the rank. */
static float number(int step, int sample, int i) {
    return (float)((step * 7919 + sample * 104729 + i * 1299709) % 201 - 100) / 100.0f;
}

/* [use] */
static double pass(struct sharding* all, int step) {
    const int each = SAMPLES / sharding_ranks(all), first = sharding_rank(all) * each;
    double loss = 0;
    float* a = sharding_use(all, "matrix");
    float* gradient = sharding_gradient(all, "matrix");
    require(a != NULL && gradient != NULL);
    for (int sample = first; sample < first + each; ++sample)
        for (int r = 0; r < ROWS; ++r) {
            float error = 0;
            for (int c = 0; c < COLUMNS; ++c)
                error += (a[r * COLUMNS + c] - number(0, r, c)) * number(step, sample, c);
            loss += error * error / each;
            for (int c = 0; c < COLUMNS; ++c)
                gradient[r * COLUMNS + c] += 2 * error * number(step, sample, c) / (float)each;
        }
    require(sharding_release(all, "matrix") == 0);
    require(sharding_reduce(all, "matrix") == 0);
    return loss;
}
/* [/use] */

int main(void) {
    struct sharding* all = sharding_begin();
    require(all != NULL);
    require(sharding_add(all, "matrix", ROWS, COLUMNS) == 0);
    require(sharding_ready(all) == 0);
    for (int step = 1; step <= STEPS; ++step) {
        double loss = pass(all, step);
        require(sharding_step(all, 0.02) == 0);
        require(sharding_mean(all, &loss) == 0);
        if (sharding_rank(all) == 0)
            printf("step %d loss %.6f\n", step, loss);
    }
    if (sharding_use(all, "matrx") == NULL && sharding_rank(all) == 0)
        printf("no such unit: %s\n", sharding_error());
    sharding_end(all);
    return 0;
}
