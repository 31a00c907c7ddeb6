"""Names of parts within a phrase: a log line, a renderer's string, a sentence of a report.

A phrase is read word by word. Of each place the longest run of words that names a part counts, if
it says a model ("H100", "RTX 3090 Ti", "Gaudi 2") and no word goes on behind it that could make it
another one: "RTX 3090 Super" and "A100-X" stay unknown. Memory and form factor that stand elsewhere
("PCIe", "80GB") narrow what is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from gramwatt.sci.catalog.names import VENDORS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOST_CHARACTERS, LONGEST = 400, 7
"""Longest phrase that is read, and most words of a name in it."""
_WORD = re.compile(
    r"\d{1,2}x(?=[a-z]+\d)|[a-z]+\d+[a-z]*?(?=x\d{1,2}(?![a-z0-9]))|[a-z0-9]+", re.IGNORECASE
)
_AROUND = re.compile(
    r"\(rev \w+\)|mac\s?book\s?(?:pro|air)?|mac\s?(?:mini|studio|pro)|imac(?:\s?pro)?"
    r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d|\[[0-9a-f]{4}(?::[0-9a-f]{4})?\]",
    re.IGNORECASE,
)
"""Addresses, and machines whose names have the words of a chip: the M3 in a MacBook Pro."""
_MODEL = re.compile(r"[a-z]+\d+[a-z0-9]*|\d{3,4}[a-z]+|[1-9]\d{3}|\d[ti]", re.IGNORECASE)
"""A word that says a model: "h100", "3090ti", "4090", "8t"."""
NAMED = _words("titan thor trillium ironwood gaudi trainium inferentia coral orin xavier maia")
"""Words that say a model without a digit, where the phrase is of such parts."""
_OF_NAMED = re.compile(
    r"nvidia|geforce|jetson|agx|orin|tpu|intel|habana|hpu|gaudi|aws|neuron|google|azure|trainium"
    r"|inferentia",
    re.IGNORECASE,
)
BRAND = re.compile(
    r"\b(?:(?P<nvidia>nvidia|geforce|quadro|tesla|[gr]tx|jetson)|(?P<apple>apple)|(?P<intel>arc|habana)"
    r"|(?P<amd>radeon(?=\s+(?:rx|pro|vii|ai))|instinct|firepro|firegl|(?:amd|ati)\b(?!\s+(?:epyc|ryzen|threadripper|opteron"
    r"|athlon))))\b",
    re.IGNORECASE,
)
_R9 = re.compile(r"r\d", re.IGNORECASE)
SHORT = re.compile(r"[a-z]\d", re.IGNORECASE)
"""Names so short that other things have them: "M4", "T4", "A2"."""
_CLUE = re.compile(
    r"nvidia|tesla|gpu|cuda|vram|colab|kaggle|apple|\bmac|imac|macos|google|gcp|tensor",
    re.IGNORECASE,
)
_APPLE = re.compile(r"apple|\bmac|imac|macos|metal|mps|darwin|silicon|arm64", re.IGNORECASE)
_CARD = re.compile(
    r"nvidia|geforce|rtx|gtx|radeon|\brx\b|\bgpus?\b|cuda|vram|graphics|rocm|card|\bti\b|super",
    re.IGNORECASE,
)
_TPU = re.compile(r"tpu|google|pod", re.IGNORECASE)
_CPU_BEFORE = re.compile(
    r"(?:ryzen|threadripper|epyc|opteron|athlon|xeon|core|ultra|celeron|pentium|i[3579]|gold|silver"
    r"|platinum|cpu|e[357]|graviton|driver|version|python|cuda|torch|port)\b[\s\w().:=-]{0,14}$",
    re.IGNORECASE,
)
"""What stands before a number that is a processor's or a version's."""
_TIGHT = re.compile(r"[\s_-]*")
_GB = re.compile(r"\s*g(?:i?b|o)?\b", re.IGNORECASE)
_GB_BEHIND = re.compile(r"\s*\(?\d+\s?gi?b?\b", re.IGNORECASE)
_NOT_OF_DEVICE = re.compile(
    r"\s*(?:system |host |main |of )?(?:ddr\d?|ram|total|disk|ssd|swap|storage|unified|used|free|in"
    r" use|/\s*\d)",
    re.IGNORECASE,
)
_LINES = _words("rtx gtx rx arc jetson apple mac")
_OF_LINE = _words("gtx gt rx vega geforce radeon")
"""Lines whose models may be numbers of two or three digits."""
VARIANTS = _words(
    "mini plus lite se le ae s x m d t xl max pro ultra super ti edge cnx mxm v2 v3 c e a "
    "b z black embedded prod drive nvswitch fhhl go fx hd gt gts mx"
)
"""Words that make another model of the one before them, beside words of the catalog's names."""
NEUTRAL = _words(
    "gpu gpus graphics card cards accelerator accelerators tensor core series edition "
    "nvidia amd intel geforce radeon pci pcie nvlink desktop server servers node nodes gb "
    "gib vram cuda rocm of oam data center shared chip chips device devices module "
    "developer kit cloud tpu oc gaming aero founders dual trio ventus eagle tuf rog strix "
    "windforce suprim phantom nitro pulse with design mps metal ane npu cpu ram llm vm "
    "vms ai hpc os gen4 gen5 hbm2 hbm2e hbm3 hbm3e gddr5 gddr6 gddr6x gddr7 direct3d11 "
    "direct3d12 sse2 opengl"
)


