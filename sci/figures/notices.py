"""Notices: coded remarks that are part of a result, and stored and printed with it."""

from __future__ import annotations

from msgspec import Struct

CODES: dict[str, str] = {
    "zone-unknown": "No grid zone was given, so the world average intensity is used.",
    "pue-undeclared": "The facility's PUE was not declared.",
    "intensity-annual": "Only an annual intensity is known for this zone and time.",
    "region-unmapped": "The cloud region's own grid zone is not known.",
    "hardware-unknown": "A detected device has no row in the catalog.",
    "hardware-ambiguous": "A detected device's name fits several rows of the catalog.",
    "overlay-used": "A figure comes from the user's overlay, not from the packaged catalog.",
    "embodied-modelled": "Embodied carbon is modelled, not taken from a published study.",
    "input-implausible": "A given figure is far from what exists; it counts as given.",
    "lifetime-exceeded": "The job was longer than the hardware is expected to live.",
    "embodied-unknown": "Embodied carbon of a device is not known.",
    "host-modelled": "The host's embodied carbon is modelled from its size.",
    "energy-unmeasured": "A device's energy was not measured.",
    "energy-estimated": "Part of the energy is estimated by a model.",
    "meter-cross-check": "Counter and integrated power differ by more than 10 %.",
    "meter-remark": "A meter left a remark that this version has no code for.",
    "meter-replaced": "A meter died and was replaced; no count is lost, a window may be.",
    "meter-gap": "No reading exists for part of the job.",
    "meter-counter-reset": "A device's energy counter was reset during the job.",
    "meter-synthetic": "Readings come from a synthetic meter, not from hardware.",
    "meter-source-absent": "A meter was not available on this machine.",
    "meter-unreadable": "A meter is here and cannot be read; there is a fix.",
    "device-visibility": "The visible devices could not be matched exactly.",
    "codecarbon-limits": "codecarbon leaves out what bears on the figures.",
    "overlap-removed": "Two writers covered the same device and time; it was counted once.",
    "counted-elsewhere": "Another source measured the device at that time; it counts there.",
    "figure-impossible": "A figure beside the energy cannot be; its line counts without it.",
    "records-refused": "Stored lines state what no device can do; they are left out.",
    "identity-conflict": "Two lines with the same identity disagree.",
    "records-outside": "Lines lie outside the job's time and are left out.",
    "times-contradict": "The job's end is before its start; its last reading stands for the end.",
    "clock-ahead": "Lines speak of times after those at which they came.",
    "clock-set-back": "A writer's lines cover a time twice; the second time is left out.",
    "place-conflict": "A node's zone is stated in two ways or not at all.",
    "place-taken": "A place was not named by its code; what it was taken as is said.",
    "zone-alternative": "Sources put the cloud region into different grid zones.",
    "zones-several": "Nodes of the job are in different zones, each counted in its own.",
    "pue-several": "Nodes of the job have different PUE, each counted with its own.",
    "plan-horizon": "The forecast ends before the deadline; later hours are left out.",
    "node-failed": "A node of the job, or an earlier run on it, failed, was killed or was lost.",
    "job-lost": "The job's end was not seen; it was closed at its last reading.",
    "end-unseen": "What reports the job sees when it leaves its devices, not how it ended.",
    "processes-left": "Processes of the command ran on after it; they are not measured any more.",
    "work-elsewhere": "The command has its work done elsewhere, as `docker` and `ssh` do.",
    "unit-undeclared": "No functional unit was declared, so R is 1 job.",
    "count-derived": "Functional units are derived from steps; a last batch may have fewer.",
    "integration-failed": "The integration of a framework failed; the job was not touched.",
    "server-counts": "A server's counters could not be read all the time, or began anew.",
    "unit-not-counted": "A declared functional unit was never counted.",
    "unit-misspelt": "A functional unit is named like one that many jobs count.",
    "argument-ignored": "An argument was wrong and was ignored.",
    "intensity-unused": "Intensity of another signal or basis is stored, and no score uses it.",
    "intensity-reused": "The intensity of a wider area or coarser time was used.",
    "below-resolution": "The span is too short for the meter's resolution.",
    "windows-left-out": "More windows were opened than can be measured; some are left out.",
    "gpu-shared": "A GPU of the job is used by others too.",
    "host-shared": "Other measured jobs ran on the host: each has an equal part of its idle power.",
    "jobs-unseen": "Other jobs here are not seen: each is billed all of what they share.",
    "machine-suspended": "The machine was suspended: no energy is counted for that time.",
    "spool-elsewhere": "The journal is kept in another folder, as the usual one cannot be written.",
    "spool-resolution": "The journal was thinned because the spool was full.",
    "advice-policy": "A rule that no data can test; shown with its source, never counted.",
    "framework-misspelt": "A framework is unknown, and spelt nearly as a known one.",
    "pace-inferred": "Something else than the devices seems to set the speed of the job.",
    "power-impossible": "The mean power cannot be that of the named part.",
    "power-unpublished": "No power of the part under load was published.",
    "provider-lacks-part": "The provider rents out no instance with the present part.",
    "provider-unlisted": "The catalog lists no instances of the provider.",
    "estimate-unavailable": "The question does not say enough for an estimate.",
    "flag-idle": "Reserved devices were idle for a large part of the time.",
    "flag-long-inefficient": "A long job used little of its devices.",
    "flag-outdated": "The part is outdated for this class of work.",
    "flag-over-provisioned": "The part is larger than the job needs.",
    "flag-under-provisioned": "The job nearly fills its device's memory.",
}
"""Every code that the product emits, with its meaning in one sentence."""
HELP: dict[str, str] = {
    "zone-unknown": (
        "The score is not-sci. Use `--zone DE` or `--region aws:eu-west-1`, or set `zone`."
    ),
    "pue-undeclared": (
        "1.56 (1.1 to 2.19) counts in a data centre, 1.0 (up to 1.56) elsewhere: a deviation. "
        "Declare `pue`, or a cloud region that publishes one."
    ),
    "intensity-annual": (
        "An hour may differ by tens of percent, and the range holds that. `gramwatt import "
        "intensity` takes finer values."
    ),
    "intensity-unused": "Scores and plans use average lifecycle values only.",
    "region-unmapped": "That of its country is used if there is one; `--zone` takes precedence.",
    "hardware-unknown": (
        "The middle of the parts like it counts: of its maker, with most of its name, its "
        "memory and its power limit. Adding it to the catalog is one line."
    ),
    "hardware-ambiguous": (
        "The message lists them. The commonest counts and the range holds all. An overlay can "
        "assign the name."
    ),
    "overlay-used": "The message names it and its source.",
    "embodied-modelled": "The report has the tier of each device.",
    "input-implausible": (
        "Often kg stands for g, or kW for W; the message says what to check. An intensity that "
        "can only be kg/kWh is refused."
    ),
    "lifetime-exceeded": (
        "It is charged more than the whole: declare the actual lifetime. Beyond half as long "
        "again a clock was wrong, and embodied carbon is not known."
    ),
    "embodied-unknown": (
        "Or the job's times cannot be true. M, total and SCI are unknown, and the score is not- "
        "sci."
    ),
    "energy-unmeasured": "Nor was it estimated. Energy, O and SCI are unknown.",
    "energy-estimated": "`gramwatt doctor` shows which part, and the fix.",
    "meter-cross-check": (
        "The counter is used. Have the board checked before the figure is published."
    ),
    "meter-remark": "Its text is kept; a newer server may know the code.",
    "meter-replaced": "The energy is whole. A window that ended in the 10 s before may be missing.",
    "meter-gap": (
        "The message states what failed. With a counter the energy is known, but not its "
        "course; without one it is estimated by the last power, with a range from nothing to "
        "the device's limit."
    ),
    "meter-counter-reset": "As by a driver reload. Power readings cover the span between.",
    "meter-synthetic": "`GRAMWATT_NVML` is set. The score is not-sci.",
    "meter-unreadable": (
        "It crashed, did not answer in time, or refused: `gramwatt doctor` has the fix. Printed "
        "while the job runs."
    ),
    "meter-source-absent": (
        "Or it is another binding than the tested one; `gramwatt doctor` names it."
    ),
    "device-visibility": (
        "`CUDA_VISIBLE_DEVICES`, the scheduler or the container names other devices than the "
        "driver lists, no slice of a board in MIG mode, or other devices than the job uses. The "
        "message names the billed ones."
    ),
    "codecarbon-limits": (
        "Whether the processor's energy was read or modelled, how GPUs divide theirs, or where "
        "the job ran."
    ),
    "overlap-removed": "Harmless. The message has the energy stated twice.",
    "records-outside": (
        "By more than five minutes: a clock was wrong, or they are another job's. The message "
        "has their energy, counts and times. A deviation."
    ),
    "times-contradict": "Its state counts; without any reading M is unknown. A deviation.",
    "clock-ahead": (
        "By more than five minutes. The job counts at its own times, and lists sort it by when "
        "its lines came. Set the clocks, and send the job again."
    ),
    "clock-set-back": "The energy is too small by what the message has. A deviation.",
    "counted-elsewhere": (
        "The job's own meter comes first, then that of Slurm's Prolog, then Prometheus. The "
        "message has the amount."
    ),
    "figure-impossible": "The line keeps it, no figure uses it, and the energy counts.",
    "records-refused": (
        "They state more energy than the device can draw that a later line describes. They stay "
        "in the store. Check the meter."
    ),
    "identity-conflict": "The message has what is left out and what counts. A deviation.",
    "place-conflict": (
        "The score is not-sci: give every node one zone, as by `GRAMWATT_ZONE`. Or zone and "
        "region contradict each other, such as `FR` beside `aws:us-east-1`: the zone decides "
        "the intensity, a published PUE is the region's. A deviation."
    ),
    "place-taken": (
        "`gramwatt catalog zones NAME` shows it. Write the code to be rid of the notice."
    ),
    "zone-alternative": (
        "It has both with their annual intensity, and which is used. Choose by `--zone`."
    ),
    "zones-several": "O is the sum; `zone` of the document is the first.",
    "pue-several": "`pue` of the document is their mean by energy.",
    "plan-horizon": "In a longer job they count with its mean. Our own forecasts reach seven days.",
    "node-failed": "It gives the job its state and exit code. The message names it and the others.",
    "job-lost": "Energy after that, at most 10 s, is not counted.",
    "end-unseen": (
        "A Prometheus has no exit code: the job ended, as completed, when it last had a device. "
        "A meter of Slurm's Prolog without an Epilog ends six hours after the last step."
    ),
    "processes-left": "Keep them in the foreground (`wait`, `--foreground`).",
    "work-elsewhere": (
        "Processor and memory of that work are not counted; devices of this machine are. Call "
        "`gramwatt run` inside the container, batch script or session."
    ),
    "unit-undeclared": "The score is valid; declare a unit (`--unit image`) to compare jobs.",
    "count-derived": "Say the number where it matters.",
    "integration-failed": (
        "The message has the exception. Energy is measured; counts, windows or figures of the "
        "running job may end early."
    ),
    "unit-not-counted": "The score is per job. Call `job.count(...)`.",
    "unit-misspelt": (
        "Such as `tokn` for `token`; it counts as its own. `gramwatt job ID --set "
        "count.token=N` declares the right one."
    ),
    "argument-ignored": "Measuring never stops a job. The message names it; `strict` refuses it.",
    "intensity-reused": "Nothing closer is known.",
    "below-resolution": "The counter changed once or not at all: energy comes from power readings.",
    "windows-left-out": (
        "A job keeps 2 000, and of those under a second the first hundred and then four a "
        "second. Their counts are in R."
    ),
    "server-counts": (
        "It ran before the job, did not answer in ten minutes, lacks the expected counters, "
        "restarted, or is several processes. The message says what is not counted."
    ),
    "gpu-shared": (
        "The job is billed its share, or the whole board if time-sharing is not known; the "
        "message states which. `GRAMWATT_SHARED_GPU=1` declares it."
    ),
    "host-shared": (
        "Dynamic energy is divided by processor time. Give each job its own limit (a container, "
        "`systemd-run --scope -p CPUQuota=... -p MemoryMax=...`)."
    ),
    "jobs-unseen": (
        "Files cannot be locked, neither in `GRAMWATT_HOME` nor in the temporary directory. Set "
        "`GRAMWATT_HOME` to a local disk."
    ),
    "machine-suspended": "Unless a counter ran on.",
    "spool-elsewhere": "Or it is full. The message names the other; `GRAMWATT_HOME` sets it.",
    "spool-resolution": "Intervals are 300 s long. No energy is lost.",
    "framework-misspelt": "No part is left out for its software. The message names likely ones.",
    "pace-inferred": (
        "They wait for requests, input or the host, so parts are compared at the same rate. "
        "`pace` sets it."
    ),
    "power-impossible": (
        "Of a job it counts as read, with a deviation: check the meter, or correct the limit in "
        "an overlay. Of suggestions nothing is compared: check `hardware` and `mean_power_w` "
        "(of one device)."
    ),
    "provider-lacks-part": "The message names instances that have it.",
    "provider-unlisted": "No part is left out for it.",
    "power-unpublished": (
        "Its energy is a usual part of its rated power: it may be higher. Declare `power_w`."
    ),
    "flag-idle": "Idle power and embodied carbon count.",
    "flag-long-inefficient": "From 24 device hours on.",
    "flag-outdated": "Small and recommender jobs are excepted.",
    "flag-over-provisioned": "By measured memory, and power or use.",
    "flag-under-provisioned": "Swapping is near.",
}
"""What a notice does to the figures, and what to do; docs/reference/notices.md has both."""
FOR_USER = frozenset(
    {"argument-ignored", "device-visibility", "energy-unmeasured", "integration-failed"}
    | {"jobs-unseen", "meter-unreadable", "processes-left", "server-counts", "spool-elsewhere"}
    | {"spool-resolution", "unit-misspelt", "windows-left-out", "work-elsewhere"}
)
"""Codes that are printed while the job runs, since its user can do something about them."""


class Notice(Struct, frozen=True):
    """One remark: a code of `CODES`, a message, and the figure that it concerns.

    `field` is null for a remark on the whole score. A document of an earlier version may have a
    code that is no more, so a code is not checked when a notice is read.
    """

    code: str
    message: str
    field: str | None = None
