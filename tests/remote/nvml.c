#include <stdlib.h>
#include <string.h>
static unsigned long long counts[] = {0, 5000000, 7000000};
static unsigned long long reads = 0;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) { *gpu = counts + index; return index > 2 ? 2 : 0; }
int nvmlDeviceGetHandleByUUID(const char *name, void **gpu) { *gpu = counts + 2; return strcmp(name, "GPU-ab"); }
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *mj) {
    *mj = *(unsigned long long *)gpu + 1500 * reads++;
    return getenv("NO_COUNTER") ? 3 : 0;
}