class Span(Struct, frozen=True):
    """A name in a phrase: what it means, and where it begins and ends."""

    ids: tuple[str, ...]
    begin: int
    end: int


def spans(
    text: str,
    meant: Callable[[str], Sequence[str]],
    memory: Mapping[str, float | None],
    of_names: Collection[str],
) -> Iterator[Span]:
    """Yield the names of parts in a phrase, as `meant` knows them, in their order.

    `memory` [GB] is by id; `of_names` are the words of all names. A name that goes on with a word
    that the catalog does not have in it is left out.
    """
    if len(text) > MOST_CHARACTERS:
        return
    text = _AROUND.sub(_blank, text)
    tokens = list(_WORD.finditer(text))
    at = 0
    while at < len(tokens):
        last, ids = _longest(text, tokens, at, meant)
        if not ids:
            at += 1
            continue
        begin, end = tokens[at].start(), tokens[last].end()
        run = tokens[at : last + 1]
        at = last + 1
        if _goes_on_before(text, tokens, at - len(run), run, of_names):
            continue
        if fit := _not_another(text, tokens, last, _of_brand(text[:end], ids), memory, of_names):
            yield Span(fit, begin, end)
        else:
            at += 1  # the word that makes another one of it is a part of its name


def _blank(match: re.Match[str]) -> str:
    """Return spaces instead of a match, of a Mac's name with its first word."""
    return ("mac:" if match[0][0].lower() in "mi" else "").ljust(len(match[0]))


