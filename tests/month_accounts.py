"""A month's accounts from whole documents, in plain arithmetic, for months from parts to equal."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import msgspec
import pytest

from gramwatt.sci.advice.jobs import grouped, work_of
from gramwatt.sci.analysis.breakdown import (
    WEIGHTS,
    breakdown,
    components,
    intensity_of,
    method_of,
    pue_of,
)
from gramwatt.sci.analysis.documents import SavingDoc
from gramwatt.sci.analysis.model_totals import UNFINISHED
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import Quantity, ends_of, total, weakest
from gramwatt.sci.grid.zones import at_equal_grid
from gramwatt.sci.journal.records import ACCELERATORS
from gramwatt.sci.score.assess import GRADE_NEEDS
from gramwatt.service.months.sums.decomposition import other_sources


class Accounts:
    """The accounts of members; it is given the sums, totals, R and quality of `tests.months`."""

    def __init__(self, sums, totals, count, quality):
        self.sums, self.totals, self.count, self.quality = sums, totals, count, quality

    def fields(self, month, members, before, complete, advise):
        """Fields of the document."""
        return {
            "trend": self._trend(month, members, before, complete),
            "budgets": [],
            **self._accounts(members, self.sums(members)),
            **self._advice(month, members, advise),
            "followed": [],
            "statement": {"organisation": None, "accountable": None, "contact": None},
            "revision": None,
            "revised": None,
            "methods": _methods(members),
            "intensity_methods": [list(row) for row in sorted(_intensities(members))],
        }

    def changes(self, members, before):
        """The effects and the projects' changes."""
        return {
            "change_parts": self._known_change(members, before),
            "project_changes": self._project_changes(members, before),
        }

    def _known_change(self, members, before):
        known = [self.sums(group).total_g for group in (members, before)]
        return self.change_parts(members, before) if all(known) else None

    def grade_limits(self, members):
        """What the next better grade asks for and the month lacks, with the jobs that lack most."""
        quality = self.quality(members)
        better = {"B": "A", "C": "B", "D": "C"}.get(quality.grade)
        rows = []
        for block, kinds, least in dict(GRADE_NEEDS).get(better, ()):
            share = sum(getattr(quality, block).get(kind, 0.0) for kind in kinds)
            if not getattr(quality, block) or share >= least:
                continue
            term = "embodied_g" if block == "embodied" else "energy_kwh"
            known = [(m, getattr(m.sums, term)) for m in members]
            lacking = [
                (
                    sum(v for k, v in getattr(m.job.data_quality, block).items() if k not in kinds),
                    m,
                    f,
                )
                for m, f in known
                if f
            ]
            whole = sum(
                sum(getattr(m.job.data_quality, block).values()) * f.value for m, f in known if f
            )
            jobs = [(part * f.value / whole, m.job) for part, m, f in lacking if part * f.value > 0]
            jobs.sort(key=lambda row: -row[0])
            fields = ("job_id", "name", "project")
            named = [
                {**{f: getattr(job, f) for f in fields}, "share": part} for part, job in jobs[:3]
            ]
            row = {"grade": better, "block": block, "kinds": list(kinds), "share": share}
            rows.append({**row, "needed": least, "jobs": named})
        return rows

    def _project_changes(self, members, before):
        rows = []
        for project in sorted({m.job.project for m in (*members, *before)}):
            new, old = (
                self.sums([m for m in group if m.job.project == project]).total_g
                for group in (members, before)
            )
            ratio = None
            if new and old and old.low > 0:
                old_at, new_at = at_equal_grid(old, new)
                ratio = new_at.over(old_at, "1").sourced("this month over the month before")
            row = {"project": project, "total_g": doc(new), "previous_g": doc(old)}
            rows.append({**row, "change": doc(ratio)})

        def difference(row):
            values = [
                row[name]["value"] if row[name] else 0.0 for name in ("total_g", "previous_g")
            ]
            return -abs(values[0] - values[1]), row["project"]

        return sorted(rows, key=difference) if members and before else []

    def unfinished_g(self, members):
        """Carbon of runs without a result."""
        return doc(self.sums([m for m in members if m.job.state in UNFINISHED]).total_g)

    def _trend(self, month, members, before, complete):
        rows = []
        for name, group, final in (
            (previous_month(month), before, True),
            (month, members, complete),
        ):
            if not group:
                continue
            totals, methods = self.totals(group), _methods(group)
            terms = ("jobs", "energy_kwh", "operational_g", "embodied_g", "total_g")
            row = {"month": name, "complete": final, **{term: totals[term] for term in terms}}
            row |= {"grade": self.quality(group).grade, "methods": methods}
            other = bool(rows) and rows[-1]["methods"] != methods
            other |= bool(rows) and other_sources(_intensities(before), _intensities(members))
            rows.append({**row, "method_break": other})
        return rows

    def _advice(self, month, members, advise):
        """Suggestions of `advise` for the jobs, and the same by hardware, work and action."""
        documents = [member.job for member in members]
        savings = advise(documents) if advise else []
        savings = msgspec.convert(msgspec.to_builtins(savings), list[SavingDoc])
        counts = Counter(work_of(job) for job in documents)
        shares = {m.job.job_id: _part_of_total(m) for m in members}
        real = [j for j in documents if not any(n.code == "meter-synthetic" for n in j.notices)]
        return {
            "suggestions": savings,
            "advice": grouped(savings, shares, counts),
            "examined_jobs": min(len(real), 20) if advise else 0,
        }

    def change_parts(self, members, before):
        """Effects on the change by work, in plain arithmetic and without ranges."""
        works = {}
        for place, group in enumerate((before, members)):
            for m in group:
                unit = m.job.sci[0].unit if m.job.sci else "job"
                cell = works.setdefault((m.job.project, unit), [None, None])
                cell[place] = cell[place] or [0.0, 0.0, 0.0, 0.0, set(), set()]
                cell[place][5] |= _intensities([m])
                sums = m.sums
                amounts = (sums.energy_kwh, sums.operational_g, sums.embodied_g)
                values = [self.count(m, unit), *(one.value if one else 0.0 for one in amounts)]
                cell[place][:4] = [a + b for a, b in zip(cell[place], values, strict=False)]
                cell[place][4].add(tuple(method_of(m.job)))
        found = dict.fromkeys(("volume_g", "efficiency_g", "grid_g", "hardware_g", "method_g"), 0.0)
        for old, new in works.values():
            whole = sum((new or [0] * 4)[2:4]) - sum((old or [0] * 4)[2:4])
            per_unit = _per_unit(old, new) if old and new else (0.0, 0.0, 0.0)
            found["volume_g"] += whole - sum(per_unit)
            if old and new and old[4] != new[4]:
                found["method_g"] += sum(per_unit)
                continue
            grid = "method_g" if old and new and other_sources(old[5], new[5]) else "grid_g"
            for name, effect in zip(("efficiency_g", grid, "hardware_g"), per_unit, strict=True):
                found[name] += effect
        found["change_g"] = sum(found.values())
        return {
            name: {
                "value": v,
                "low": v,
                "high": v,
                "unit": "gCO2e",
                "kind": "derived",
                "source": "x",
            }
            for name, v in found.items()
        }

    def _accounts(self, members, sums):
        ledger = self._ledger(members)
        return {
            "components": _components(members, sums),
            "boundary": _boundary(members, sums),
            "method": _method(members, sums),
            "ledger": ledger,
            "idle_not_seen_kwh": _share_of(sums.energy_kwh, _weighted(members, "idle", "not seen")),
            "chargeback": self._by(members, lambda j: (j.project, j.tags.get("user", "")), "owner"),
            "by_project": self._by(members, lambda j: (j.project,), None),
            "work": self._by(members, work_of, "work"),
            "market_based": [],
        }

    def _ledger(self, members):
        groups = defaultdict(list)
        for m in members:
            swept = "sweep" in m.job.tags and m.job.state == "completed"
            groups["sweep" if swept else m.job.state].append(m)
        rows = {}
        for name, group in groups.items():
            sums = self.sums(group)
            energy, total_g = sums.energy_kwh, sums.total_g
            rows[name] = _ledger_row(name, len(group), doc(energy), doc(total_g))
            kwh = _weighted(group, "idle", "energy")
            grams = _weighted(group, "idle", "operational") + _weighted(group, "idle", "embodied")
            if name != "completed" or not (_above(energy) and _above(total_g) and grams > 0):
                continue
            idle = [m for m in group if set(breakdown(m.job)["idle"]) - {"not seen"}]
            busy = [
                _scaled(energy, max(0.0, energy.value - kwh)),
                _scaled(total_g, max(0.0, total_g.value - grams)),
            ]
            rows[name] = _ledger_row(name, len(group), *busy)
            taken = _scaled(energy, kwh), _scaled(total_g, grams)
            rows["idle"] = _ledger_row("idle", len(idle), *taken)
        order = ("completed", "idle", "sweep", "failed", "killed", "lost")
        return [rows[name] for name in order if name in rows]

    def _by(self, members, key, second):
        groups = defaultdict(list)
        for m in members:
            groups[key(m.job)].append(m)
        rows = []
        for names, group in sorted(groups.items()):
            totals = self.totals(group)
            row = {"hardware" if second == "work" else "project": names[0]}
            if second:
                row[second] = names[1] if second == "work" else names[1] or None
            terms = ["jobs", "energy_kwh", "total_g"]
            terms += ["operational_g", "embodied_g"] if second != "work" else []
            if second == "work":
                row["regions"] = dict(Counter(m.job.region for m in group if m.job.region))
            rows.append(row | {term: totals[term] for term in terms})
        return sorted(rows, key=lambda row: -(row["total_g"]["value"] if row["total_g"] else 0.0))


