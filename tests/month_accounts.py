"""A month's accounts from whole documents, in plain arithmetic, for months from parts to equal."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from gramwatt.sci.advice.jobs import grouped, work_of
from gramwatt.sci.analysis.breakdown import WEIGHTS, breakdown, method_of
from gramwatt.sci.analysis.model_totals import UNFINISHED
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.document import doc
from gramwatt.sci.journal.records import ACCELERATORS


class Accounts:
    """The accounts of members; it is given the sums, totals, R and quality of `tests.months`."""

    def __init__(self, sums, totals, count, quality):
        self.sums, self.totals, self.count, self.quality = sums, totals, count, quality

    def fields(self, month, members, before, complete, advise):
        """Fields of the document."""
        return {
            "change_parts": self._known_change(members, before),
            "trend": self._trend(month, members, before, complete),
            "budgets": [],
            **self._accounts(members, self.sums(members)),
            **self._advice(month, members, advise),
            "followed": [],
            "statement": {"organisation": None, "accountable": None, "contact": None},
            "revision": None,
            "revised": None,
            "methods": _methods(members),
        }

    def _known_change(self, members, before):
        known = [self.sums(group).total_g for group in (members, before)]
        return self.change_parts(members, before) if all(known) else None

    def unfinished_g(self, members):
        """Carbon of runs without a result."""
        return doc(self.sums([m for m in members if m.job["state"] in UNFINISHED]).total_g)

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
            row |= {"grade": self.quality(group)["grade"], "methods": methods}
            rows.append({**row, "method_break": bool(rows) and rows[-1]["methods"] != methods})
        return rows

    def _advice(self, month, members, advise):
        """Suggestions of `advise` for the jobs, and the same by hardware, work and action."""
        documents = [member.job for member in members]
        savings = advise(documents) if advise else []
        counts = Counter(work_of(job) for job in documents)
        shares = {m.job["job_id"]: _part_of_total(m) for m in members}
        real = [
            j for j in documents if not any(n["code"] == "meter-synthetic" for n in j["notices"])
        ]
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
                unit = m.job["sci"][0]["unit"] if m.job["sci"] else "job"
                cell = works.setdefault((m.job["project"], unit), [None, None])
                cell[place] = cell[place] or [0.0, 0.0, 0.0, 0.0, set()]
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
            for name, effect in zip(
                ("efficiency_g", "grid_g", "hardware_g"), per_unit, strict=True
            ):
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
            "ledger": ledger,
            "idle_not_seen_kwh": _share_of(sums.energy_kwh, _weighted(members, "idle", "not seen")),
            "chargeback": self._by(
                members, lambda j: (j["project"], j["tags"].get("user", "")), "owner"
            ),
            "by_project": self._by(members, lambda j: (j["project"],), None),
            "work": self._by(members, work_of, "work"),
            "market_based": self._market(members),
        }

    def _ledger(self, members):
        groups = defaultdict(list)
        for m in members:
            swept = "sweep" in m.job["tags"] and m.job["state"] == "completed"
            groups["sweep" if swept else m.job["state"]].append(m)
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
                _share_of(energy, energy.value - kwh),
                _share_of(total_g, total_g.value - grams),
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
            rows.append(row | {term: totals[term] for term in terms})
        return sorted(rows, key=lambda row: -(row["total_g"]["value"] if row["total_g"] else 0.0))

    def _market(self, members):
        with_contract = [m for m in members if breakdown(m.job).get("contract")]
        sums = self.sums(with_contract)
        if not (sums.energy_kwh and sums.operational_g and sums.energy_kwh.value > 0):
            return None
        grams = _weighted(with_contract, "contract", "g_per_kwh")
        market = sums.energy_kwh.scaled(grams / sums.energy_kwh.value, "gCO2e")
        source = "energy times the intensity of contracts, as tags of the jobs declare them"
        return {
            "jobs": len(with_contract),
            "market_g": market.sourced(source, "declared").to_doc(),
            "location_g": sums.operational_g.to_doc(),
        }


def _methods(members):
    return [list(one) for one in sorted({tuple(method_of(m.job)) for m in members})]


def _part_of_total(member):
    part, whole = member.sums.total_g, member.job["total_g"]
    return part.value / whole["value"] if part and whole and whole["value"] > 0 else 1.0


def _per_unit(old, new):
    r0, e0, o0, m0, _ = old
    r1, e1, o1, m1, _ = new
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
        keys = sorted({key for m in members for key in breakdown(m.job).get(part, {})})
        amounts = {key: _weighted(members, part, key, f"{part}_g") for key in keys}
        rest = whole.value - sum(amounts.values())
        if rest > 1e-9 * whole.value:
            amounts["other"] = amounts.get("other", 0.0) + rest
        scale = whole.value / sum(amounts.values())
        rows += [
            {"part": part, "component": key, "g": _share_of(whole, amount * scale)}
            for key, amount in amounts.items()
            if amount > 0
        ]
    return rows


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
        "full_kwh": _scaled(energy, _weighted(members, "boundary", "facility")),
        "full_g": doc(sums.total_g),
    }


def _ledger_row(name, jobs, energy_kwh, total_g):
    return {"outcome": name, "jobs": jobs, "energy_kwh": energy_kwh, "total_g": total_g}
