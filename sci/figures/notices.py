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
    "provider-lacks-part": "The provider rents out no instance with the present part.",
    "provider-unlisted": "The catalog lists no instances of the provider.",
    "estimate-unavailable": "The question does not say enough for an estimate.",
    "flag-idle": "Reserved devices were idle for a large part of the time.",
    "flag-long-inefficient": "A long job used little of its devices.",
    "flag-outdated": "The part is outdated for this class of work.",
    "flag-over-provisioned": "The part is larger than the job needs.",
    "flag-under-provisioned": "The job nearly fills its device's memory.",
    "memory-disagrees": "By estimate the job does not fit its memory; the run shows it does.",
}
"""Every code that the product emits, with its meaning in one sentence; see docs/notices.md."""
FOR_USER = frozenset(
    {"argument-ignored", "device-visibility", "energy-unmeasured", "integration-failed"}
    | {"jobs-unseen", "meter-unreadable", "processes-left", "server-counts", "spool-elsewhere"}
    | {"spool-resolution", "unit-misspelt", "windows-left-out"}
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
