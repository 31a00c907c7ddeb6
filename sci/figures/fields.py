"""What the fields of the documents mean, for docs/reference/fields.md; no program reads it.

Symbols of the standard are in docs/glossary.md and not repeated. A test names each field
that is neither here nor there.
"""

FIELDS: tuple[tuple[str, str, str], ...] = (
    ("value low high unit kind source", "quantity", "true value within low and high 8 times in 10"),
    ("code message", "notice", "`field` names the figure that it concerns; null is all"),
    ("job_id name project model_id tags", "job", "identity and labels, as given"),
    (
        "excluded",
        "job, month",
        "why a person left the job out of months and its model's sums, else null; in a month,"
        " these jobs",
    ),
    ("corrections", "job", "what people declared after the job, oldest first"),
    (
        "field old by at",
        "correction",
        "what was declared, what stood before, by whom (hashed unless allowed), when",
    ),
    (
        "framework precision",
        "job",
        "software, as recorded or detected by `track`; suggestions prefer a tag of that name",
    ),
    (
        "state",
        "job",
        "`running`, `completed`, `failed`, `killed` (by a signal) or `lost` (no end recorded)",
    ),
    ("exit_code", "job", "of the node that decides `state`; null if there was none"),
    (
        "started_at ended_at duration_s",
        "job",
        "first start and last end on any node, UTC, and seconds between",
    ),
    ("deviations", "job", "why the score does not conform fully"),
    ("devices", "job, step", "list of devices"),
    ("device_id", "device", "the driver's id of a GPU, else one of the host; unique with `node`"),
    ("class", "device, series", "`gpu`, `cpu`, `ram`, `accelerator`, `module`"),
    ("hardware", "device", "id in the catalog, or null"),
    ("share", "device", "reserved part, above 0 and up to 1"),
    ("kinds", "device", "joules by kind"),
    ("mean_utilisation", "device", "0 to 1, weighted by time"),
    ("utilisation", "point of `series`", "0 to 1, mean of the class by time, or null"),
    ("peak_memory_b max_power_w", "device", "highest reading"),
    ("profile", "device, interval", "how the device ran; only what it reports"),
    (
        "memory_busy encoder_busy",
        "profile",
        "0 to 1, mean use of memory controller and video encoder",
    ),
    (
        "power_capped thermally_slowed hardware_slowed",
        "profile",
        "0 to 1, readings in which power limit, heat or the board's protection lowered the clocks",
    ),
    ("temperature_c", "profile", "highest reading, degrees Celsius"),
    ("data_quality", "job, month", "the grade and the shares behind it"),
    ("energy embodied", "data quality", "shares of energy by kind, of embodied carbon by tier"),
    ("notices", "job, month", "list of notices"),
    ("method", "job, month", "what reproduces the score"),
    ("standard formula", "method", "of the score"),
    ("engine_version catalog_version", "method", "versions"),
    ("time_zone", "method", "whose days divide the job; absent for UTC"),
    ("boundary_included boundary_excluded", "method", "what the score includes and excludes"),
    ("exclusions component reason", "method", "each exclusion with its reason, or null"),
    ("supply supplies", "method", "source of the power, as a text and one by one"),
    ("sources", "figure", "each source, where `source` names several"),
    (
        "intensity points g_per_kwh",
        "job",
        "which was used when: `quality`, `source`, number of `points`, energy, mean "
        "`g_per_kwh`; `series` names publisher and method, the same for all editions",
    ),
    (
        "stored used forecast timezone",
        "intensity of a zone",
        "series with values in the span, and whether scores use them; what plans expect of "
        "the hours from now on; whose clocks it has",
    ),
    ("intensity_signal intensity_basis intensity_approach", "method", "which intensity was used"),
    ("zones", "method", "every zone; `zone` is the first"),
    ("largest_uncertainty", "method", "the input that widens the range most"),
    (
        "inputs what name symbol of count ids figure",
        "method",
        "each input with its source; its letter in the formula, what it belongs to, how many "
        "equal ones, and the ids by which `effects` know it",
    ),
    (
        "meter_cpu_s meter_rss_b meter_energy_j",
        "method",
        "cost of measuring: processor time and memory read, energy estimated",
    ),
    (
        "windows below_resolution energy_j_per_unit",
        "job",
        "named windows with energy, carbon (`operational_g`, `embodied_g` by part of the "
        "reserved time, `total_g`) and units; too short for a figure; joules per unit",
    ),
    (
        "service total hours closed known_s cached_tokens parts part tokens "
        "energy_j_per_token total_g_per_unit",
        "job",
        "[a service](../serving.md) in all, by day and hour: whether a day is closed, seconds"
        " with known counters, cached prompt tokens; energy and carbon of `prefill`, "
        "`decode`, `work`, `idle`, and per unit",
    ),
    ("series start end", "job", "energy over time by class"),
    ("steps edges reserved_s", "job", "the operational sum, step by step"),
    (
        "embodied_terms label stages",
        "job",
        "each M with TE, TiR, EL, RR, ToR, and the life stages of TE",
    ),
    (
        "conversions to factor date counted",
        "method",
        "declared factors between units, and how many were converted",
    ),
    (
        "sci_for_ai persona named_units statement",
        "method",
        "persona, and names of the units in SCI for AI",
    ),
    (
        "unit_rationale unit_values tokeniser",
        "method",
        "reason for the unit, gross or effective values, tokeniser, as declared",
    ),
    (
        "effects",
        "job, method",
        "in `energy_kwh`, `operational_g`, `embodied_g`, `pue` and `intensity_g_per_kwh`: by "
        "id of each input the change of the figure's natural logarithm at its low and at its "
        "high end; `grid:ZONE:YEAR@...` are hours of that annual value",
    ),
    ("changes", "month", "each total over the month before, with the range of the ratio"),
    ("lifetime_sensitivity", "job", "M, C and C per R for lifetimes of 3, 4, 5 and 6 years"),
    (
        "days day counts",
        "job, month",
        "terms and R by day, [divided by time](../methodology.md#days-and-months); without "
        "units one `job` over its days",
    ),
    (
        "month complete previous",
        "month",
        "which; whether it is over and every job ended and scored; totals before",
    ),
    (
        "jobs_running jobs_unscored named",
        "month",
        "jobs in no sum: how many, energy so far, the 20 largest by name",
    ),
    (
        "jobs_to_rescore",
        "month",
        "jobs of it or its trend that wait for a new score; until then it is not complete",
    ),
    (
        "factors factor_g_per_kwh quality",
        "month",
        "energy x PUE x factor = O, by zone, PUE and source; rows sum to E and O",
    ),
    ("model_units", "month", "sum of C over sum of R by model and unit"),
    (
        "publisher edition licence link files sha256 imported_by imported_at",
        "month",
        "who published a factor, and its imported files",
    ),
    (
        "provisional",
        "month",
        "totals whose intensity [is not final](../intensity.md#provisional-and-final)",
    ),
    (
        "totals jobs jobs_ended jobs_unknown",
        "month",
        "sums; jobs with a part in it, with their last day in it, with an unknown term",
    ),
    (
        "projects top_jobs",
        "month",
        "SCI by project and unit; the ten jobs with most emissions in it",
    ),
    (
        "suggestions action target saved_g carbon_ratio reason",
        "month",
        "the best advised saving of each job: action, saving on the whole job, new over "
        "present carbon, reason",
    ),
    ("notice_counts sources", "month", "jobs with each notice, sources"),
    ("models unfinished", "month", "runs by model; how many failed, were killed or lost"),
    (
        "parts states by_kind missing",
        "model",
        "sums by persona and kind of job; runs by state; why sums may be incomplete",
    ),
    (
        "revision issued_at revised",
        "month",
        "number and time of the kept report, null before; what the one before said, and the "
        "`changes` since",
    ),
    (
        "deletions deleted_at deleted_by",
        "month",
        "deleted jobs: what they added, when, by whom and why they went",
    ),
    ("change_parts change_g", "month", "change of the total, and the effects that sum to it"),
    (
        "volume_g efficiency_g grid_g hardware_g method_g",
        "change",
        "effects of R, E per R, intensity and PUE, M per R, another method",
    ),
    (
        "trend methods method_break",
        "month",
        "twelve months; versions, signal and basis of their scores; whether these differ from"
        " the month before",
    ),
    (
        "budgets limit_kg spent_kg spent_share status range_holds_limit",
        "month",
        "[budgets](../budgets.md); the last says that the range of what was spent holds the limit",
    ),
    (
        "compared_days compared",
        "month",
        "of a month in progress: whole days compared with as many before, and their sums; "
        "else null",
    ),
    (
        "components component g part",
        "month",
        "O and M by class and overhead, each with its range; they sum to the total",
    ),
    (
        "boundary narrow_kwh narrow_g full_kwh full_g",
        "month",
        "the accelerators' electricity alone, and the whole boundary",
    ),
    (
        "market_based market_g",
        "month",
        "memo: energy with PUE at the zone's market-based factor; in no score and no total",
    ),
    ("project_changes previous_g change", "month", "each project in both months, and the ratio"),
    (
        "grade_limits needed kinds block share",
        "month",
        "what the next grade asks for, and the `jobs` that lack most",
    ),
    (
        "ledger outcome idle_not_seen_kwh",
        "month",
        "carbon by outcome: completed, idle, sweep, failed, killed, lost; energy of "
        "accelerators that report no utilisation",
    ),
    ("chargeback owner", "month", "carbon by project and owner, the tag `user`"),
    ("by_project", "month", "carbon by project; in its range a shared input counts once"),
    ("work", "month, advice", "jobs and carbon by hardware and class of work"),
    (
        "advice examined_jobs jobs_of_work confidence examples",
        "month",
        "suggestions by hardware, work and action, and their jobs; `sure` or `likely`",
    ),
    (
        "followed jobs_before jobs_now target_before target_now",
        "month",
        "what became of the suggestions before",
    ),
    ("unfinished_g", "model", "carbon of runs without a result"),
    (
        "odds verdict basis",
        "suggestion",
        "probability that a row emits less, its word, what it rests on",
    ),
    ("organisation accountable contact", "statement", "who answers for the report"),
    ("by_state", "month", "totals by state of the jobs"),
)
"""Names, of what, and the meaning in Markdown."""