def _intensities(members):
    return {tuple(row[:3]) for m in members for row in intensity_of(m.job)}


def _methods(members):
    return [list(one) for one in sorted({tuple(method_of(m.job)) for m in members})]


def _part_of_total(member):
    part, whole = member.sums.total_g, member.job.total_g
    return part.value / whole["value"] if part and whole and whole["value"] > 0 else 1.0


def _per_unit(old, new):
    r0, e0, o0, m0 = old[:4]
    r1, e1, o1, m1 = new[:4]
    if r0 <= 0 or r1 <= 0:
        r0, r1 = e0, e1
    efficiency = grid = hardware = 0.0
    if o0 > 0 and o1 > 0:
        weight = _log_mean(o0, o1)
        efficiency = weight * (_log(e0, e1) - _log(r0, r1))
        grid = weight * (_log(o0, o1) - _log(e0, e1))
    elif e0 > 0 and e1 > 0:
        grid = o1 - o0
    if m0 > 0 and m1 > 0:
        hardware = _log_mean(m0, m1) * (_log(m0, m1) - _log(r0, r1))
    elif r0 > 0 and r1 > 0:
        hardware = m1 - m0
    return efficiency, grid, hardware


def _log(one, other):
    return math.log(other / one) if one > 0 and other > 0 else 0.0


