# What the original and the sharded program have otherwise alike: the batch and the steps from the environment.
s/int B = 4;.*/int B = atoi(getenv("LLMC_BATCH"));/
s/int T = 64;.*/int T = atoi(getenv("LLMC_LENGTH"));/
s/step <= 40;/step < atoi(getenv("LLMC_STEPS"));/
