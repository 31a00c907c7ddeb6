/* A libnvidia-ml.so.1 with GPUs whose power is known: straight pieces, repeating.

   STANDIN_WAVE      file of lines "duration_s start_w end_w"
   STANDIN_PERIOD_S  how often counter and sampled power are updated, 0.1 when unset
   STANDIN_POWER     what PowerUsage is: "instant", or at each update the "mean" of one second, or
                     "part": the mean of the last quarter of the last update period
   STANDIN_GPUS      how many GPUs, all with the same wave, 1 when unset, at most 16
   STANDIN_UUID      8 hexadecimal digits that all their UUIDs begin with
   STANDIN_COUNTER   "none": the energy counter is not supported

   Time is CLOCK_BOOTTIME. Everything that is not here is missing, as in an old driver. */

#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, MOST = 4096, MOST_GPUS = 16 };
typedef int status;
typedef void *device;

static double span_s[MOST], start_w[MOST], end_w[MOST], begin_s[MOST], begin_j[MOST];
static double whole_s, whole_j, period_s = 0.1;
static const char *sensor = "instant", *prefix = "00000000";
static int pieces, gpus = 1, counts = 1;
static char boards[MOST_GPUS];

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static int piece_at(double past_s)
{
    int low = 0, high = pieces - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (begin_s[middle] <= past_s) low = middle; else high = middle - 1;
    }
    return low;
}

static double energy_j(double at_s)
{
    double rounds = floor(at_s / whole_s), past_s = at_s - rounds * whole_s;
    int at = piece_at(past_s);
    double in_s = past_s - begin_s[at];
    double mean_w = start_w[at] + (end_w[at] - start_w[at]) * in_s / span_s[at] / 2;
    return rounds * whole_j + begin_j[at] + mean_w * in_s;
}

static double power_w(double at_s)
{
    double past_s = at_s - floor(at_s / whole_s) * whole_s;
    int at = piece_at(past_s);
    return start_w[at] + (end_w[at] - start_w[at]) * (past_s - begin_s[at]) / span_s[at];
}

static double tick_s(void) { return floor(now_s() / period_s + 1e-9) * period_s; }

static double shown_w(void)
{
    double at_s = tick_s(), part_s = period_s / 4;
    if (!strcmp(sensor, "mean")) return energy_j(at_s) - energy_j(at_s - 1);
    if (!strcmp(sensor, "part")) return (energy_j(at_s) - energy_j(at_s - part_s)) / part_s;
    return power_w(now_s());
}

static status load(void)
{
    const char *path = getenv("STANDIN_WAVE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return INVALID;
    pieces = 0, whole_s = whole_j = 0;
    while (pieces < MOST && fscanf(file, "%lf %lf %lf", &span_s[pieces], &start_w[pieces],
                                   &end_w[pieces]) == 3) {
        begin_s[pieces] = whole_s, begin_j[pieces] = whole_j;
        whole_s += span_s[pieces];
        whole_j += (start_w[pieces] + end_w[pieces]) / 2 * span_s[pieces];
        pieces++;
    }
    fclose(file);
    if (getenv("STANDIN_PERIOD_S")) period_s = atof(getenv("STANDIN_PERIOD_S"));
    if (getenv("STANDIN_POWER")) sensor = getenv("STANDIN_POWER");
    if (getenv("STANDIN_UUID")) prefix = getenv("STANDIN_UUID");
    if (getenv("STANDIN_GPUS")) gpus = atoi(getenv("STANDIN_GPUS"));
    counts = !getenv("STANDIN_COUNTER") || strcmp(getenv("STANDIN_COUNTER"), "none");
    if (gpus < 1 || gpus > MOST_GPUS) return INVALID;
    return pieces ? OK : INVALID;
}

static unsigned index_of(device of) { return (unsigned)((char *)of - boards); }

static status text(char *to, unsigned size, const char *what)
{
    if (strlen(what) >= size) return TOO_SMALL;
    strcpy(to, what);
    return OK;
}

status nvmlInit_v2(void) { return load(); }
status nvmlInitWithFlags(unsigned flags) { (void)flags; return load(); }
status nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(status code) { return code == OK ? "Success" : "Not Supported"; }
status nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "550.0"); }
status nvmlSystemGetNVMLVersion(char *to, unsigned size) { return text(to, size, "12.550.0"); }
status nvmlSystemGetCudaDriverVersion(int *to) { *to = 12040; return OK; }
status nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = 12040; return OK; }
status nvmlDeviceGetCount_v2(unsigned *to) { *to = gpus; return OK; }