def _log_mean(one, other):
    return one if math.isclose(one, other) else (other - one) / math.log(other / one)


def _weighted(members, block, key, term=None):
    """The sum of a share of each job times its term in the month."""
    term = term or WEIGHTS[block, key]
    amounts = []
    for m in members:
        figure_of, share = getattr(m.sums, term), breakdown(m.job).get(block, {}).get(key, 0.0)
        amounts.append(share * figure_of.value if figure_of else 0.0)
    return sum(amounts)


def _share_of(whole, amount):
    return whole.scaled(amount / whole.value).to_doc() if whole and amount > 0 else None


def _above(figure):
    return figure is not None and figure.value > 0


def _scaled(whole, amount):
    return whole.scaled(amount / whole.value).to_doc()


def _components(members, sums):
    rows = []
    for part in ("operational", "embodied"):
        whole = getattr(sums, f"{part}_g")
        if whole is None or whole.value <= 0:
            continue
        found = defaultdict(list)
        for m in members:
            of_month, of_job = getattr(m.sums, f"{part}_g"), getattr(m.job, f"{part}_g")
            for (of, key), figure in components(m.job).items():
                if of == part and of_month and of_job and of_job["value"] > 0:
                    found[key].append(figure.scaled(of_month.value / of_job["value"]))
        known = {key: total(found[key]) for key in sorted(found)}
        # The values are those of the shares of each job's term.
        for key, figure in known.items():
            amount = _weighted(members, part, key, f"{part}_g")
            assert figure.value == pytest.approx(amount, rel=1e-9), key
        rest = whole.value - sum(figure.value for figure in known.values())
        if rest > 1e-9 * whole.value:
            known["other"] = whole.scaled(rest / whole.value)
        scale = whole.value / sum(figure.value for figure in known.values())
        rows += [
            {"part": part, "component": key, "g": figure.scaled(scale).to_doc()}
            for key, figure in known.items()
            if figure.value > 0
        ]
    return rows


