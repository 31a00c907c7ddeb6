"""Figures that stand beside a score and never enter it: what a supply contract says.

The standard keeps certificates, purchase agreements and offsets out of the intensity. Whoever has
such a figure declares it as tags, and finds it printed apart, under a heading of its own:

    contract_g_per_kwh = 12
    contract_source = "supplier's statement for 2025, cancelled guarantees of origin"

Nothing but the finished document goes in here, so that no term of the score can depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gramwatt.sci.base.document import MemoDoc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity

FIGURE, SOURCE = "contract_g_per_kwh", "contract_source"
NOTE = (
    "Market-based: what a contract says about the power that was bought. It is no part of SCI, of "
    "any total, or of any comparison."
)


def memo(
    tags: Mapping[str, str], energy_kwh: Quantity | None, pue: Quantity
) -> tuple[MemoDoc | None, tuple[Notice, ...]]:
    """The contract's figure [gCO2e/kWh] and energy x PUE times it [gCO2e]; None where not given.

    A figure without a source, or one that is no number, leaves a notice.
    """
    text = tags.get(FIGURE)
    if text is None:
        return None, ()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        return None, (_ignored(f"{text!r} is not a number of grams per kWh"),)
    if not tags.get(SOURCE):
        return None, (_ignored(f"it needs the tag {SOURCE!r}, which says who states it"),)
    contract = Quantity.exact(value, "gCO2e/kWh", "declared", tags[SOURCE])
    grams = energy_kwh.times(pue, "kWh").times(contract, "gCO2e") if energy_kwh else None
    return {
        "contract_g_per_kwh": contract.to_doc(),
        "contract_g": grams.to_doc() if grams else None,
        "note": NOTE,
    }, ()


def _ignored(why: str) -> Notice:
    return Notice("argument-ignored", f"The tag {FIGURE!r} is ignored: {why}.", None)