status nvmlDeviceGetHandleByIndex_v2(unsigned index, device *to)
{
    if (index >= (unsigned)gpus) return INVALID;
    *to = &boards[index];
    return OK;
}

status nvmlDeviceGetUUID(device of, char *to, unsigned size);

status nvmlDeviceGetHandleByUUID(const char *uuid, device *to)
{
    char known[80];
    for (int i = 0; i < gpus; i++) {
        *to = &boards[i];
        if (nvmlDeviceGetUUID(*to, known, sizeof known) == OK && !strcmp(known, uuid)) return OK;
    }
    return INVALID;
}

status nvmlDeviceGetName(device of, char *to, unsigned size)
{
    (void)of;
    return text(to, size, "Stand-in GPU");
}

status nvmlDeviceGetUUID(device of, char *to, unsigned size)
{
    char uuid[80];
    snprintf(uuid, sizeof uuid, "GPU-%.8s-0000-4000-8000-0000000000%02x", prefix, index_of(of));
    return text(to, size, uuid);
}

status nvmlDeviceGetIndex(device of, unsigned *to) { *to = index_of(of); return OK; }
status nvmlDeviceGetMinorNumber(device of, unsigned *to) { return nvmlDeviceGetIndex(of, to); }
status nvmlDeviceGetArchitecture(device of, unsigned *to) { (void)of, *to = 9; return OK; }
status nvmlDeviceGetComputeMode(device of, unsigned *to) { (void)of, *to = 0; return OK; }
status nvmlDeviceGetPersistenceMode(device of, unsigned *to) { (void)of, *to = 1; return OK; }

status nvmlDeviceGetMemoryInfo(device of, unsigned long long to[3])
{
    (void)of, to[0] = 80ULL << 30, to[1] = 60ULL << 30, to[2] = 20ULL << 30;
    return OK;
}

status nvmlDeviceGetUtilizationRates(device of, unsigned to[2])
{
    (void)of, to[0] = to[1] = 100;
    return OK;
}

status nvmlDeviceGetTemperature(device of, unsigned what, unsigned *to)
{
    (void)of, (void)what, *to = 60;
    return OK;
}

status nvmlDeviceGetPowerUsage(device of, unsigned *to)
{
    (void)of, *to = (unsigned)lround(shown_w() * 1000);
    return OK;
}

status nvmlDeviceGetTotalEnergyConsumption(device of, unsigned long long *to)
{
    (void)of, *to = (unsigned long long)llround(energy_j(tick_s()) * 1000);
    return counts ? OK : NOT_SUPPORTED;
}

status nvmlDeviceGetEnforcedPowerLimit(device of, unsigned *to)
{
    (void)of, *to = 700000;
    return OK;
}

status nvmlDeviceGetPowerManagementLimit(device of, unsigned *to)
{
    return nvmlDeviceGetEnforcedPowerLimit(of, to);
}

status nvmlDeviceGetPowerManagementDefaultLimit(device of, unsigned *to)
{
    return nvmlDeviceGetEnforcedPowerLimit(of, to);
}

status nvmlDeviceGetPowerManagementLimitConstraints(device of, unsigned *low, unsigned *high)
{
    *low = 100000;
    return nvmlDeviceGetEnforcedPowerLimit(of, high);
}

/* No process runs on the board: an empty list, whatever the buffer. */
status nvmlDeviceGetComputeRunningProcesses_v3(device of, unsigned *count, void *to)
{
    (void)of, (void)to, *count = 0;
    return OK;
}

status nvmlDeviceGetGraphicsRunningProcesses_v3(device of, unsigned *count, void *to)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(of, count, to);
}

/* nvmlFieldValue_t of nvml.h, API version 13. */
struct field {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    unsigned type;
    status answer;
    union { double d; unsigned ui; unsigned long ul; unsigned long long ull; } value;
};

status nvmlDeviceGetFieldValues(device of, int count, struct field *to)
{
    for (int i = 0; i < count; i++) {
        to[i].answer = OK;
        to[i].timestamp_us = (long long)(now_s() * 1e6);
        if (to[i].id == 83) {
            to[i].type = 3;
            to[i].answer = nvmlDeviceGetTotalEnergyConsumption(of, &to[i].value.ull);
        } else if (to[i].scope == 0 && (to[i].id == 185 || to[i].id == 186)) {
            to[i].type = 1;
            nvmlDeviceGetPowerUsage(of, &to[i].value.ui);
        } else {
            to[i].answer = NOT_SUPPORTED;
        }
    }
    return OK;
}