def _of_brand(before: str, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of the maker that was named last, if any: a GeForce 6800 is not a Radeon."""
    brands = [match.lastgroup for match in BRAND.finditer(before)]
    if not brands:
        return ids
    makers = {"nvidia", "apple", "amd", "intel"} - {brands[-1]}
    return tuple(row_id for row_id in ids if row_id.partition("-")[0] not in makers)


def _goes_on_before(
    text: str,
    tokens: list[re.Match[str]],
    at: int,
    run: list[re.Match[str]],
    of_names: Collection[str],
) -> bool:
    """Tell whether the word before makes another model of it: "Pro 5700 XT", "FX 4500"."""
    if not at:
        return False
    word, gap = tokens[at - 1][0], text[tokens[at - 1].end() : tokens[at].start()]
    low = word.lower()
    if not _TIGHT.fullmatch(gap) or low in NEUTRAL or low in VENDORS or low in _LINES:
        return False
    if "-" in gap or not gap:
        return not (word.islower() or word.isupper() and len(word) > 3 and word.isalpha())
    by_number = run[0][0][:1].isdigit()
    if by_number and (low in of_names or low in VARIANTS):
        return True
    return by_number and word.isalpha() and not word.islower() and len(run) == 1


def _longest(
    text: str, tokens: list[re.Match[str]], at: int, meant: Callable[[str], Sequence[str]]
) -> tuple[int, tuple[str, ...]]:
    """Return the last word of the longest name that begins here, and what it means."""
    most = min(at + LONGEST, len(tokens)) - 1
    for last in range(at, most):  # a comma or bracket ends a name
        if not _TIGHT.fullmatch(text[tokens[last].end() : tokens[last + 1].start()]):
            most = last
            break
    for last in range(most, at - 1, -1):
        begin, end = tokens[at].start(), tokens[last].end()
        name = text[begin:end]
        if _says_model(text, tokens[at : last + 1]) and (
            ids := meant(name) or (re.fullmatch(r"v\d\w?", name) and meant(f"TPU {name}"))
        ):
            return last, tuple(ids)
    return at, ()


def _says_model(text: str, run: list[re.Match[str]]) -> bool:
    """Tell whether words may name a part: one says a model, and it is not something else's."""
    in_line = any(word[0].lower() in _OF_LINE for word in run)
    models = [
        word[0]
        for word in run
        if (_MODEL.fullmatch(word[0]) and not _R9.fullmatch(word[0]))
        or (in_line and re.fullmatch(r"\d{2,3}", word[0]))
    ]
    named = [word for word in run if word[0].lower() in NAMED]
    if not models:
        return bool(named) and (len(run) > 1 or bool(_OF_NAMED.search(text)))
    if re.fullmatch(r"v[2-8][a-z]?", models[0], re.IGNORECASE) and not named:
        return bool(_TPU.search(text))
    if len(run) == 1 and models[0].isdigit():
        before = text[: run[0].start()]
        is_card = _CARD.search(text) or _GB_BEHIND.match(text[run[0].end() :])
        return bool(is_card) and not _CPU_BEFORE.search(before[-24:])
    if len(run) == 1 and SHORT.fullmatch(models[0]):
        if models[0][0].lower() == "m":
            return bool(_APPLE.search(text))
        return models[0][0].isupper() or bool(_CLUE.search(text))
    return not (
        len(models) == 1
        and models[0].isdigit()
        and _CPU_BEFORE.search(text[max(0, run[0].start() - 24) : run[0].start()])
    )


def _not_another(
    text: str,
    tokens: list[re.Match[str]],
    last: int,
    ids: tuple[str, ...],
    memory: Mapping[str, float | None],
    of_names: Collection[str],
) -> tuple[str, ...]:
    """Return what a name means with the word that follows it; nothing where that makes another."""
    if last + 1 == len(tokens):
        return ids
    gap = text[tokens[last].end() : tokens[last + 1].start()]
    if not _TIGHT.fullmatch(gap):
        return ids
    word = tokens[last + 1][0]
    behind = text[tokens[last + 1].end() :]
    if size := re.fullmatch(r"(\d+)(?:g(?:i?b|o)?)?", word, re.IGNORECASE):
        if word.isdigit() and not _GB.match(behind):
            is_slice = ids[0].startswith("google-tpu")  # "TPU v3-256"
            return ids if is_slice or gap.isspace() or not gap else ()
        if _NOT_OF_DEVICE.match(re.sub(r"^\s*gi?b\b", "", behind, flags=re.IGNORECASE)):
            return ids
        return of_memory(ids, float(size[1]), memory)
    low = word.lower()
    if (
        low in NEUTRAL
        or low in _LINES
        or low in VENDORS
        or re.fullmatch(r"x\d{1,2}|\d{1,2}x|\d{4,6}mi?b|sm\d*|cu\d+", low)
    ):
        return ids
    if len(tokens[last][0]) > 2 and tokens[last][0].lower() in NAMED and not word.islower():
        return ()  # "Titan Ridge"
    is_small_word = len(low) <= 2 and word.islower() and gap.isspace() and low not in ("ti", "xt")
    is_variant = (low in of_names or low in VARIANTS) and not is_small_word
    is_model = bool(re.search(r"\d", word)) or (word.isupper() and len(word) == 2)
    return () if is_variant or is_model else ids


def of_memory(
    ids: tuple[str, ...], gb: float, memory: Mapping[str, float | None]
) -> tuple[str, ...]:
    """Return the parts whose memory a figure may be; drivers report up to a seventh less."""
    return tuple(i for i in ids if (memory.get(i) or 0) / 1.15 <= gb <= (memory.get(i) or 0) * 1.05)


def narrowed(
    text: str, ids: tuple[str, ...], memory: Mapping[str, float | None]
) -> tuple[str, ...]:
    """Return of several parts those whose form factor and memory the phrase names, if any."""
    for pattern, form in (
        (r"sxm\d?|[hd]gx", "sxm"),
        (r"pcie?(?![/ ]?(?:sse|\d|gen|x\d))", "pcie"),
        (r"nvl\b", "nvl"),
    ):
        if re.search(rf"(?<![a-z])(?:{pattern})", text, re.IGNORECASE):
            ids = tuple(i for i in ids if f"-{form}" in i) or ids
    sizes = [
        float(match[1]) / (1024 if match[2].lower() == "m" else 1)
        for match in re.finditer(r"(\d+(?:\.\d+)?)\s?([gm])(?:i?b|o)?\b", text, re.IGNORECASE)
        if not _NOT_OF_DEVICE.match(text[match.end() :])
    ]
    for gb in sorted(sizes, reverse=True):
        if fit := of_memory(ids, gb, memory):
            return fit
    return ids