def _pue(members, sums):
    """The mean PUE by energy; its range is what its own inputs move O over E by."""
    energy, grams = sums.energy_kwh, sums.operational_g
    kwh = _weighted(members, "boundary", "facility")
    if not (energy and energy.value > 0 and kwh > 0):
        return None
    sources = sorted({source for m in members for source in pue_of(m.job)[1]})
    ids = {id_ for m in members for id_ in pue_of(m.job)[2]}
    kind = weakest(m.job.method.pue["kind"] for m in members)
    found = Quantity.exact(kwh / energy.value, "1", kind, "all").sourced(*sources)
    if not (_above(grams) and grams.relative and energy.relative):
        return found
    ratio = grams.over(energy, "1").inputs
    ends = ends_of({id_: ratio[id_] for id_ in ratio if id_ in ids})
    return found.ranged(*map(math.exp, ends))


def facility(members, sums):
    """Energy times PUE, each with its range."""
    pue = _pue(members, sums)
    return Quantity.from_doc(sums.energy_kwh.to_doc()).times(pue, "kWh") if pue else None


def _method(members, sums):
    if not members:
        return None
    methods = [m.job.method for m in members]
    pue, intensity = _pue(members, sums), None
    if pue and sums.operational_g:
        ratio = sums.operational_g.over(sums.energy_kwh, "gCO2e/kWh")
        ids = {id_ for m in members for id_ in pue_of(m.job)[2]}
        texts = {row[3] for m in members for row in intensity_of(m.job)}
        ends = ends_of({id_: ratio.inputs[id_] for id_ in ratio.inputs if id_ not in ids})
        value = ratio.value / pue.value
        unit, kind = "gCO2e/kWh", sums.operational_g.kind
        intensity = Quantity.exact(value, unit, kind, "all")
        intensity = intensity.sourced(*(sorted(texts) or sums.operational_g.sources))
        intensity = intensity.ranged(*map(math.exp, ends))
    excluded = {text for method in methods for text in method.boundary_excluded}
    lives = [method.lifetime_years for method in methods]
    same = ("standard", "formula", "boundary_included", "intensity_approach")
    joined = ("engine_version", "catalog_version", "intensity_signal", "intensity_basis", "supply")
    return {
        **{name: getattr(methods[0], name) for name in same},
        **{
            name: "; ".join(sorted({getattr(method, name) for method in methods}))
            for name in joined
        },
        "boundary_excluded": sorted(excluded),
        "supplies": sorted({name for method in methods for name in method.supplies}),
        "zones": sorted({zone for method in methods for zone in method.zones}),
        "time_zone": "UTC",
        "lifetime_years": lives[0] if all(life == lives[0] for life in lives) else None,
        "pue": doc(pue),
        "intensity_g_per_kwh": doc(intensity),
    }


def _boundary(members, sums):
    energy, grams = sums.energy_kwh, sums.operational_g
    if not (energy and grams and energy.value > 0 and grams.value > 0):
        return None

    return {
        "narrow_kwh": _scaled(energy, _weighted(members, "boundary", "accelerators")),
        "narrow_g": _scaled(
            grams,
            sum(_weighted(members, "operational", n, "operational_g") for n in ACCELERATORS),
        ),
        "full_kwh": doc(facility(members, sums) or energy),
        "full_g": doc(sums.total_g),
    }


def _ledger_row(name, jobs, energy_kwh, total_g):
    return {"outcome": name, "jobs": jobs, "energy_kwh": energy_kwh, "total_g": total_g}
